"""Functions of space and time that any solution on a box can be made of, and the points to ask for it at."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int
from numpy import ndarray
from numpy.polynomial import Legendre, Polynomial
from numpy.polynomial.legendre import leggauss

from stablepdenet.operators import Derivative, axis_derivatives, axis_functions


@dataclass(frozen=True)
class Axis:
    """Functions of one coordinate: waves on a period; elsewhere 1, z and bubbles P_n - P_{n-2}, whose slopes are
    orthonormal, so that equations of high degree stay well conditioned."""

    interval: tuple[float, float]
    periodic: bool
    count: int

    def values(self, x: Float[ndarray, " n"], order: int = 0) -> Float[ndarray, "n count"]:
        """Their derivatives of an order at some points."""
        found = axis_derivatives(x, self.interval, self.periodic, self.count, order)
        return found if self.periodic else found @ self.turn

    @cached_property
    def turn(self) -> Float[ndarray, "count count"]:
        """From orthonormal polynomials."""
        return bubbles(self.count) / np.sqrt(2.0 * np.arange(self.count) + 1.0)[:, None]

    def nodes(self, count: int, interval: tuple[float, float]) -> tuple[Float[ndarray, " n"], Float[ndarray, " n"]]:
        """Points of an interval with weights whose sum is one: equal distances on the period, Gauss's elsewhere."""
        low, high = interval
        if self.periodic and interval == self.interval:
            return low + (high - low) * np.arange(count) / count, np.full(count, 1.0 / count)
        z, weights = leggauss(count)
        return low + (high - low) * (z + 1.0) / 2.0, weights / 2.0

    def projection(self, nodes: Float[ndarray, " n"], breaks: Float[ndarray, " b"]) -> tuple[ndarray, ndarray]:
        """Points x and a matrix that takes values there, of a function that is smooth between its breaks, to the values
        at the nodes of what as many waves or polynomials as there are nodes can follow of it."""
        low, high = self.interval
        cells = np.unique(np.clip(np.concatenate([breaks, self.interval]), low, high))
        # How far the finest wave or polynomial turns up to each break: polynomials do so fastest near the ends.
        part = (cells - low) / (high - low)
        turned = np.pi * len(nodes) * part if self.periodic else len(nodes) * np.arccos(1.0 - 2.0 * part)
        counts = [6 + int(angle) for angle in 0.5 * np.diff(turned)]
        ends = itertools.pairwise(cells.tolist())
        rules = [self.nodes(count, cell) for count, cell in zip(counts, ends, strict=True)]
        x = np.concatenate([own for own, _ in rules])
        share = np.concatenate([weights for _, weights in rules]) * np.repeat(np.diff(cells) / (high - low), counts)
        dense, at = (self._orthonormal(where, len(nodes)) for where in (x, nodes))
        return x, at @ (dense * share[:, None]).T

    def _orthonormal(self, x: Float[ndarray, " n"], count: int) -> Float[ndarray, "n count"]:
        return axis_derivatives(x, self.interval, self.periodic, count, 0)


def bubbles(count: int) -> Float[ndarray, "count count"]:
    """Columns of Legendre coefficients: 1, z, then (P_n - P_{n-2}) / sqrt(2 (2 n - 1))."""
    found = np.eye(count)
    for n in range(2, count):
        found[n - 2, n] = -1.0
        found[:, n] /= np.sqrt(2.0 * (2.0 * n - 1.0))
    return found


@dataclass(frozen=True)
class Space:
    """Products of the functions of all coordinates but time."""

    axes: tuple[Axis, ...]

    @property
    def size(self) -> int:
        return int(np.prod([axis.count for axis in self.axes]))

    def values(self, points: Float[ndarray, "n dim"], index: Derivative = ()) -> Float[ndarray, "n k"]:
        """A derivative, given by the coordinates' numbers among those of space, at some points."""
        product = np.ones((len(points), 1))
        for column, axis in enumerate(self.axes):
            factor = axis.values(points[:, column], index.count(column))
            product = (product[:, :, None] * factor[:, None, :]).reshape(len(points), -1)
        return product

    def nodes(
        self, intervals: Sequence[tuple[float, float]], counts: Sequence[int]
    ) -> tuple[Float[ndarray, "n dim"], Float[ndarray, " n"]]:
        """The tensor grid of a region; coordinates of one value have one point."""
        axes, weights = [], np.ones(1)
        for axis, interval, count in zip(self.axes, intervals, counts, strict=True):
            if interval[0] == interval[1]:
                own, share = np.array([interval[0]]), np.ones(1)
            else:
                own, share = axis.nodes(count, interval)
            axes.append(own)
            weights = np.outer(weights, share).ravel()
        grid = np.meshgrid(*axes, indexing="ij")
        return np.stack([each.ravel() for each in grid], axis=1) if axes else np.zeros((1, 0)), weights

    def traced(self, points: Float[Array, "n dim"]) -> Float[Array, "n k"]:
        """The values at points that are not known before a program runs."""
        product = jnp.ones((len(points), 1), points.dtype)
        for column, axis in enumerate(self.axes):
            factor = axis_functions(points[:, column], axis.interval, axis.periodic, axis.count)
            if not axis.periodic:  # these are orthonormal
                factor = factor @ jnp.asarray(axis.turn, points.dtype)
            product = (product[:, :, None] * factor[:, None, :]).reshape(len(points), -1)
        return product

    def within(self, finer: Space) -> Int[ndarray, " k"]:
        """The places of these functions among the finer ones."""
        places = np.zeros(1, int)
        for axis, other in zip(self.axes, finer.axes, strict=True):
            places = (places[:, None] * other.count + np.arange(axis.count)[None, :]).ravel()
        return places


@dataclass(frozen=True)
class Clock:
    """Functions of theta = (t - t0) / h on one time step. Those that the step's start fixes come first: 1, then one for
    each further derivative in time that it gives. Then theta P_i, which are free. Without a derivative in time (`order`
    = 0) all are free: P_i.

    A second derivative is not that of the solution's polynomial but that of its velocity's, a polynomial of the same
    degree which starts at the given velocity and has the solution's slopes at the Radau points; third ones alike. So an
    equation in u_tt is treated as Radau's method treats the pair (u, v) with u_t = v. Collocating the polynomial's own
    second derivative is not stable: waves that a step does not resolve would grow.
    """

    order: int
    free: int

    @cached_property
    def functions(self) -> tuple[Polynomial, ...]:
        """Those of the solution itself."""
        window = Polynomial.basis(min(1, self.order))
        legendre = [Legendre.basis(i, domain=[0, 1]).convert(kind=Polynomial) for i in range(self.free)]
        given = [Polynomial([1.0 if i == 0 else 0.0]) for i in range(self.order)]
        return (*given, *(window * each for each in legendre))

    @cached_property
    def _levels(self) -> tuple[tuple[Polynomial, ...], ...]:
        """The functions, and of each derivative below the order its own, as `functions` are of the solution."""
        levels, theta = [self.functions], radau(self.free)
        nodes = np.append(0.0, theta)
        for level in range(1, self.order):
            found = []
            for number, before in enumerate(levels[-1]):
                start = math.factorial(level) if number == level else 0.0
                values = np.append(start, before.deriv()(theta))
                found.append(Polynomial(np.linalg.solve(np.vander(nodes, increasing=True), values)))
            levels.append(tuple(found))
        return tuple(levels)

    @property
    def size(self) -> int:
        return self.order + self.free

    def values(self, theta: Float[ndarray, " q"], order: int = 0) -> Float[ndarray, "q size"]:
        """Their derivatives in theta."""
        level = max(0, min(order, self.order - 1))
        functions = [each.deriv(order - level) if order > level else each for each in self._levels[level]]
        return np.stack([np.broadcast_to(each(theta), theta.shape) for each in functions], axis=1)

    def traced(self, theta: Float[Array, " n"]) -> Float[Array, "n size"]:
        """The values at times that are not known before a program runs."""
        return jnp.stack(
            [jnp.polyval(jnp.asarray(each.coef[::-1], theta.dtype), theta) for each in self.functions], axis=1
        )

    def restricted(self, begin: float, length: float) -> Float[ndarray, "size size"]:
        """R with T(begin + length theta) = R T(theta): a step's functions on a part of it, in those of the part."""
        theta, found = radau(self.free), np.zeros((self.size, self.size))
        for order in range(self.order):
            found[:, order] = self.values(np.array([begin]), order)[0] * length**order / math.factorial(order)
        given, free = np.split(self.values(theta), [self.order], axis=1)
        rest = self.values(begin + length * theta) - given @ found[:, : self.order].T
        found[:, self.order :] = np.linalg.solve(free, rest).T
        return found


def radau(count: int) -> Float[ndarray, " count"]:
    """The right Radau points of [0, 1], the last being 1: collocation there damps what decays fast."""
    inner = Legendre.basis(count) - Legendre.basis(count - 1)
    roots = np.sort(np.real(inner.roots()))
    return (np.append(roots[:-1], 1.0) + 1.0) / 2.0
