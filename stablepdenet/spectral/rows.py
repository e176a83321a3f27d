"""A region's equation at the points of a time step, as rows in the coefficients of functions of time and space."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import Array, Float, Int
from numpy import ndarray

from stablepdenet.problems import Problem
from stablepdenet.spectral.functions import Clock, Space
from stablepdenet.spectral.regions import Region

# NumPy's float64 until a program takes them, JAX's inside of it.
Numbers = Any
# The coefficients of each component: functions of time x functions of space.
Coefficients = tuple[Float[Array, "..."], ...]


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

    def fields(
        self, at: Coefficients, length: Float[Array, ""], times: slice = slice(None)
    ) -> dict[str, Float[Array, "1 n"]]:
        """The terms of the solution at the points, or at those of some times."""
        found = {}
        for name, term in self.terms.items():
            values = term.time[times] @ at[term.component] @ term.space.T
            found[name] = _ordered(values[None], self.region) / length**term.order
        return found

    def at_time(self, row: Any, number: int, count: int) -> Any:
        """Of a row of entries at all points, those of one of so many times."""
        halves = 2 if self.region.pair is not None else 1
        return row.reshape(len(row), halves, count, -1)[:, :, number].reshape(len(row), -1)


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
    # Where time is the only coordinate, places have none.
    apart = where.reshape(halves, len(where) // halves, len(columns))
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


def _ordered(entries: Any, region: Region) -> Any:
    """From ... x times x points to ... x n."""
    if region.pair is not None:
        *front, q, p = entries.shape
        entries = entries.reshape(*front, q, 2, p // 2).swapaxes(-2, -3)
        return entries.reshape(*front, q * p)
    return entries.reshape(*entries.shape[:-2], -1)
