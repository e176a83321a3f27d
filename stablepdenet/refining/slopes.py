"""Jacobians of the projected residual from few numbers of a state: what makes refined answers fast."""

from __future__ import annotations

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy import ndarray

from stablepdenet.operators import Derivative, Fields
from stablepdenet.problems import Problem
from stablepdenet.problems.physics import block_residuals
from stablepdenet.refining.least_squares import Steps, factorised, iterated
from stablepdenet.refining.residuals import Part, Tests, fields_of, jacobian, limit, projected

# What modes may leave of a Jacobian, of the smallest singular value of most: then steps point where they should. They
# are taken on the exact residual, so what is left only makes them a little less direct. One step has to be right alone.
LEFT, LEFT_ALONE = 0.3, 0.003
# Condition numbers of most Jacobians up to which conjugate gradients are faster than factorisations.
WELL = 20.0
# Jacobians whose singular values are asked for.
ASKED = 40
# Slopes that change by no more, of their size, are constant in float32.
ROUNDING = 1e-5
# Numbers that all tried Jacobians may be together, and all modes.
TRIED, KEPT = 2**26, 2**24
# The share of tried states that count: the worst may be those of inputs that nobody has.
MOST = 0.98

# The derivatives of the residuals at the points by the fields there, for each query of the blocks.
Derivatives = list[dict[Derivative, Float[Array, "..."]]]


class States(NamedTuple):
    """Coefficients and the inputs that they belong to."""

    c: Float[Array, "states k"]
    a: Float[Array, "states m"]


class Slopes(eqx.Module):
    """The Jacobian J of the projected residual at any state:

        J = T_0 + sum_i (<M_i, F'> - o_i) T_i.

    F' are the derivatives of the residuals by u and its derivatives at the points, as u_x and u for u u_x, or k for
    k u_xx; they cost little. J is linear in them, whatever the equation. T_0 is the mean of J at tried states. The
    other T_i are orthonormal, and J at tried states lies among them; M_i is what T_i sees of F'. So this is the exact
    J, but for what is not among the T_i.
    """

    modes: Float[Array, "_ rank rows"]
    weights: Derivatives
    offsets: Float[Array, " modes"]
    # Where J is the same for all.
    inverse: Float[Array, "rows rank"] | None
    # Whether few conjugate gradients solve for a step.
    iterative: bool = eqx.field(static=True)

    def steps(self, problem: Problem, fields: list[Fields], a: Float[Array, "batch m"]) -> Steps:
        """r -> the steps of least |J step - r|, and which of them were found."""
        if self.inverse is not None:
            inverse = self.inverse
            return lambda residual: (residual @ inverse, jnp.ones(len(residual), bool))
        columns = self(problem, fields, a)
        return iterated(columns) if self.iterative else factorised(columns)

    def __call__(
        self, problem: Problem, fields: list[Fields], a: Float[Array, "batch m"]
    ) -> Float[Array, "batch rank rows"]:
        own = derivatives(problem, fields, a, [tuple(each) for each in self.weights])
        seen = [
            jnp.einsum("b...,m...->bm", found[index], weight)
            for found, weights in zip(own, self.weights, strict=True)
            for index, weight in weights.items()
        ]
        numbers = jnp.broadcast_to(sum(seen, -self.offsets), (len(a), len(self.offsets)))
        flat = jnp.pad(numbers, ((0, 0), (1, 0)), constant_values=1.0) @ self.modes.reshape(len(self.modes), -1)
        return flat.reshape(len(a), *self.modes.shape[1:])


def derivatives(
    problem: Problem, fields: list[Fields], a: Float[Array, "batch m"], wanted: list[tuple[Derivative, ...]]
) -> Derivatives:
    """F' by the wanted fields. A residual is taken to be one of its own point: `make_slopes` tries it."""
    _, push = jax.linearize(lambda fields: block_residuals(problem)(fields, a), fields)
    still = jax.tree.map(jnp.zeros_like, fields)

    def by(query: int, index: Derivative) -> Array:
        one = {**still[query], index: jnp.ones_like(still[query][index])}
        return push([*still[:query], one, *still[query + 1 :]])[_names(problem)[query]]

    return [{index: by(query, index) for index in own} for query, own in enumerate(wanted)]


def make_slopes(
    problem: Problem, tests: list[Tests], parts: list[Part], states: States, *, alone: bool
) -> Slopes | None:
    """The modes of the Jacobians at tried states, for one step or several; None where they are too many numbers, or no
    linear function of F'."""
    all_indices = [tuple(part.own) for part in parts]

    def tried(c: Float[Array, "1 k"], a: Float[Array, "1 m"]) -> tuple[Array, Derivatives]:
        _, fields = fields_of(parts, c)
        return jacobian(problem, tests, parts, fields, a), derivatives(problem, fields, a, all_indices)

    shape = jax.eval_shape(tried, states.c[:1], states.a[:1])[0].shape
    if len(states.c) * int(np.prod(shape)) > TRIED:
        return None
    each = jax.jit(lambda states: jax.lax.map(lambda row: tried(row[0][None], row[1][None]), states))(states)
    columns = np.asarray(each[0], np.float64)
    own = [{index: np.asarray(values[:, 0], np.float64) for index, values in found.items()} for found in each[1]]
    finite = np.all(np.isfinite(columns), axis=(1, 2))
    if np.sum(finite) < len(finite) / 2:
        return None
    columns, dtype = columns[finite], states.c.dtype
    own = [{index: values[finite] for index, values in found.items()} for found in own]
    own = [{index: values for index, values in found.items() if _changes(values, dtype)} for found in own]
    sizes = np.linalg.svd(columns[:: max(1, len(columns) // ASKED)], compute_uv=False)
    left = (LEFT_ALONE if alone else LEFT) * float(np.median(np.maximum(sizes[:, -1], 1e-3 * sizes[:, 0])))
    middle, modes = _modes(columns, left)
    if modes.size > KEPT:
        return None
    assembled = _Assembly(problem, tests, parts)
    centres = [{index: jnp.asarray(values.mean(axis=0), dtype) for index, values in found.items()} for found in own]
    if not assembled.fits(centres):
        return None
    weights = assembled.transposed(jnp.asarray(modes, dtype), centres)
    offsets = sum(
        (jnp.einsum("m...,...->m", w, v) for w, v in zip(*map(jax.tree.leaves, (weights, centres)), strict=True)),
        jnp.zeros(len(modes), dtype),
    )
    inverse = None if len(modes) else jnp.asarray(np.linalg.pinv(middle), dtype)
    together = jnp.asarray(np.concatenate([middle[None], modes]), dtype)
    found = Slopes(together, weights, offsets, inverse, bool(np.quantile(sizes[:, 0] / sizes[:, -1], 0.9) <= WELL))
    some = States(states.c[finite], states.a[finite])
    own = jax.jit(lambda states: found(problem, fields_of(parts, states.c)[1], states.a))(some)
    wrong = np.linalg.norm((np.asarray(own) - columns).reshape(len(columns), -1), axis=1)
    # Wrong, as where a residual depends on other points than its own.
    return found if np.quantile(wrong, MOST) <= 2 * left + limit(ROUNDING, dtype) * np.linalg.norm(middle) else None


class _Assembly:
    """J from F', which it is linear in."""

    def __init__(self, problem: Problem, tests: list[Tests], parts: list[Part]):
        self.problem, self.tests, self.turned = problem, tests, [part.turned for part in parts]
        rank = len(next(iter(self.turned[0].values())))
        fields = [{index: e[:1] for index, e in turned.items()} for turned in self.turned]
        a = jax.ShapeDtypeStruct((1, problem.inputs.size), next(iter(fields[0].values())).dtype)
        shapes = jax.eval_shape(block_residuals(problem), fields, a)
        self.shapes = {name: (rank, *found.shape[1:]) for name, found in shapes.items()}

    def fits(self, own: Derivatives) -> bool:
        """Whether there is a value of each residual for each point of the fields that its slopes change with: where
        blocks pair their points, there is not."""
        pairs = [
            (self.turned[q][index], self.shapes[_names(self.problem)[q]]) for q, f in enumerate(own) for index in f
        ]
        return all(turned.shape[1] == shape[1] for turned, shape in pairs)

    def __call__(self, own: Derivatives) -> Float[Array, "rank rows"]:
        dtype = next(iter(self.turned[0].values())).dtype
        found = {name: jnp.zeros(shape, dtype) for name, shape in self.shapes.items()}
        for name, turned, slopes in zip(_names(self.problem), self.turned, own, strict=True):
            for index, slope in slopes.items():
                direction = turned[index].reshape(*turned[index].shape, *[1] * (slope.ndim - 1))
                found[name] = found[name] + slope[None] * direction
        return projected(self.problem, self.tests, found)

    def transposed(self, modes: Float[Array, "modes rank rows"], own: Derivatives) -> Derivatives:
        """What each mode sees of F'."""
        pull = jax.linear_transpose(self, own)
        return jax.jit(lambda modes: jax.lax.map(lambda mode: pull(mode)[0], modes))(modes)


def _modes(
    columns: Float[ndarray, "states rank rows"], enough: float
) -> tuple[Float[ndarray, "rank rows"], Float[ndarray, "_ rank rows"]]:
    """Their mean, and as few orthonormal modes as leave no more than enough of each one's difference from it."""
    middle = columns.mean(axis=0)
    apart = (columns - middle).reshape(len(columns), -1)
    sizes, mixed = np.linalg.eigh(apart @ apart.T)
    sizes, mixed = np.maximum(sizes[::-1], 0.0), mixed[:, ::-1]
    # What is left of each, with so many modes.
    shares = mixed**2 * sizes
    left = np.sqrt(np.maximum(np.sum(shares, axis=1, keepdims=True) - np.cumsum(shares, axis=1), 0.0))
    left = np.concatenate([np.linalg.norm(apart, axis=1)[:, None], left], axis=1)
    count = int(np.argmax(np.quantile(left, MOST, axis=0) <= enough))
    modes = (mixed[:, :count].T @ apart) / np.sqrt(sizes[:count, None])
    return middle, modes.reshape(count, *middle.shape)


def _changes(values: Float[ndarray, "states n *channels"], dtype: jnp.dtype) -> bool:
    return bool(np.max(np.ptp(values, axis=0)) > limit(ROUNDING, dtype) * np.max(np.abs(values)))


def _names(problem: Problem) -> list[str]:
    """The block of each query."""
    return [bound.block.name for bound in problem.bound for _ in bound.queries]
