"""The residual rows of some regions as a least-squares problem in the coefficients of space-time functions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int
from numpy import ndarray

from stablepdenet.problems import Problem
from stablepdenet.spectral.functions import Clock, Space
from stablepdenet.spectral.regions import Region, evaluate

# NumPy's float64 until a program takes them, JAX's inside of it.
Numbers = Any
# The coefficients of each component: functions of time x functions of space.
Coefficients = tuple[Float[Array, "..."], ...]
# Of the Gram matrix's diagonal: what no equation fixes stays where it is.
RIDGE = 1e-13
# How much more conditions on sides count than the PDE does, in time steps: what they leave over from step to step grows
# where they count as much (two coordinates, tried: from 11 functions of each on; by 10 times, from 17 on).
SIDES = 1e3


class Term(eqx.Module):
    """One derivative of a component at a region's points: sum_ij c_ij T_i(theta) X_j(x) / h^order. The `slopes` are
    what each unknown adds to it, for a step of length one."""

    time: Numbers
    space: Numbers
    slopes: Numbers
    component: int = eqx.field(static=True)
    order: int = eqx.field(static=True)


@dataclass(frozen=True, eq=False)
class Where:
    """The points of some rows; their time is not in them."""

    points: Float[ndarray, "n dim"]


class Rows(eqx.Module):
    """A region's equation at q times x p points; a pair has its lower points first, then the upper ones."""

    terms: dict[str, Term]
    root: Numbers
    theta: Numbers
    region: Region = eqx.field(static=True)
    # Known while a program is traced, so that a residual may use NumPy's functions of its coordinates.
    where: Where = eqx.field(static=True)

    def fields(self, at: Coefficients, length: Float[Array, ""]) -> dict[str, Float[Array, "1 n"]]:
        """The terms of the solution at the points."""
        return {
            name: _ordered((term.time @ at[term.component] @ term.space.T)[None], self.region) / length**term.order
            for name, term in self.terms.items()
        }


class Moment(eqx.Module):
    """Where a time step lies, and the inputs' matrices there, for each region."""

    start: Numbers
    length: Numbers
    matrices: tuple[dict[str, Numbers], ...]


class Step(NamedTuple):
    """A Gauss-Newton step's factors: J^T of scaled rows, each unknown divided by its `sizes`, the Gram matrix's factor,
    and the rows' scales."""

    columns: Float[Array, "unknowns rows"]
    factor: Float[Array, "unknowns unknowns"]
    sizes: Float[Array, " unknowns"]
    scales: Float[Array, " rows"]


class Equations(eqx.Module):
    """Rows in some coefficients of each component: of its functions of time `free`, times the functions of space at
    `places`. The others are given. `linear` says that they are so in the solution and the inputs together."""

    rows: tuple[Rows, ...]
    places: Numbers
    problem: Problem = eqx.field(static=True)
    free: tuple[tuple[int, int], ...] = eqx.field(static=True)
    time: int | None = eqx.field(static=True)
    linear: bool = eqx.field(static=True)

    @property
    def _starts(self) -> list[int]:
        """Where each component's unknowns begin, and where all end."""
        return [0, *accumulate((last - first) * len(self.places) for first, last in self.free)]

    def _on_side(self, region: Region) -> bool:
        """Whether it is a side's condition in a time step."""
        return self.time is not None and region.own is None and not region.inside

    def known(self, number: int, a: Float[Array, " m"], moment: Moment) -> dict[str, Any]:
        """The inputs and coordinates at a region's points."""
        rows = self.rows[number]
        slices, domain = self.problem.inputs.slices, self.problem.domain
        found = {
            name: (moment.matrices[number][name] @ a[slices[of]])[None]
            for name, (of, _) in rows.region.terms.inputs.items()
        }
        for name in rows.region.terms.coordinates:
            (column,) = domain.columns(name)
            if column == self.time:
                found[name] = (moment.start + moment.length * rows.theta)[None]
            else:
                found[name] = rows.where.points[None, :, column]
        return found

    def residual(self, at: Coefficients, a: Float[Array, " m"], moment: Moment) -> Float[Array, " rows"]:
        """All rows, not scaled."""
        found = []
        for number, rows in enumerate(self.rows):
            entries = evaluate(rows.region, rows.fields(at, moment.length), self.known(number, a, moment))
            found.append(_weighed(entries, rows.root)[0])
        return jnp.concatenate(found)

    def factorise(self, at: Coefficients, a: Float[Array, " m"], moment: Moment) -> Step:
        """The linearised rows at some coefficients, each region's scaled to be of one size."""
        columns, scales, starts = [], [], self._starts
        for number, rows in enumerate(self.rows):
            known, fields = (
                {name: _repeated(row, starts[-1]) for name, row in found.items()}
                for found in (self.known(number, a, moment), rows.fields(at, moment.length))
            )
            slopes = {
                name: jnp.zeros_like(fields[name])
                .at[starts[term.component] : starts[term.component + 1]]
                .set(term.slopes / moment.length**term.order)
                for name, term in rows.terms.items()
            }

            def residual(fields: dict[str, Array], rows: Rows = rows, known: dict[str, Any] = known) -> Array:
                return evaluate(rows.region, fields, known)

            own = _weighed(jax.jvp(residual, (fields,), (slopes,))[1], rows.root)
            # Conditions are weighed by what the PDE's largest terms are, whatever their units.
            size = jnp.sqrt(jnp.sum(own**2)) / (SIDES if self._on_side(rows.region) else 1.0)
            scale = jnp.sqrt(jnp.sum(rows.root**2)) / jnp.where(size > 0, size, 1.0)
            columns.append(own * scale)
            scales.append(jnp.broadcast_to(scale, own.shape[1]))
        matrix = jnp.concatenate(columns, axis=1)
        # Unknowns of one size: derivatives of high modes are large.
        sizes = jnp.sqrt(jnp.sum(matrix**2, axis=1))
        sizes = jnp.where(sizes > 0, sizes, 1.0)
        matrix = matrix / sizes[:, None]
        gram = matrix @ matrix.T + RIDGE * jnp.eye(len(matrix))
        return Step(matrix, jnp.linalg.cholesky(gram), sizes, jnp.concatenate(scales))

    def solve(self, step: Step, residual: Float[Array, " rows"]) -> Float[Array, " unknowns"]:
        """-(J^T J)^-1 J^T r."""
        right = -(step.columns @ (step.scales * residual))
        return jax.scipy.linalg.cho_solve((step.factor, True), right) / step.sizes

    def moved(self, at: Coefficients, change: Float[Array, " unknowns"]) -> Coefficients:
        """The coefficients with a change of the free ones."""
        starts = self._starts
        return tuple(
            each.at[first:last, self.places].add(change[begin:end].reshape(-1, len(self.places)))
            for each, (first, last), begin, end in zip(at, self.free, starts[:-1], starts[1:], strict=True)
        )

    def replaced(self, at: Coefficients, guess: Coefficients) -> Coefficients:
        """The coefficients with the free ones of a guess."""
        return tuple(
            each.at[first:last, self.places].set(other[first:last, self.places])
            for each, other, (first, last) in zip(at, guess, self.free, strict=True)
        )


def _repeated(row: Any, count: int) -> Any:
    """As so many rows; what is known stays so."""
    library = np if isinstance(row, np.ndarray) else jnp
    return library.broadcast_to(row, (count, row.shape[1]))


def _ordered(entries: Any, region: Region) -> Any:
    """From ... x times x points to ... x n."""
    if region.pair is not None:
        *front, q, p = entries.shape
        entries = entries.reshape(*front, q, 2, p // 2).swapaxes(-2, -3)
        return entries.reshape(*front, q * p)
    return entries.reshape(*entries.shape[:-2], -1)


def _weighed(entries: Array, root: Float[Array, " n"]) -> Float[Array, "batch rows"]:
    """Points and channels as one axis, with the square roots of the points' weights."""
    entries = entries.reshape(*entries.shape[:2], -1) * root[:, None]
    return entries.reshape(len(entries), -1)


def make_rows(
    problem: Problem,
    region: Region,
    space: Space,
    clocks: Sequence[Clock],
    free: Sequence[tuple[int, int]],
    places: Int[ndarray, " k"],
    theta: Float[ndarray, " q"],
    counts: Sequence[int],
    time: int | None,
) -> Rows:
    """A region's rows at some times of a step and the nodes of its grid in space."""
    dimension = problem.domain.dimension
    columns = [i for i in range(dimension) if i != time]
    where, weights = _nodes(region, space, counts, columns)
    terms = {}
    for name, (component, index) in region.terms.solution.items():
        order = index.count(time) if time is not None else 0
        inner = tuple(columns.index(column) for column in index if column != time)
        values, times = space.values(where, inner), clocks[component].values(theta, order)
        first, last = free[component]
        slopes = np.einsum("qi,pj->ijqp", times[:, first:last], values[:, places])
        flat = slopes.reshape(-1, *slopes.shape[2:])
        terms[name] = Term(times, values, _ordered(flat, region), component, order)
    root = np.sqrt(np.tile(weights, len(theta)) / len(theta))
    halves = 2 if region.pair is not None else 1
    apart = where.reshape(halves, -1, len(columns))
    points = np.zeros((halves, len(theta), apart.shape[1], dimension))
    points[..., columns] = apart[:, None]
    thetas = np.broadcast_to(theta[None, :, None], points.shape[:3])
    return Rows(terms, root, thetas.ravel(), region, Where(points.reshape(-1, dimension)))


def _nodes(
    region: Region, space: Space, counts: Sequence[int], columns: Sequence[int]
) -> tuple[Float[ndarray, "p dim"], Float[ndarray, " w"]]:
    """The points of a region in space, and their weights; of a pair, those at both ends, the weights of one."""
    if region.own is not None:
        return np.asarray(region.own, np.float64)[:, columns], np.full(len(region.own), 1.0 / len(region.own))
    intervals = [region.intervals[i] for i in columns]
    if region.pair is None:
        return space.nodes(intervals, counts)
    column = columns.index(region.pair)
    low, high = intervals[column]
    intervals[column] = (low, low)
    lower, weights = space.nodes(intervals, counts)
    upper = lower.copy()
    upper[:, column] = high
    return np.concatenate([lower, upper]), weights
