"""How well functions and time steps follow solutions, seen from the solutions' own coefficients."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float
from numpy import ndarray

from stablepdenet.spectral.plan import Plan
from stablepdenet.spectral.rows import Coefficients

# Coefficients that do not get smaller are taken to get smaller by this.
SLOWEST = 0.9


class Tails(NamedTuple):
    """What the functions of space and of time leave out of each solution, as shares of it: from how fast the
    coefficients get smaller, the first that are missing are guessed."""

    space: Float[ndarray, " inputs"]
    time: Float[ndarray, " inputs"]


def tails_of(plan: Plan, coefficients: Coefficients) -> Tails:
    """Those of solutions: the largest of all components and, of space, of all coordinates."""
    space, time = np.zeros(len(coefficients[0])), np.zeros(len(coefficients[0]))
    roots, lengths = _roots(plan), np.sqrt(plan.lengths)[:, None]
    for each, clock in zip(coefficients, plan.clocks, strict=True):
        own = np.asarray(each, np.float64)[..., plan.places]
        # Where steps end: what is rough at the start is so without the equations.
        ends = np.einsum("i,bsik->bsk", clock.values(np.ones(1))[0], own) * lengths
        whole = _size(_turned(ends, roots)) + 1e-300
        for column in range(len(plan.counts)):
            middle, last = _thirds(plan.counts, column)
            parts = (_size(_turned(ends * part, roots)) for part in (middle, last))
            space = np.maximum(space, _missing(*parts) / whole)
        if clock.free > 1:
            before, last = (own[:, :, clock.size - back] * lengths for back in (2, 1))
            time = np.maximum(time, _missing(*(_size(_turned(each, roots)) for each in (before, last))) / whole)
    return Tails(space, time)


def _missing(before: Float[ndarray, " inputs"], last: Float[ndarray, " inputs"]) -> Float[ndarray, " inputs"]:
    """The next of a sequence that gets smaller by one factor, and all that follow it."""
    factor = np.minimum(last / np.maximum(before, 1e-300), SLOWEST)
    return last * factor / (1.0 - factor)


def _thirds(counts: tuple[int, ...], column: int) -> tuple[Bool[ndarray, " k"], Bool[ndarray, " k"]]:
    """Which functions are in the middle and the last third of one coordinate's."""
    order, count = np.indices(counts).reshape(len(counts), -1)[column], counts[column]
    return (order >= count // 3) & (order < 2 * count // 3), order >= 2 * count // 3


def _roots(plan: Plan) -> Float[ndarray, "n k"] | None:
    """The functions at a grid's points, with roots of the weights: products of two sum to those of the functions. None
    where functions are orthonormal."""
    space = plan.solved_space
    if all(axis.periodic for axis in space.axes):
        return None
    where, weights = space.nodes([axis.interval for axis in space.axes], [count + 1 for count in plan.counts])
    return space.values(where) * np.sqrt(weights)[:, None]


def _turned(values: Float[ndarray, "... k"], roots: Float[ndarray, "n k"] | None) -> Float[ndarray, "... n"]:
    return values if roots is None else values @ roots.T


def _size(values: Float[ndarray, "inputs ..."]) -> Float[ndarray, " inputs"]:
    return np.sqrt(np.sum(values**2, axis=tuple(range(1, values.ndim))))
