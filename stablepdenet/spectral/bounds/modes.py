"""Orthonormal eigenfunctions of a box, and what those that are left out of a sum can add to it at any point.

A sum over the others, sum_n c_n g(mu_n) phi_n with |g(mu)| <= 1 / mu or g = exp(-mu t), is bounded by Cauchy's
inequality: sums of the squares of c_n are known by Parseval's equation, those of g(mu_n) from integrals. In two
coordinates this is done for each function of the one coordinate that is kept, as data that are not zero on the sides
have coefficients that fall in one coordinate at a time.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from numpy import ndarray
from scipy.special import erfc

from stablepdenet.spectral.bounds.cells import Cells

# Of a sum of squares: rounding.
SQUARES = 1e-13

# One number for each input, or one for all.
Columns = Float[ndarray, "_ 1"]


@dataclass(frozen=True, eq=False)
class Modes:
    """Orthonormal eigenfunctions of one coordinate: sines, or waves on a period. `frequency` has that of each."""

    cells: Cells
    periodic: bool
    count: int

    @property
    def length(self) -> float:
        return float(self.cells.edges[-1] - self.cells.edges[0])

    @cached_property
    def number(self) -> Float[ndarray, " k"]:
        """How many half waves on the interval, waves on the period: 1, 2, ..., or 0, 1, 1, 2, 2, ..."""
        return (np.arange(self.count) + 1) // 2 * 1.0 if self.periodic else np.arange(1.0, self.count + 1.0)

    @property
    def unit(self) -> float:
        """The lowest frequency."""
        return (2.0 if self.periodic else 1.0) * np.pi / self.length

    @property
    def squares(self) -> Float[ndarray, " k"]:
        """The largest square of each function."""
        return np.where(self.number == 0.0, 1.0, 2.0) / self.length

    def values(self, x: Float[ndarray, " n"]) -> Float[ndarray, "n k"]:
        """The functions at some points."""
        turned = self.unit * (x - self.cells.edges[0])[:, None] * self.number
        return self._chosen(np.cos(turned), np.sin(turned))

    @cached_property
    def transform(self) -> Float[ndarray, "k n"]:
        """From values at the Gauss points to coefficients."""
        numbers, which = np.unique(self.number, return_inverse=True)
        cosines, sines = (each[which] for each in self.cells.waves(self.unit * numbers))
        return self._chosen(cosines.T, sines.T).T

    def _chosen(self, cosines: Float[ndarray, "n k"], sines: Float[ndarray, "n k"]) -> Float[ndarray, "n k"]:
        size = np.sqrt(self.squares)
        if not self.periodic:
            return size * sines
        place = np.arange(self.count)
        return size * np.where((place == 0) | (place % 2 == 1), cosines, sines)

    @property
    def last(self) -> float:
        """The number up to which all functions are among these."""
        return float(self.number[-1])


class Expanded(NamedTuple):
    """A function by its coefficients, and the sums of the squares of all that are left out: of each function of one
    coordinate that is kept (of the other coordinate; nothing in one), and where neither is kept."""

    coefficients: Float[ndarray, "batch ..."]
    strips: tuple[Float[ndarray, "batch k"], ...]
    rest: Columns

    @property
    def left(self) -> Columns:
        """The sum of the squares of all that are left out."""
        return self.rest + sum(np.sum(strip, axis=1, keepdims=True) for strip in self.strips)


def expand(axes: list[Modes], values: Float[ndarray, "batch ..."]) -> Expanded:
    """From the values at the Gauss points."""
    found = along(axes[0], values, 1)
    whole = squares(axes, values)
    if len(axes) == 1:
        return Expanded(found, (), positive(whole, np.sum(found**2, axis=1, keepdims=True), whole))
    first, second = axes
    other = along(second, values, 2)
    found = along(second, found, 2)
    # Of each function of x, and of each of y, over all of the other coordinate.
    of_x = np.einsum("bmy,y->bm", along(first, values, 1) ** 2, second.cells.weights)
    of_y = np.einsum("bxn,x->bn", other**2, first.cells.weights)
    both = found**2
    strips = (positive(of_x, np.sum(both, axis=2), whole), positive(of_y, np.sum(both, axis=1), whole))
    kept = np.sum(of_x, axis=1) + np.sum(of_y, axis=1) - np.sum(both, axis=(1, 2))
    return Expanded(found, strips, positive(whole, kept[:, None], whole))


def squares(axes: list[Modes], values: Float[ndarray, "batch ..."]) -> Columns:
    """The integral of the square."""
    found = values**2
    for axis in reversed(axes):
        found = found @ axis.cells.weights
    return found[:, None]


def along(axis: Modes, values: Float[ndarray, "batch ..."], number: int) -> Float[ndarray, "batch ..."]:
    """The coefficients in one coordinate."""
    return np.moveaxis(np.tensordot(values, axis.transform, (number, 1)), -1, number)


def positive(
    whole: Float[ndarray, "batch k"], part: Float[ndarray, "batch k"], size: Columns
) -> Float[ndarray, "batch k"]:
    """whole - part, which is not negative, rounding included."""
    return np.maximum(whole - part, 0.0) + SQUARES * size


def source_tail(axes: list[Modes], k: tuple[Columns, ...], c: Columns, source: Expanded) -> Columns:
    """Of sum_n c_n g(mu_n) phi_n with |g(mu)| <= 1 / mu."""
    size = [own * axis.unit**2 for axis, own in zip(axes, k, strict=True)]

    def share(least: Columns) -> Columns:
        """mu is at least this share of itself without c."""
        return np.minimum(1.0, np.maximum(0.0, 1.0 + c / least))

    # sum_(n > N) 1 / (A n^2)^2 <= 1 / (3 A^2 N^3), and 2 sqrt(A B) m n <= A m^2 + B n^2.
    lasts = [own * axis.last**2 for axis, own in zip(axes, size, strict=True)]
    sums = [
        2.0 / axis.length / (3.0 * axis.last**3 * (share(last) * own) ** 2)
        for axis, own, last in zip(axes, size, lasts, strict=True)
    ]
    if len(axes) == 1:
        return np.sqrt(source.rest * sums[0])
    found = [
        np.sqrt(of_other) * np.sum(np.sqrt(strip * kept.squares), axis=1, keepdims=True)
        for strip, kept, of_other in zip(source.strips, axes, reversed(sums), strict=True)
    ]
    area, (first, second) = axes[0].length * axes[1].length, axes
    corner = 4.0 / area / (4.0 * size[0] * size[1] * first.last * second.last * share(lasts[0] + lasts[1]) ** 2)
    return found[0] + found[1] + np.sqrt(source.rest * corner)


def start_tail(axes: list[Modes], k: tuple[Columns, ...], c: Columns, left: Columns, time: float) -> Columns:
    """Of sum_n c_n exp(-mu_n t) phi_n."""
    heads, tails = [], []
    for axis, own in zip(axes, k, strict=True):
        rate = 2.0 * own * axis.unit**2 * time
        heads.append(np.exp(-rate * axis.number**2) @ axis.squares[:, None])
        tails.append(2.0 / axis.length * 0.5 * np.sqrt(np.pi / rate) * erfc(axis.last * np.sqrt(rate)))
    found = tails[0] if len(axes) == 1 else tails[0] * (heads[1] + tails[1]) + heads[0] * tails[1]
    return np.sqrt(left * found * np.exp(-2.0 * c * time))
