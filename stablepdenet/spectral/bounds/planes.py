"""-div(k grad u) + c u = f on a rectangle with k > 0 and c >= 0, u given on all sides: collocation in splines, and a
bound of their error at every point.

Splines are polynomials between breaks, with continuous slopes, so that the residual r = f + div(k grad w) - c w of a
spline w has a finite square. By Talenti's theorem no solution that is zero on the sides exceeds the one on a disc of
the same area, with k at its smallest and |r| rearranged around the middle; with Cauchy's inequality

    max |u - w| <= |area|^(1/2) / (2 pi min k) |r| + max |u - w| on the sides.

What the coefficient of grad u is other than -grad k, some delta, adds |delta| |grad (u - w)| to |r|, where by
Friedrichs' inequality, of constant C, |grad (u - w)| <= C |r| / (min k - |delta| C). Iterations need not have arrived:
what they leave is in r.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float
from numpy import ndarray
from numpy.polynomial.legendre import leggauss
from scipy.interpolate import BSpline
from scipy.sparse.linalg import LinearOperator, gmres

from stablepdenet.functions.points import grid
from stablepdenet.spectral.bounds.cells import BETWEEN, GAUSS, Cells, at_places, cells_of
from stablepdenet.spectral.bounds.constants import SAME
from stablepdenet.spectral.bounds.data import corner_values, off_cells, off_sides
from stablepdenet.spectral.bounds.enclosure import SAMPLED, Enclosure
from stablepdenet.spectral.bounds.form import CLOSE, Equation, Form

DEGREE = 5
# Cells of a coordinate at least, and how often those at its ends are halved: at corners solutions are r^2 log r.
FEWEST, HALVINGS = 24, 6
# The residual that iterations leave, and how many they are at most, with how many directions kept.
LEFT, ROUNDS, KEPT = 1e-10, 5, 60

Table = Float[ndarray, "_ _"]
Tables = Float[ndarray, "batch _ _"]


@dataclass(frozen=True, eq=False)
class Splines:
    """Of one coordinate, zero at both ends, each by its values at the places where the equation holds."""

    cells: Cells

    @property
    def periodic(self) -> bool:
        return False

    @property
    def length(self) -> float:
        return float(self.cells.edges[-1] - self.cells.edges[0])

    @cached_property
    def places(self) -> Float[ndarray, " n"]:
        """Where the equation holds."""
        return self.cells.points(leggauss(DEGREE - 1)[0])

    def values(self, x: Float[ndarray, " p"], order: int = 0) -> Float[ndarray, "p k"]:
        """The matrix to derivatives anywhere: from values of a spline at the places, and from the two at the ends of a
        linear function."""
        share = (x - self.cells.edges[0]) / self.length
        linear = [1.0 - share, share] if order == 0 else [np.full(len(x), (order == 1) * sign) for sign in self.ends]
        return np.column_stack([self._basis(x, order) @ self._inverse, *linear])

    @property
    def ends(self) -> tuple[float, float]:
        """The slopes of the linear functions."""
        return -1.0 / self.length, 1.0 / self.length

    @cached_property
    def at_places(self) -> list[Float[ndarray, "n k"]]:
        """The values and their first two derivatives where the equation holds."""
        return [self.values(self.places, order) for order in range(3)]

    @cached_property
    def at_nodes(self) -> list[Float[ndarray, "p k"]]:
        """The same at the Gauss points of the cells."""
        return [self.values(self.cells.nodes, order) for order in range(3)]

    @cached_property
    def modes(self) -> tuple[Float[ndarray, " n"], Float[ndarray, "n n"], Float[ndarray, "n n"]]:
        """Eigenvalues and -vectors of the second derivative, and the inverse of these."""
        values, vectors = np.linalg.eig(self.at_places[2][:, :-2])
        return values.real, vectors.real, np.linalg.inv(vectors.real)

    @cached_property
    def _inverse(self) -> Float[ndarray, "n n"]:
        return np.linalg.inv(self._basis(self.places, 0))

    def _basis(self, x: Float[ndarray, " p"], order: int) -> Float[ndarray, "p n"]:
        edges = self.cells.edges
        times = [DEGREE + 1, *[DEGREE - 1] * (len(edges) - 2), DEGREE + 1]
        knots = np.repeat(edges, times)
        spline = BSpline(knots, np.eye(len(knots) - DEGREE - 1), DEGREE)
        return np.asarray((spline.derivative(order) if order else spline)(x))[:, 1:-1]


class Data(NamedTuple):
    """Of all inputs: k, b, c and f on the grids where the equation holds and of Gauss points; how far each may be from
    polynomials of cells; the smallest k; u at the corners, and how far the sides may be from linear functions of
    these; and for which inputs all is as it must be."""

    at_places: dict[str, Tables]
    at_nodes: dict[str, Tables]
    off: Float[ndarray, "batch 5"]
    least: Float[ndarray, " batch"]
    corners: Float[ndarray, "batch 4"]
    off_sides: Float[ndarray, "batch 1"]
    sound: Bool[ndarray, " batch"]


def enclose(form: Form, a: Float[ndarray, "batch m"], points: Float[ndarray, "n 2"]) -> Enclosure:
    """Of the solutions at some points of the rectangle."""
    axes = splines_of(form)
    center, radius = np.zeros((len(a), len(points))), np.full((len(a), 1), np.inf)
    at_x, at_y = (axis.values(x) for axis, x in zip(axes, points.T, strict=True))
    with np.errstate(all="ignore"):
        data = read_data(form, axes, a)
        for row in np.flatnonzero(data.sound):
            here, there = ({name: each[row] for name, each in own.items()} for own in (data.at_places, data.at_nodes))
            w = solve(axes, here, data.corners[row].reshape(2, 2))
            radius[row] = error_bound(axes, there, w, data.off[row], data.least[row]) + data.off_sides[row]
            center[row] = np.sum(at_x @ w * at_y, axis=1)
    known = np.isfinite(radius)
    return Enclosure(np.where(known, center, 0.0), np.broadcast_to(np.where(known, radius, np.inf), center.shape))


def read_data(form: Form, axes: list[Splines], a: Float[ndarray, "batch m"]) -> Data:
    """From the residuals."""
    along = [[axis.places for axis in axes], [axis.cells.nodes for axis in axes], [axis.cells.between for axis in axes]]
    equations = [form.equation(a, grid(*where)) for where in along]
    places, nodes, between = (
        {name: values.reshape(len(a), *map(len, where)) for name, values in _coefficients(equation).items()}
        for equation, where in zip(equations, along, strict=True)
    )
    pairs = [(nodes[name].reshape(len(a), -1), between[name].reshape(len(a), -1)) for name in nodes]
    off = np.concatenate([off_cells(axes, *pair) for pair in pairs], axis=1)
    corners = corner_values(form, axes, a)
    sides = off_sides(form, axes, a, corners)
    least = np.min([np.min(each["k"], axis=(1, 2)) for each in (nodes, between)], axis=0) - off[:, 0]
    finite = np.isfinite(np.sum(off, axis=1) + sides[:, 0]) & (least > 0.0) & _continuous(axes, between["k"])
    sound = np.all([finite, *(each.sound & _fits(each) for each in equations)], axis=0)
    return Data(places, nodes, off, least, corners, sides, sound)


def _fits(equation: Equation) -> Bool[ndarray, " batch"]:
    """Whether k is one number in both directions, and c not negative."""
    first, second = equation.k
    same = np.all(np.abs(first - second) <= SAME * np.abs(first), axis=1)
    return same & np.all(equation.c >= 0.0, axis=1)


def _continuous(axes: list[Splines], k: Tables) -> Bool[ndarray, " batch"]:
    """Whether k has no jumps between cells: where it has, no residual sees what the flux does."""
    found = np.ones(len(k), bool)
    for number, axis in enumerate(axes):
        own = np.moveaxis(k, 1 + number, 1).reshape(len(k), axis.cells.count, len(BETWEEN), -1)
        ends, starts = own[:, :-1, -1], own[:, 1:, 0]
        found &= np.all(np.abs(ends - starts) <= CLOSE * np.abs(ends), axis=(1, 2))
    return found


def _coefficients(equation: Equation) -> dict[str, Float[ndarray, "batch n"]]:
    return {"k": equation.k[0], "b_x": equation.b[0], "b_y": equation.b[1], "c": equation.c, "f": equation.f}


@lru_cache(maxsize=4)
def splines_of(form: Form) -> list[Splines]:
    """Between all breaks, finer at the ends."""
    found = []
    for column in form.columns:
        edges = cells_of(form.breaks(column), FEWEST).edges
        share = 0.5 ** np.arange(1, HALVINGS + 1)
        low, high = edges[0] + (edges[1] - edges[0]) * share, edges[-1] - (edges[-1] - edges[-2]) * share
        found.append(Splines(Cells(np.sort(np.concatenate([edges, low, high])))))
    return found


def solve(axes: list[Splines], equation: dict[str, Table], corners: Float[ndarray, "2 2"]) -> Table:
    """The spline for which the equation holds at all places, with a linear function of the values at the corners, as
    one matrix of coefficients w: by iterations in which -v_xx - v_yy is inverted exactly."""
    (value_x, slope_x, curve_x), (value_y, slope_y, curve_y) = (axis.at_places for axis in axes)
    (of_x, turn_x, back_x), (of_y, turn_y, back_y) = (axis.modes for axis in axes)
    b_x, b_y, c, f = (equation[name] / equation["k"] for name in ("b_x", "b_y", "c", "f"))
    size = len(value_x) * len(value_y)

    def whole(v: Table, corners: Float[ndarray, "2 2"]) -> Table:
        return np.block([[v, np.zeros((len(v), 2))], [np.zeros((2, v.shape[1])), corners]])

    def inverse(flat: Float[ndarray, " n"]) -> Table:
        modes = back_x @ flat.reshape(len(value_x), -1) @ back_y.T / -(of_x[:, None] + of_y)
        return turn_x @ modes @ turn_y.T

    def applied(w: Table) -> Table:
        lower = b_x * (slope_x @ w @ value_y.T) + b_y * (value_x @ w @ slope_y.T) + c * (value_x @ w @ value_y.T)
        return lower - curve_x @ w @ value_y.T - value_x @ w @ curve_y.T

    zero = np.zeros((2, 2))
    right = f - applied(whole(np.zeros(f.shape), corners))
    operator = LinearOperator((size, size), lambda flat: applied(whole(inverse(flat), zero)).ravel(), dtype=float)
    flat, _ = gmres(operator, right.ravel(), rtol=LEFT, restart=KEPT, maxiter=ROUNDS)
    return whole(inverse(flat), corners)


def error_bound(
    axes: list[Splines], equation: dict[str, Table], w: Table, off: Float[ndarray, " 5"], least: float
) -> float:
    """max |u - w|, at most, but for what w is wrong by on the sides."""
    (value_x, slope_x, curve_x), (value_y, slope_y, curve_y) = (axis.at_nodes for axis in axes)
    x, y = (axis.cells for axis in axes)
    value, w_x, w_y = value_x @ w @ value_y.T, slope_x @ w @ value_y.T, value_x @ w @ slope_y.T
    curved = curve_x @ w @ value_y.T + value_x @ w @ curve_y.T
    k, b_x, b_y, c, f = (equation[name] for name in ("k", "b_x", "b_y", "c", "f"))
    size = np.sqrt(x.weights @ (f + k * curved - b_x * w_x - b_y * w_y - c * value) ** 2 @ y.weights)
    # What polynomials of cells leave out of k, b, c and f.
    root = np.sqrt(axes[0].length * axes[1].length)
    largest = [np.max(np.abs(term)) for term in (curved, w_x, w_y, value)]
    size += root * float(off @ np.array([*(SAMPLED * each for each in largest), 1.0]))
    delta = SAMPLED * np.max(np.hypot(b_x + _slope(x, k), b_y + _slope(y, k.T).T))
    friedrichs = 1.0 / (np.pi * np.hypot(1.0 / axes[0].length, 1.0 / axes[1].length))
    coercive = least - delta * friedrichs
    size *= 1.0 + delta * friedrichs / coercive
    return float(root / (2.0 * np.pi * least) * size) if coercive > 0.0 else np.inf


def _slope(cells: Cells, values: Table) -> Table:
    """The derivative along the first coordinate."""
    own = values.reshape(cells.count, len(GAUSS), -1)
    found = np.einsum("pq,cqy->cpy", at_places(GAUSS, 1), own) * (2.0 / cells.widths)[:, None, None]
    return found.reshape(values.shape)
