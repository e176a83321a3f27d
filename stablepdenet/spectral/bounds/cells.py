"""Functions that are polynomials between breaks: cells of an axis, their Gauss points, and what values there say."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray
from numpy.polynomial import legendre
from scipy.special import spherical_jn

# Gauss points of a cell: a polynomial of a lower degree is known by its values there.
ORDER = 7
# Cells of an axis at least.
FEWEST = 16


@dataclass(frozen=True, eq=False)
class Cells:
    """An interval in parts, on each of which a function is smooth."""

    edges: Float[ndarray, " edges"]

    @property
    def count(self) -> int:
        return len(self.edges) - 1

    @property
    def widths(self) -> Float[ndarray, " cells"]:
        return np.diff(self.edges)

    @property
    def middles(self) -> Float[ndarray, " cells"]:
        return 0.5 * (self.edges[1:] + self.edges[:-1])

    def points(self, z: Float[ndarray, " q"]) -> Float[ndarray, " n"]:
        """The places z in [-1, 1] of each cell, cell by cell."""
        return (self.middles[:, None] + 0.5 * self.widths[:, None] * z).ravel()

    @cached_property
    def nodes(self) -> Float[ndarray, " n"]:
        """Their Gauss points."""
        return self.points(GAUSS)

    @cached_property
    def weights(self) -> Float[ndarray, " n"]:
        """What an integral counts each of these."""
        return (0.5 * self.widths[:, None] * WEIGHTS).ravel()

    @cached_property
    def between(self) -> Float[ndarray, " n"]:
        """Points between the Gauss points, and the ends of cells, a little inside: a function may jump there."""
        return self.points(BETWEEN)

    def found(self, x: Float[ndarray, " n"]) -> tuple[Int[ndarray, " n"], Float[ndarray, " n"]]:
        """The cell of each point, and where in [-1, 1] of it the point lies."""
        cell = np.clip(np.searchsorted(self.edges, x, side="right") - 1, 0, self.count - 1)
        return cell, 2.0 * (x - self.middles[cell]) / self.widths[cell]

    def waves(self, frequency: Float[ndarray, " k"]) -> tuple[Float[ndarray, "k n"], Float[ndarray, "k n"]]:
        """Matrices that take values at the Gauss points to the integrals of the function times cos(w (x - low)) and
        times sin(w (x - low)): exact for polynomials, as that of P_l(z) exp(i s z) over [-1, 1] is 2 i^l j_l(s)."""
        turned = frequency[:, None] * 0.5 * self.widths
        whole = np.zeros((len(frequency), self.count, ORDER), complex)
        for degree in range(ORDER):
            own = 2.0 * 1j**degree * spherical_jn(degree, turned) * 0.5 * self.widths
            whole += own[:, :, None] * TO_LEGENDRE[degree]
        whole *= np.exp(1j * frequency[:, None] * (self.middles - self.edges[0]))[:, :, None]
        flat = whole.reshape(len(frequency), -1)
        return flat.real, flat.imag


def cells_of(breaks: Float[ndarray, " b"], fewest: int = FEWEST) -> Cells:
    """Cells between all breaks, none longer than a part of the whole."""
    longest = (breaks[-1] - breaks[0]) / fewest
    parts = [
        np.linspace(low, high, max(1, int(np.ceil((high - low) / longest - 1e-9))), endpoint=False)
        for low, high in pairwise(breaks.tolist())
    ]
    return Cells(np.append(np.concatenate(parts), breaks[-1]))


def at_places(z: Float[ndarray, " q"], order: int = 0) -> Float[ndarray, "q n"]:
    """The matrix from values at the Gauss points of [-1, 1] to those at other places, of a derivative (order 1), or of
    the antiderivative that is zero at -1 (order -1)."""
    found = []
    for row in np.eye(ORDER):
        if order > 0:
            coefficients = legendre.legder(row, order)
        else:
            coefficients = legendre.legint(row, -order, lbnd=-1.0) if order else row
        found.append(legendre.legval(z, coefficients))
    return np.stack(found, axis=1) @ TO_LEGENDRE


GAUSS, WEIGHTS = legendre.leggauss(ORDER)
# From values at the Gauss points to Legendre coefficients.
TO_LEGENDRE = (np.arange(ORDER)[:, None] + 0.5) * legendre.legvander(GAUSS, ORDER - 1).T * WEIGHTS
BETWEEN = np.sort(np.concatenate([[-1.0 + 1e-12, 1.0 - 1e-12], legendre.leggauss(ORDER + 1)[0]]))
