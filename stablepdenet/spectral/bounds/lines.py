"""-(k u')' + c u = f on an interval with k > 0 and c >= 0, u given at both ends: finite elements, and a bound of their
error at every point.

With e = u - w and R = k w' + int (f - c w), testing the equation with e gives int k e'^2 + c e^2 = -int (R - C) e' for
any constant C, as e is zero at the ends. So |sqrt(k) e'| <= |(R - C) / sqrt(k)|, and as |e(x)| is at most the integral
of |e'| from either end,

    max |e| <= 1/2 (int 1/k)^(1/2) (int (R - C)^2 / k)^(1/2).

All integrals are those of polynomials between breaks, which Gauss's points give exactly; 1/k is taken from below of k.
Coefficients that are no such polynomials count by how far they are from them at further points, and so does what the
coefficient of u' is other than -k'.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float
from numpy import ndarray
from numpy.polynomial import Legendre, Polynomial
from numpy.polynomial.legendre import leggauss

from stablepdenet.spectral.bounds.cells import BETWEEN, GAUSS, ORDER, WEIGHTS, Cells, at_places, cells_of
from stablepdenet.spectral.bounds.enclosure import SAMPLED, Enclosure
from stablepdenet.spectral.bounds.form import Form

# So that c w is a polynomial that the Gauss points know, where c is linear.
DEGREE = ORDER - 2
# Points for squares, which are of twice the degree.
FINE, FINE_WEIGHTS = leggauss(ORDER + 1)

OnCells = Float[ndarray, "batch cells q"]


class Data(NamedTuple):
    """Coefficients at the Gauss points of all cells, the smallest k of each cell, how far k, c and f may be from
    polynomials of cells and the coefficient of u' from -k', and for which inputs they are as they must be."""

    k: OnCells
    c: OnCells
    f: OnCells
    least: Float[ndarray, "batch cells"]
    off: tuple[Float[ndarray, " batch"], ...]
    sound: Bool[ndarray, " batch"]


def enclose(form: Form, a: Float[ndarray, "batch m"], points: Float[ndarray, "n 1"]) -> Enclosure:
    """Of the solutions at some points."""
    cells, ((low, high),) = cells_of(form.breaks(form.columns[0])), form.intervals
    data = read_data(form, cells, a)
    ends = np.concatenate(
        [form.values(form.sides[0, end], a, np.array([[x]])) for end, x in enumerate((low, high))], axis=1
    )
    with np.errstate(all="ignore"):
        w = elements(cells, data, ends)
        radius = error_bound(cells, data, w)
    cell, z = cells.found(points[:, 0])
    center = np.einsum("bnj,nj->bn", w[:, cell], np.stack([each(z) for each in FUNCTIONS], axis=1))
    sound = data.sound & np.isfinite(radius)
    center = np.where(sound[:, None], center, 0.0)
    return Enclosure(center, np.broadcast_to(np.where(sound, radius, np.inf)[:, None], center.shape))


def read_data(form: Form, cells: Cells, a: Float[ndarray, "batch m"]) -> Data:
    """The coefficients, from the residual."""
    own, other = (form.equation(a, x[:, None]) for x in (cells.nodes, cells.between))

    def on_cells(values: Float[ndarray, "batch n"]) -> OnCells:
        return values.reshape(len(a), cells.count, -1)

    k, c, f, b = (on_cells(values) for values in (own.k[0], own.c, own.f, own.b[0]))
    off = tuple(
        SAMPLED * np.max(np.abs(on_cells(there) - here @ at_places(BETWEEN).T), axis=(1, 2))
        for here, there in ((k, other.k[0]), (c, other.c), (f, other.f))
    )
    drift = b + (k @ at_places(GAUSS, 1).T) * (2.0 / cells.widths)[:, None]
    off = (*off, SAMPLED * np.max(np.abs(drift), axis=(1, 2)))
    least = np.minimum(np.min(k, axis=2), np.min(on_cells(other.k[0]), axis=2)) - off[0][:, None]
    positive = np.all(least > 0.0, axis=1) & np.all(own.c >= 0.0, axis=1) & np.all(other.c >= 0.0, axis=1)
    return Data(k, c, f, least, off, own.sound & other.sound & positive)


def elements(cells: Cells, data: Data, ends: Float[ndarray, "batch 2"]) -> OnCells:
    """Galerkin's solution w, by its coefficients in the functions of each cell. Those that are zero at both ends of the
    cell are eliminated; what is left are the values at the edges."""
    half = 0.5 * cells.widths[:, None, None]
    values, slopes = (np.stack([each.deriv(order)(GAUSS) for each in FUNCTIONS]) for order in (0, 1))
    matrix = np.einsum("bcq,iq,jq->bcij", data.k * WEIGHTS, slopes, slopes, optimize=True) / half
    matrix += np.einsum("bcq,iq,jq->bcij", data.c * WEIGHTS, values, values, optimize=True) * half
    load = np.einsum("bcq,iq->bci", data.f * WEIGHTS, values) * half[..., 0]
    inner = np.linalg.solve(
        np.where(data.sound[:, None, None, None], matrix[..., 2:, 2:], np.eye(DEGREE - 1)),
        np.concatenate([matrix[..., 2:, :2], load[..., 2:, None]], axis=-1),
    )
    matrix, load = (
        matrix[..., :2, :2] - matrix[..., :2, 2:] @ inner[..., :2],
        load[..., :2] - np.einsum("bcij,bcj->bci", matrix[..., :2, 2:], inner[..., 2]),
    )
    number = np.arange(cells.count)
    whole, right = np.zeros((len(load), cells.count + 1, cells.count + 1)), np.zeros((len(load), cells.count + 1))
    for i in (0, 1):
        right[:, number + i] += load[:, :, i]
        for j in (0, 1):
            whole[:, number + i, number + j] += matrix[:, :, i, j]
    right[:, 1:-1] -= whole[:, 1:-1, 0] * ends[:, :1] + whole[:, 1:-1, -1] * ends[:, 1:]
    whole = np.where(data.sound[:, None, None], whole[:, 1:-1, 1:-1], np.eye(cells.count - 1))
    edges = np.concatenate([ends[:, :1], np.linalg.solve(whole, right[:, 1:-1, None])[..., 0], ends[:, 1:]], axis=1)
    outer = np.stack([edges[:, :-1], edges[:, 1:]], axis=-1)
    return np.concatenate([outer, inner[..., 2] - np.einsum("bcij,bcj->bci", inner[..., :2], outer)], axis=-1)


def error_bound(cells: Cells, data: Data, w: OnCells) -> Float[ndarray, " batch"]:
    """max |u - w|, at most."""
    half = 0.5 * cells.widths[:, None]
    at_gauss = w @ np.stack([each(GAUSS) for each in FUNCTIONS])
    slope = w @ np.stack([each.deriv()(FINE) for each in FUNCTIONS]) / half
    rest = data.f - data.c * at_gauss
    before = np.cumsum(np.sum(rest * WEIGHTS * half, axis=2), axis=1)
    started = np.pad(before[:, :-1], ((0, 0), (1, 0)))[:, :, None]
    flux = (data.k @ at_places(FINE).T) * slope + started + half * (rest @ at_places(FINE, -1).T)
    share = half * FINE_WEIGHTS / data.least[:, :, None]
    through = np.sum(share, axis=(1, 2))
    flux -= (np.sum(flux * share, axis=(1, 2)) / through)[:, None, None]
    energy = np.sqrt(np.sum(flux**2 * share, axis=(1, 2)))
    # What polynomials of cells leave out of the coefficients adds to R at most so much.
    length, (off_k, off_c, off_f, drift) = np.sum(cells.widths), data.off
    more = (off_k + length * drift) * SAMPLED * np.max(np.abs(slope), axis=(1, 2))
    more += length * (off_f + off_c * SAMPLED * np.max(np.abs(at_gauss), axis=(1, 2)))
    coercive = 1.0 - 0.5 * drift * through
    found = 0.5 * np.sqrt(through) * (energy + more * np.sqrt(through)) / coercive
    return np.where(coercive > 0.0, found, np.inf)


def _functions() -> list[Polynomial]:
    """On [-1, 1]: the two that are one at an end, then those that are zero at both, with slopes P_1, P_2, ..."""
    bubbles = [
        (Legendre.basis(n + 1) - Legendre.basis(n - 1)).convert(kind=Polynomial) / (2.0 * n + 1.0)
        for n in range(1, DEGREE)
    ]
    return [Polynomial([0.5, -0.5]), Polynomial([0.5, 0.5]), *bubbles]


FUNCTIONS = _functions()
