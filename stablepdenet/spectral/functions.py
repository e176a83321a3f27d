"""Functions of space and time that any solution on a box can be made of, and the points to ask for it at."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int
from numpy import ndarray
from numpy.polynomial import Legendre, Polynomial
from numpy.polynomial.legendre import legder, leggauss, legvander

from stablepdenet.operators import Derivative, axis_functions


@dataclass(frozen=True)
class Axis:
    """Functions of one coordinate: waves on a period; elsewhere 1, z and bubbles P_n - P_{n-2}, whose slopes are
    orthonormal, so that equations of high degree stay well conditioned."""

    interval: tuple[float, float]
    periodic: bool
    count: int

    def values(self, x: Float[ndarray, " n"], order: int = 0) -> Float[ndarray, "n count"]:
        """Their derivatives of an order at some points."""
        low, high = self.interval
        length = high - low
        if not self.periodic:
            z = (2.0 * x - low - high) / length
            slopes: Float[ndarray, "_ count"] = np.eye(self.count)
            for _ in range(order):
                slopes = legder(slopes, axis=0)
            return legvander(z, max(len(slopes) - 1, 0)) @ slopes @ bubbles(self.count) * (2.0 / length) ** order
        numbers = (np.arange(self.count) + 1) // 2
        waves = 2.0 * np.pi * numbers / length
        # The derivative of a wave is the wave a quarter of a period earlier.
        quarter = np.where(np.arange(self.count) % 2 == 1, 0.0, -0.5 * np.pi) + 0.5 * np.pi * order
        found = np.sqrt(2.0) * waves**order * np.cos(waves * (x[:, None] - 0.5 * (low + high)) + quarter)
        found[:, 0] = 1.0 if order == 0 else 0.0
        return found

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
        cells = np.unique(np.clip(np.concatenate([breaks, self.interval]), *self.interval))
        z, weights = leggauss(4 + 2 * len(nodes) // max(1, len(cells) - 1))
        x = (cells[:-1, None] + np.diff(cells)[:, None] * (z + 1.0) / 2.0).ravel()
        share = (np.diff(cells)[:, None] * weights / 2.0).ravel() / (self.interval[1] - self.interval[0])
        dense, at = (self._orthonormal(where, len(nodes)) for where in (x, nodes))
        return x, at @ (dense * share[:, None]).T

    def _orthonormal(self, x: Float[ndarray, " n"], count: int) -> Float[ndarray, "n count"]:
        if self.periodic:
            return Axis(self.interval, True, count).values(x)
        low, high = self.interval
        return legvander((2.0 * x - low - high) / (high - low), count - 1) * np.sqrt(2.0 * np.arange(count) + 1.0)


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

    def values(self, points: Float[ndarray, "n dim"], word: Derivative = ()) -> Float[ndarray, "n k"]:
        """A derivative, given by the coordinates' numbers among those of space, at some points."""
        product = np.ones((len(points), 1))
        for column, axis in enumerate(self.axes):
            factor = axis.values(points[:, column], word.count(column))
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
                turn = bubbles(axis.count) / np.sqrt(2.0 * np.arange(axis.count) + 1.0)[:, None]
                factor = factor @ jnp.asarray(turn, points.dtype)
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
    """Functions of theta = (t - t0) / h on one time step: 1, theta, …, which the step's start fixes, then
    theta^order P_i, which are free. Without a time (`free` = 0) there is the function 1 alone."""

    order: int
    free: int

    @cached_property
    def functions(self) -> tuple[Polynomial, ...]:
        given = [Polynomial.basis(i) for i in range(self.order)]
        window = Polynomial.basis(self.order)
        legendre = [Legendre.basis(i, domain=[0, 1]).convert(kind=Polynomial) for i in range(self.free)]
        return (*given, *(window * each for each in legendre))

    @property
    def size(self) -> int:
        return self.order + self.free

    def values(self, theta: Float[ndarray, " q"], order: int = 0) -> Float[ndarray, "q size"]:
        """Their derivatives in theta."""
        functions = [each.deriv(order) if order else each for each in self.functions]
        return np.stack([np.broadcast_to(each(theta), theta.shape) for each in functions], axis=1)

    def traced(self, theta: Float[Array, " n"]) -> Float[Array, "n size"]:
        """The values at times that are not known before a program runs."""
        return jnp.stack(
            [jnp.polyval(jnp.asarray(each.coef[::-1], theta.dtype), theta) for each in self.functions], axis=1
        )

    def restricted(self, begin: float, length: float) -> Float[ndarray, "size size"]:
        """R with T(begin + length theta) = R T(theta): a step's functions on a part of it, in those of the part."""
        theta = radau(self.size + 1)
        return np.linalg.lstsq(self.values(theta), self.values(begin + length * theta), rcond=None)[0].T


def radau(count: int) -> Float[ndarray, " count"]:
    """The right Radau points of [0, 1], the last being 1: collocation there damps what decays fast."""
    inner = Legendre.basis(count) - Legendre.basis(count - 1)
    roots = np.sort(np.real(inner.roots()))
    return (np.append(roots[:-1], 1.0) + 1.0) / 2.0
