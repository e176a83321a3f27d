"""u_t - sum_i k_i u_ii + c u = f with constant k and c on a box, u given at the start and on all sides but periods; the
same without time: sums of eigenfunctions, and a bound of what is left out of them at every point.

With u = l + v, where l is linear along each coordinate and equals u at the corners of the box, v is zero on the sides.
Its coefficients in the orthonormal eigenfunctions phi_n, of eigenvalues mu_n, are

    v_n(t) = exp(-mu_n t) (a - l)_n + (1 - exp(-mu_n t)) / mu_n (f - c l)_n,

without time (f - c l)_n / mu_n. The first of them are summed up, and `modes.py` bounds the others. Three kinds of data
are not in this sum: what sides say other than l, and what polynomials between breaks leave out of a and of f. By the
maximum principle they change u by no more than their own maximum, that of f times the time; without time, times
min_i L_i^2 / (8 k_i), or 1 / c. Where c < 0, all grows by exp(-c t) at most.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from stablepdenet.spectral.bounds.cells import cells_of
from stablepdenet.spectral.bounds.constants import Data, read_data
from stablepdenet.spectral.bounds.data import corner_functions
from stablepdenet.spectral.bounds.enclosure import Enclosure, unknown
from stablepdenet.spectral.bounds.form import Form
from stablepdenet.spectral.bounds.modes import Columns, Modes, expand, source_tail, start_tail
from stablepdenet.spectral.regions import AT_END

# Functions of each coordinate, in one and in two; of a period one more, as waves come in pairs.
COUNTS = (1024, 512)


def enclose(form: Form, a: Float[ndarray, "batch m"], points: Float[ndarray, "n dim"]) -> Enclosure:
    """Of the solutions at some points of the box."""
    axes = axes_of(form)
    with np.errstate(all="ignore"):
        data = read_data(form, axes, a)
        if not np.any(data.sound):
            return unknown(len(a), len(points))
        steady = form.setting.time is None
        found = _steady(form, axes, data, points) if steady else _evolving(form, axes, data, a, points)
    sound = data.sound[:, None] & np.isfinite(found.center) & np.isfinite(found.radius)
    return Enclosure(np.where(sound, found.center, 0.0), np.where(sound, found.radius, np.inf))


@lru_cache(maxsize=4)
def axes_of(form: Form) -> list[Modes]:
    """The eigenfunctions of each coordinate."""
    count, periodic = COUNTS[len(form.columns) - 1], form.setting.periodic
    return [Modes(cells_of(form.breaks(i)), periodic[i], count + int(periodic[i])) for i in form.columns]


def _steady(form: Form, axes: list[Modes], data: Data, points: Float[ndarray, "n dim"]) -> Enclosure:
    k, c = tuple(_shared(each) for each in data.k), _shared(data.c)
    source, where = expand(axes, data.source), points[:, form.columns]
    center = data.corners @ corner_functions(axes, where).T
    center = center + _places(axes, where).summed(source.coefficients / eigenvalues(axes, k, c))
    # The largest solution for f = 1 is below each of these.
    slow = [axis.length**2 / (8.0 * own) for axis, own in zip(axes, k, strict=True) if not axis.periodic]
    slowest = np.min(np.broadcast_arrays(*slow, np.where(c > 0.0, 1.0 / c, np.inf)), axis=0)
    radius = source_tail(axes, k, c, source) + data.off_sides + data.off_source * slowest
    return Enclosure(center, np.broadcast_to(np.where(c >= 0.0, radius, np.inf), center.shape))


def _evolving(
    form: Form, axes: list[Modes], data: Data, a: Float[ndarray, "batch m"], points: Float[ndarray, "n dim"]
) -> Enclosure:
    time = form.setting.time
    assert time is not None and form.start is not None
    low, high = form.setting.problem.domain.intervals[time]
    k, c = tuple(_shared(each) for each in data.k), _shared(data.c)
    mu, where = eigenvalues(axes, k, c), points[:, form.columns]
    start, source = expand(axes, data.start), expand(axes, data.source)
    places, left_out = _places(axes, where), source_tail(axes, k, c, source)
    center, radius = data.corners @ corner_functions(axes, where).T, np.zeros((len(a), len(points)))
    for now in np.unique(points[:, time]):
        at, passed = np.flatnonzero(points[:, time] == now), now - low
        if passed <= AT_END * (high - low):
            # What the start says is the solution there, on the sides too.
            center[:, at] = form.values(form.start, a, where[at])
            continue
        gathered = np.where(mu == 0.0, passed, -np.expm1(-mu * passed) / np.where(mu == 0.0, 1.0, mu))
        found = np.exp(-mu * passed) * start.coefficients + gathered * source.coefficients
        center[:, at] += places.some(at).summed(found)
        wrong = np.exp(np.maximum(0.0, -c) * passed) * (data.off_sides + data.off_start + passed * data.off_source)
        radius[:, at] = wrong + left_out + start_tail(axes, k, c, start.left, passed)
    return Enclosure(center, radius)


def eigenvalues(axes: list[Modes], k: tuple[Columns, ...], c: Columns) -> Float[ndarray, "batch ..."]:
    """mu = c + sum_i k_i w_i^2 for all products of functions."""
    found = c.reshape(len(c), *[1] * len(axes))
    for number, (axis, own) in enumerate(zip(axes, k, strict=True)):
        shape = [axis.count if i == number else 1 for i in range(len(axes))]
        found = found + (own * (axis.unit * axis.number) ** 2).reshape(len(own), *shape)
    return found


def _shared(numbers: Columns) -> Columns:
    """One row where all inputs have the same."""
    return numbers[:1] if np.all(numbers == numbers[:1]) else numbers


class Places(NamedTuple):
    """Points as a grid of all coordinates that any has: the functions there, and which of them each point is at."""

    tables: list[Float[ndarray, "places k"]]
    which: Int[ndarray, "space n"]

    def some(self, at: Int[ndarray, " p"]) -> Places:
        """Some of the points."""
        return Places(self.tables, self.which[:, at])

    def summed(self, coefficients: Float[ndarray, "batch ..."]) -> Float[ndarray, "batch n"]:
        """The functions with these coefficients."""
        if len(self.tables) == 1:
            return coefficients @ self.tables[0][self.which[0]].T
        x, row = np.unique(self.which[0], return_inverse=True)
        rows = np.moveaxis(np.tensordot(coefficients, self.tables[0][x], (1, 1)), -1, 1)
        found = np.zeros((len(coefficients), len(row)))
        for number in range(len(x)):
            at = np.flatnonzero(row == number)
            found[:, at] = rows[:, number] @ self.tables[1][self.which[1, at]].T
        return found


def _places(axes: list[Modes], points: Float[ndarray, "n space"]) -> Places:
    found = [np.unique(x, return_inverse=True) for x in points.T]
    tables = [axis.values(x) for axis, (x, _) in zip(axes, found, strict=True)]
    return Places(tables, np.stack([which for _, which in found]))
