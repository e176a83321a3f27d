"""Where the equations of a problem hold: read off the points of its blocks, so that they can be asked elsewhere too."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int
from numpy import ndarray

from stablepdenet.functions.domain import Box
from stablepdenet.problems import Block, Problem
from stablepdenet.problems.terms import Terms

# Of a coordinate's length: nearer to an end, a point lies on it.
AT_END = 1e-9
# Points whose spread covers less than this part of the length stand for themselves alone.
SPREAD = 0.5
# An end of the spread within so many mean distances of the box's end is meant to be the box's.
NEAR = 8.0
# So it is within so many of the largest distances between neighbours, as those of a grid of sensors are.
GAPS = 1.5


@dataclass(frozen=True, eq=False)
class Region:
    """A side of the box, or all of it, on which a block's equation holds.

    Each coordinate is an interval; on a side, an interval of one point. `pair` is the coordinate whose two ends the
    equation relates. `own` are the block's points where nothing but they themselves is meant.
    """

    block: Block
    terms: Terms
    intervals: tuple[tuple[float, float], ...]
    pair: int | None = None
    own: Float[ndarray, "n dim"] | None = None

    def fixed(self, column: int) -> bool:
        """Whether it is one value of that coordinate."""
        low, high = self.intervals[column]
        return self.own is None and low == high

    @property
    def inside(self) -> bool:
        """Whether it is all of the box, so that its equation is a PDE, not a condition on a side."""
        return self.own is None and self.pair is None and all(low < high for low, high in self.intervals)


def regions(problem: Problem) -> list[Region]:
    """Those of all blocks; a block on several sides has one for each."""
    return [region for block in problem.blocks for region in _regions(problem, block)]


def periodic_columns(problem: Problem, found: list[Region]) -> tuple[bool, ...]:
    """Which coordinates are periodic: said so by the box, or by an equation that equal ends satisfy."""
    said = list(problem.domain.periodic)
    for region in found:
        if region.pair is not None and _holds_for_equal_ends(region):
            said[region.pair] = True
    return tuple(said)


def evaluate(region: Region, fields: dict[str, Any], known: dict[str, Any]) -> Array:
    """F of a region: the fields of the solution, the inputs and coordinates by name, batch x points each."""
    return jnp.asarray(region.block.residual(**fields, **known))


def _regions(problem: Problem, block: Block) -> Iterator[Region]:
    terms, points, domain = problem.terms(block), np.asarray(block.points, np.float64), problem.domain
    pair = _pair(problem, block, terms)
    if pair is not None:
        half = points[: len(points) // 2]
        intervals = [_interval(half[:, i], domain.intervals[i]) for i in range(domain.dimension)]
        intervals[pair] = domain.intervals[pair]
        yield Region(block, terms, tuple(intervals), pair)
        return
    ends = _ends(points, domain)
    # A grid in the box has points on its sides too: they are no regions of their own.
    kinds = {tuple(row) for row in ends.tolist()}
    for kind in sorted(kinds):
        if any(other != kind and all(o in (0, k) for o, k in zip(other, kind, strict=True)) for other in kinds):
            continue
        chosen = points[np.all(ends == kind, axis=1)]
        spread = [
            (values[end], values[end]) if (end := {-1: 0, 1: 1}.get(side)) is not None else _interval(column, values)
            for side, column, values in zip(kind, chosen.T, domain.intervals, strict=True)
        ]
        covers = [
            high > low and high - low >= SPREAD * (values[1] - values[0])
            for (low, high), side, values in zip(spread, kind, domain.intervals, strict=True)
            if side == 0
        ]
        if all(covers):
            yield Region(block, terms, tuple(spread))
        else:
            yield Region(block, terms, domain.intervals, own=chosen)


def _ends(points: Float[ndarray, "n dim"], domain: Box) -> Int[ndarray, "n dim"]:
    """-1 and 1 where a coordinate is at its lower or upper end, else 0."""
    low, high = np.asarray(domain.intervals).T
    room = AT_END * (high - low)
    return np.where(np.abs(points - low) <= room, -1, np.where(np.abs(points - high) <= room, 1, 0))


def _interval(values: Float[ndarray, " n"], whole: tuple[float, float]) -> tuple[float, float]:
    """The spread of some points, up to the ends of the whole where only chance keeps them from these."""
    low, high = float(np.min(values)), float(np.max(values))
    if high <= low:
        return low, high
    gaps = np.diff(np.unique(values))
    near = max(NEAR * (whole[1] - whole[0]) / len(values), GAPS * float(np.max(gaps)))
    return (whole[0] if low - whole[0] <= near else low), (whole[1] if whole[1] - high <= near else high)


def _pair(problem: Problem, block: Block, terms: Terms) -> int | None:
    """The coordinate whose two ends a block relates: its residual has half as many rows as points, and the first half
    of the points lies at one end, the second at the other."""
    points = np.asarray(block.points, np.float64)
    if len(points) % 2 or _rows(block, terms, len(points)) != len(points) // 2:
        return None
    first, second = np.split(points, 2)
    for column, (low, high) in enumerate(problem.domain.intervals):
        others = [i for i in range(points.shape[1]) if i != column]
        if (
            np.allclose(first[:, column], low)
            and np.allclose(second[:, column], high)
            and np.allclose(first[:, others], second[:, others])
        ):
            return column
    return None


def _rows(block: Block, terms: Terms, count: int) -> int | None:
    """How many rows the residual has at so many points; None where it fails."""
    try:
        return _shape(block, terms, count)[1]
    except Exception:  # a residual may fail in any way; what is wrong with it shows where it is evaluated as it is
        return None


def failure(region: Region) -> str | None:
    """Why the residual cannot be evaluated at its own points, if it cannot."""
    try:
        _shape(region.block, region.terms, len(region.block.points))
    except Exception as error:  # anybody's code
        return f"{type(error).__name__}: {error}".splitlines()[0]
    return None


def _shape(block: Block, terms: Terms, count: int) -> tuple[int, ...]:
    """That of the residual at so many points."""
    names = [*terms.solution, *terms.inputs]
    row = jax.ShapeDtypeStruct((1, count), jnp.result_type(float))
    known = {name: np.linspace(0.1, 0.9, count)[None] for name in terms.coordinates}

    def residual(*rows: Array) -> Any:
        return block.residual(**dict(zip(names, rows, strict=True)), **known)

    return tuple(jax.eval_shape(residual, *[row] * len(names)).shape)


def channels(region: Region) -> int:
    """How many equations a region's block has."""
    names = (*region.terms.solution, *region.terms.inputs)
    fields = dict.fromkeys(names, jax.ShapeDtypeStruct((1, 2), jnp.result_type(float)))
    known = {name: np.linspace(0.1, 0.9, 2)[None] for name in region.terms.coordinates}
    return math.prod(jax.eval_shape(lambda fields: evaluate(region, fields, known), fields).shape[2:])


def movable(region: Region) -> bool:
    """Whether the residual is a function of what it names, whatever the number of points; not one that holds arrays
    for the block's own."""
    count = len(region.block.points)
    return all(
        _rows(region.block, region.terms, n) == (n // 2 if region.pair is not None else n) for n in (count, count + 2)
    )


def _holds_for_equal_ends(region: Region) -> bool:
    rng = np.random.default_rng(0)
    half = {name: rng.normal(size=(1, 4)) for name in region.terms.solution}
    names = (*region.terms.inputs, *region.terms.coordinates)
    fields = {name: jnp.asarray(np.concatenate([row, row], axis=1)) for name, row in half.items()}
    known = {name: jnp.asarray(rng.normal(size=(1, 8))) for name in names}
    return bool(np.max(np.abs(np.asarray(evaluate(region, fields, known)))) == 0.0)


def at_lower_end(region: Region, column: int, domain: Box) -> bool:
    """Whether it is (a part of) the lower side across a coordinate."""
    return region.fixed(column) and region.intervals[column][0] == domain.intervals[column][0]
