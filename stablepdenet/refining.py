"""Refining: the physics used once more, at inference. Label-free, for any operator with a basis, trained or solved."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float
from numpy import ndarray

from stablepdenet.errors import ConfigError
from stablepdenet.operators import AbstractBasisOperator, AbstractOperator, Fields, Functions, MovingFrameOperator
from stablepdenet.problems import Block, Problem
from stablepdenet.problems.physics import block_queries, block_residuals
from stablepdenet.projecting import project, warn_if_poor

# Of the largest singular value: what is below, float32 cannot tell from rounding; float64 can tell more.
CUT = 1e-5
# Of the fields that a residual is made of, in float32.
ROUNDING = 2e-6
# Inputs whose linearised residuals say which directions there are.
TRIED = 8
# Where a step moves u or a derivative by more, of its own size, the next one does not arrive.
FAR = 0.25
# Inputs that are asked whether their steps settle.
ASKED = 20


# The test functions of a block, or None where there are fewer points than functions.
Tests = Float[Array, "_ _"] | None


class Part(NamedTuple):
    """What a query of the problem's blocks asks for: of the functions whose coefficients are free, of the lift's, and
    of the free ones along the directions."""

    own: Fields
    lift: Fields
    turned: Fields


class Progress(NamedTuple):
    """Fields after some steps, the sum of these in the directions' coordinates, and by how much the last one moved the
    fields, of their own size."""

    fields: list[Fields]
    total: Float[Array, " rank"]
    moved: Float[Array, ""]


class RefinedOperator(AbstractBasisOperator):
    """An operator whose coefficients take `steps` Gauss-Newton steps on the physics residual, in the space of its own
    basis. Steps start from c or from 0, whichever has the smaller residual:

        c <- c - W (J W)^+ r(c, a),   r = (sqrt(w_q / N_q) P_q F_q(sum_j c_j phi_j, a))_q,   J = dr/dc.

    So an attack cannot send the steps astray from a start that is worse than none; and steps after which r is larger
    are not taken. Inputs whose last step but one still moved u or a derivative by a quarter take `further` ones before
    the last.
    P_q is the projection onto the functions phi themselves: what no combination of them can follow, as a rough input
    leaves it, is not fitted. W spans the directions that are not rounding, scaled so that J W is near orthonormal.
    It is an operator like any other: attacks and audits go through the steps.
    """

    operator: AbstractBasisOperator
    directions: Float[Array, "free rank"]
    parts: list[Part]
    tests: list[Tests]
    problem: Problem = eqx.field(static=True)
    steps: int = eqx.field(static=True)
    further: int = eqx.field(static=True)

    @property
    def lifted(self) -> bool:
        return self.operator.lifted

    def basis(self, points: Float[Array, "n dim"]) -> Float[Array, "n k *components"]:
        return self.operator.basis(points)

    def coefficients(self, a: Float[Array, "batch m"]) -> Float[Array, "batch k"]:
        c = self.operator.coefficients(a)
        free = len(self.directions)
        # One input at a time: the Jacobian of each is as large as the basis on all points.
        kept, steps, _ = jax.lax.map(lambda pair: self._steps(*pair), (c, a))
        own = jnp.where(kept[:, None], c[:, :free], 0.0) - steps @ self.directions.T
        return jnp.concatenate([own, c[:, free:]], axis=1)

    def settled(self, a: Float[Array, "batch m"]) -> Bool[Array, " batch"]:
        """Whether the steps of each answer come to an end. Where they do not, it may be wrong, however small r is."""
        _, _, moved = jax.lax.map(lambda pair: self._steps(*pair), (self.operator.coefficients(a), a))
        return moved <= FAR

    def _steps(
        self, c: Float[Array, " k"], a: Float[Array, " m"]
    ) -> tuple[Bool[Array, ""], Float[Array, " rank"], Float[Array, ""]]:
        """Whether the operator's own coefficients are where to start, all steps in the directions' coordinates, and by
        how much the last one moved the fields."""

        def residual_of(fields: list[Fields]) -> Float[Array, "batch rows"]:
            return projected_residual(self.problem, self.tests, fields, a)

        def size(fields: list[Fields]) -> Float[Array, ""]:
            return jnp.sum(residual_of(fields) ** 2)

        nothing, fields = _fields(self.parts, c)
        # Also where the residual of 0 is not a number.
        kept = ~(size(fields) >= size(nothing))
        fields = jax.tree.map(lambda ours, none: jnp.where(kept, ours, none), fields, nothing)
        turned = [part.turned for part in self.parts]
        rank = self.directions.shape[1]

        def advance(at: Progress) -> Progress:
            # All columns as one batch: a vmap of the derivative has a dimension of one that slows its gradients.
            many = jax.tree.map(lambda field: jnp.broadcast_to(field, (rank, *field.shape[1:])), at.fields)
            _, columns = jax.jvp(residual_of, (many,), (turned,))
            gram = columns @ columns.T
            # W makes the Gram matrix near the identity; the ridge is for inputs far from the state it was made at.
            ridge = jnp.finfo(gram.dtype).eps * jnp.trace(gram) * jnp.eye(len(gram))
            step = jax.scipy.linalg.solve(gram + ridge, columns @ residual_of(at.fields)[0], assume_a="pos")
            change = jax.tree.map(lambda entry: step[None] @ entry, turned)
            fields = jax.tree.map(jnp.subtract, at.fields, change)
            return Progress(fields, at.total + step, _ratio(change, fields))

        start = at = Progress(fields, jnp.zeros(rank), jnp.zeros(()))
        for _ in range(self.steps - 1):
            at = advance(at)
        if self.further:
            at = self._arrive(advance, at)
        if self.steps:
            at = advance(at)
        # Steps that did not help are not taken.
        return kept, jnp.where(size(at.fields) < size(start.fields), at.total, 0.0), at.moved

    def _arrive(self, advance: Callable[[Progress], Progress], at: Progress) -> Progress:
        """The `further` steps where they are needed. Gradients do not go through them: where they arrive, those of the
        step after them are the answer's."""
        far, stopped = at.moved > FAR, jax.lax.stop_gradient(at)

        def more(at: Progress) -> Progress:
            return jax.lax.stop_gradient(jax.lax.fori_loop(0, self.further, lambda _, at: advance(at), at))

        arrived = jax.lax.cond(far, more, lambda at: at, stopped)
        return jax.tree.map(lambda new, old: jnp.where(far, new, old), arrived, at)


def refine(
    operator: Any,
    problem: Problem,
    *,
    steps: int = 1,
    further: int = 0,
    basis: AbstractBasisOperator | Functions | None = None,
) -> RefinedOperator:
    """The operator with `steps` Gauss-Newton steps after it, and `further` ones for inputs that have not arrived by
    then; one is enough for a linear problem. Anything callable as (a, points) -> u that has no basis is projected onto
    that of `solve`, or onto the one given: by functions of the points, or by an operator that has it."""
    if basis is not None or not isinstance(operator, AbstractBasisOperator):
        refined = refine(project(operator, problem, basis), problem, steps=steps, further=further)
        warn_if_poor(refined, dataclasses.replace(refined, steps=steps + 1), problem)
        return refined
    problem = dataclasses.replace(problem, blocks=problem.refinement_blocks or problem.blocks, refinement_blocks=())
    size = problem.inputs.size
    a = problem.sample(TRIED, key=jax.random.key(0))
    c = operator.coefficients(a)
    free = c.shape[1] - (size if operator.lifted else 0)
    problem = _open(operator, problem, free)
    bases = [operator.features(query) for query in block_queries(problem)]
    plain = [Part(jax.tree.map(lambda e: e[:free], b), jax.tree.map(lambda e: e[free:], b), {}) for b in bases]
    tests = _all_tests(operator, problem, plain, c[0], a[0])

    def residual(own: Float[Array, " free"], c: Float[Array, " k"], a: Float[Array, " m"]) -> Float[Array, " rows"]:
        return projected_residual(problem, tests, _fields(plain, jnp.concatenate([own, c[free:]]))[1], a)[0]

    slope = jax.jit(jax.jacfwd(residual))
    stacked = np.concatenate([np.asarray(slope(row[:free], row, of), np.float64) for row, of in zip(c, a, strict=True)])
    if not np.all(np.isfinite(stacked)):
        raise ConfigError(f"Problem '{problem.name}' has residuals that are not finite at its own inputs.")
    _, values, right = np.linalg.svd(stacked / np.sqrt(TRIED), full_matrices=False)
    # With more unknowns than equations, some would follow rounding.
    rank = min(len(stacked) // TRIED, max(1, int(np.sum(values > _limit(CUT, c.dtype) * values[0]))))
    directions = (right[:rank] / values[:rank, None]).T
    turn = jnp.asarray(directions.T, c.dtype)
    parts = [part._replace(turned=jax.tree.map(lambda entry: turn @ entry, part.own)) for part in plain]
    return RefinedOperator(operator, turn.T, parts, tests, problem, steps, further)


def warn_unsettled(operator: AbstractOperator, problem: Problem) -> None:
    """Tries a refined operator on inputs of the problem's own, without labels; says so where steps do not settle."""
    refined = operator.operator if isinstance(operator, MovingFrameOperator) else operator
    if not isinstance(refined, RefinedOperator):
        return
    a = problem.sample(ASKED, key=jax.random.key(1))
    left = int(jnp.sum(~jax.jit(lambda a: refined.settled(a))(a)))
    if left:
        warnings.warn(
            f"Refining does not settle on {left} of {ASKED} inputs of '{problem.name}', whose answers are not to be "
            "trusted: its functions or its points are too few. Raise operator.width, or the number of points.",
            stacklevel=3,
        )


def _open(operator: AbstractBasisOperator, problem: Problem, free: int) -> Problem:
    """The problem without the blocks that the operator satisfies by its construction: those whose residual a change of
    coefficients leaves as it is, but for what rounding of the fields that it is made of can do to it."""
    a = problem.sample(1, key=jax.random.key(0))
    c = operator.coefficients(a)
    change = jax.random.normal(jax.random.key(1), (1, free))
    bases = [operator.features(query) for query in block_queries(problem)]
    before, after = ([{w: x @ e for w, e in basis.items()} for basis in bases] for x in (c, c.at[:, :free].add(change)))
    # Of one size with the change, but of random signs: nothing cancels, neither in a sum over functions nor of points.
    signs = iter(jax.random.split(jax.random.key(2), sum(map(len, bases))))
    noise = [
        {
            w: jax.random.rademacher(next(signs), (1, e.shape[1])) * (jnp.abs(change) @ jnp.abs(e[:free]))
            for w, e in b.items()
        }
        for b in bases
    ]
    residuals = block_residuals(problem)
    reached, rounded = jax.jvp(lambda fields: residuals(fields, a), (after,), (noise,))
    start = residuals(before, a)

    def is_open(block: Block) -> bool:
        moved = jnp.max(jnp.abs(reached[block.name] - start[block.name]))
        # Nor is it closed where that is not a number.
        return not bool(moved <= _limit(ROUNDING, c.dtype) * jnp.max(jnp.abs(rounded[block.name])))

    kept = tuple(block for block in problem.blocks if is_open(block))
    return dataclasses.replace(problem, blocks=kept or problem.blocks)


def projected_residual(
    problem: Problem, tests: list[Tests], fields: list[Fields], a: Float[Array, " m"]
) -> Float[Array, "batch rows"]:
    """sqrt(w_q / N_q) P_q F_q of all blocks, for all fields and one input. Without P its square is the physics loss
    (eq:physics-loss)."""
    found = block_residuals(problem)(fields, a[None])
    rows = []
    for block, own in zip(problem.blocks, tests, strict=True):
        residual = found[block.name]
        residual = jnp.sqrt(block.weight / residual.shape[1]) * residual
        if own is not None:
            residual = jnp.einsum("tn,bn...->bt...", own, residual)
        rows.append(residual.reshape(len(residual), -1))
    return jnp.concatenate(rows, axis=1)


def _fields(parts: list[Part], c: Float[Array, " k"]) -> tuple[list[Fields], list[Fields]]:
    """Those of the lift alone, and of all coefficients."""
    nothing, fields = [], []
    for part in parts:
        free = len(next(iter(part.own.values())))
        nothing.append({index: c[None, free:] @ entry for index, entry in part.lift.items()})
        fields.append({index: nothing[-1][index] + c[None, :free] @ entry for index, entry in part.own.items()})
    return nothing, fields


def _ratio(change: list[Fields], fields: list[Fields]) -> Float[Array, ""]:
    """The largest change of u or one of its derivatives over the points of all blocks, of its own norm there."""

    def norms(blocks: list[Fields]) -> Float[Array, " multi_indices"]:
        # Nobody asks for the gradient, which at zero is not a number.
        blocks = jax.lax.stop_gradient(blocks)
        multi_indices = sorted({index for block in blocks for index in block})
        own = [[block[index] for block in blocks if index in block] for index in multi_indices]
        return jnp.stack([jnp.linalg.norm(jnp.concatenate(parts, axis=1)) for parts in own])

    return jnp.max(norms(change) / norms(fields))


def _all_tests(
    operator: AbstractBasisOperator, problem: Problem, parts: list[Part], c: Float[Array, " k"], a: Float[Array, " m"]
) -> list[Tests]:
    """Those of every block. A block may pair its points, as periodic ones do: the first points of its pairs count."""
    free = len(next(iter(parts[0].own.values())))
    shapes = jax.eval_shape(lambda c, a: block_residuals(problem)(_fields(parts, c)[1], a[None]), c, a)
    return [_tests(operator, block.points[: shapes[block.name].shape[1]], free) for block in problem.blocks]


def _tests(operator: AbstractBasisOperator, points: Float[ndarray, "n dim"], free: int) -> Tests:
    """An orthonormal basis of the functions' values at the points, of all components."""
    if len(points) <= free:
        return None
    values = np.asarray(operator.basis(jnp.asarray(points)))[:, :free]
    left, sizes, _ = np.linalg.svd(values.reshape(len(points), -1).astype(np.float64), full_matrices=False)
    return jnp.asarray(left[:, sizes > _limit(CUT, values.dtype) * sizes[0]].T, values.dtype)


def _limit(single: float, dtype: Any) -> float:
    """A limit of rounding for float32, as it is for another dtype."""
    return single * float(jnp.finfo(dtype).eps / jnp.finfo(jnp.float32).eps)
