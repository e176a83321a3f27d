"""Data that contradict each other: blocks that ask for different values of the solution where they meet.

A boundary value and an initial value that differ in a corner have no continuous solution. Looked for are blocks without
derivatives, which are equations for the values of the solution; their faces of the box may share an edge.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from itertools import combinations, product
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from numpy import ndarray

from stablepdenet.functions import points as point_sets
from stablepdenet.functions.domain import ROUNDING, Box
from stablepdenet.problems.base import Block, Problem
from stablepdenet.problems.bound import BoundBlock

# Inputs that are tried; of the data's size, the difference that is more than rounding.
TRIED, TOLERANCE = 4, 1e-3
# How far from a corner an ansatz is looked at, as a part of the box; the part of its size, at so many places, that is a
# jump.
NEAR, JUMP, PLACES = 1e-6, 0.5, 100

# A side of the box: the number of its coordinate, and 0 for the lower end or 1 for the upper one.
Face = tuple[int, int]


class _Equations(NamedTuple):
    """Rows of length one: coefficients @ (components of the solution) = values, for each input and point."""

    coefficients: Float[ndarray, "inputs n channels components"]
    values: Float[ndarray, "inputs n channels"]


def warn_of_contradictions(problem: Problem) -> None:
    """Says where two blocks contradict each other, if they do. Called where a problem is solved or trained: to make one
    should cost nothing, and inputs must be drawn for this."""
    for one, other in combinations([block for block in problem.blocks if _gives_values(problem, block)], 2):
        sentence = _contradiction(problem, one, other)
        if sentence:
            warnings.warn(sentence, stacklevel=3)


def _contradiction(problem: Problem, one: Block, other: Block) -> str | None:
    meetings = [
        (place, faces)
        for faces in product(_faces(problem.domain, one), _faces(problem.domain, other))
        if faces[0] == faces[1] or faces[0][0] != faces[1][0]
        for place in _common(problem.domain, *faces)
        if _reaches(problem.domain, one, faces[0], place) and _reaches(problem.domain, other, faces[1], place)
    ]
    if not meetings:
        return None
    places = np.stack([place for place, _ in meetings])
    with jax.enable_x64(True):
        a = jnp.asarray(problem.sample(TRIED, key=jax.random.key(0)), jnp.float64)
        own = [_equations(problem, block, block.points, a) for block in (one, other)]
        here = [_equations(problem, block, places, a) for block in (one, other)]
    known = [each for each in (*own, *here) if each]
    if len(known) < 4:
        return None
    size = max(float(np.max(np.abs(each.values), initial=0.0)) for each in known)
    gaps = _gaps(*(each for each in here if each))
    for gap, (place, faces) in zip(gaps, meetings, strict=True):
        if gap > TOLERANCE * size and not _jumps(problem, place, faces):
            where = ", ".join(f"{name} = {value:g}" for name, value in zip(problem.coordinates, place, strict=True))
            return (
                f"Problem '{problem.name}': the blocks '{one.name}' and '{other.name}' contradict each other at "
                f"{where}, where the values that they ask for differ by {gap:.2g} (data are up to {size:.2g}): draw "
                "inputs that meet both, or expect errors near there."
            )
    return None


def _gives_values(problem: Problem, block: Block) -> bool:
    """Whether the solution is in it, and no derivative of it."""
    words = [word for _, word in problem.terms(block).solution.values()]
    return bool(words) and not any(words)


def _faces(domain: Box, block: Block) -> list[Face]:
    """The sides of the box that the block has points on, not counting those on an edge."""
    low, high = np.asarray(domain.intervals).T
    room = ROUNDING * (high - low)
    ends = np.stack([np.abs(block.points - low) <= room, np.abs(block.points - high) <= room], axis=-1)
    ends = ends[np.sum(ends, axis=(1, 2)) == 1]
    return [(int(column), int(end)) for column, end in np.argwhere(np.any(ends, axis=0))]


def _common(domain: Box, one: Face, other: Face) -> Float[ndarray, "n dim"]:
    """Corners and middles of what two sides of the box share."""
    fixed = dict((one, other))
    axes = [
        np.array([interval[fixed[column]]])
        if column in fixed
        else np.array([interval[0], np.mean(interval), interval[1]])
        for column, interval in enumerate(domain.intervals)
    ]
    return point_sets.grid(*axes)


def _reaches(domain: Box, block: Block, face: Face, place: Float[ndarray, " dim"]) -> bool:
    """Whether the block's points on that side come as near to the place as they are to each other: a block may stand on
    a part of a side."""
    low, high = np.asarray(domain.intervals).T
    unit, target = (block.points - low) / (high - low), (place - low) / (high - low)
    distances = np.linalg.norm(unit[np.abs(unit[:, face[0]] - face[1]) <= ROUNDING] - target, axis=1)
    free = max(1, domain.dimension - 1)
    return bool(np.min(distances) <= min(0.25, np.sqrt(free) * len(distances) ** (-1.0 / free)))


def _equations(
    problem: Problem, block: Block, places: Float[ndarray, "n dim"], a: Float[jax.Array, "inputs m"]
) -> _Equations | None:
    """The block at the places, if it is linear in the solution's values."""
    bound = BoundBlock(problem, replace(block, points=places))
    names = list(bound.terms.solution)
    shape = (len(a), len(places))
    rng = np.random.default_rng(0)
    tried = np.concatenate([np.zeros((1, len(names))), np.eye(len(names)), rng.normal(size=(1, len(names)))])
    try:
        inputs = bound.inputs()(a)
        found = [
            np.asarray(bound.plain({n: jnp.full(shape, v) for n, v in zip(names, row, strict=True)}, inputs))
            for row in tried
        ]
    except Exception:  # a residual may be written for its own points only
        return None
    if found[0].shape[:2] != shape:
        return None
    rest, *units, mixed = (each.reshape(*shape, -1) for each in found)
    slopes = np.stack([unit - rest for unit in units], axis=-1)
    if not np.allclose(mixed, rest + slopes @ tried[-1], rtol=1e-9, atol=1e-12):
        return None
    coefficients = np.zeros((*slopes.shape[:-1], len(problem.solution)))
    coefficients[..., [component for component, _ in bound.terms.solution.values()]] = slopes
    lengths = np.linalg.norm(coefficients, axis=-1)
    lengths[lengths == 0] = np.inf  # no equation for the solution
    return _Equations(coefficients / lengths[..., None], -rest / lengths)


def _gaps(one: _Equations, other: _Equations) -> Float[ndarray, " n"]:
    """How far apart what they ask for is at each place, at most over the inputs: 0 where one solution meets both."""
    rows = np.concatenate([one.coefficients, other.coefficients], axis=2)
    values = np.concatenate([one.values, other.values], axis=2)[..., None]
    left = rows @ (np.linalg.pinv(rows) @ values) - values
    # Two equations u = g have the residuals +-(g_1 - g_2) / 2.
    return np.sqrt(2.0) * np.max(np.linalg.norm(left[..., 0], axis=2), axis=0)


def _jumps(problem: Problem, place: Float[ndarray, " dim"], faces: tuple[Face, Face]) -> bool:
    """Whether the ansatz has a function that jumps there from one side to the other: then solutions are known to do so,
    as those of the heat equation with an initial value that does not vanish at the ends."""
    if not problem.ansatz or faces[0] == faces[1]:
        return False
    (first, first_end), (second, second_end) = faces
    low, high = np.asarray(problem.domain.intervals).T
    inwards = NEAR * (high - low)
    on_first, on_second = place.copy(), place.copy()
    on_first[second] += inwards[second] * (1 - 2 * second_end)
    on_second[first] += inwards[first] * (1 - 2 * first_end)
    places = np.stack([on_first, on_second, *point_sets.hammersley(PLACES, problem.domain.intervals)])
    with jax.enable_x64(True):
        parts = [part for part in (problem.ansatz.lift, problem.ansatz.features) if part]
        found = [np.asarray(jax.jit(part)(jnp.asarray(places))) for part in parts]
    return any(bool(np.any(np.abs(each[0] - each[1]) > JUMP * np.max(np.abs(each), axis=0))) for each in found)
