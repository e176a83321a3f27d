"""The hat functions η_j of a sensor grid: the interpolant of the sensor values a is Σ_j a_j η_j(x).

In several variables the sensors are a tensor grid, first coordinate slowest, and the hats are products.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from stablepdenet.errors import ConfigError


class Interpolation(NamedTuple):
    """What a function at a point is made of: a few sensors, and their weights."""

    sensors: Int[ndarray, "points corners"]
    weights: Float[ndarray, "points corners"]

    def matrix(self, size: int) -> Float[ndarray, "points sensors"]:
        """The same as one matrix."""
        dense = np.zeros((len(self.sensors), size))
        np.add.at(dense, (np.arange(len(dense))[:, None], self.sensors), self.weights)
        return dense


def interpolation(
    axes: Sequence[Float[ndarray, " _"]], points: Float[ndarray, "points dim"], derivative: Sequence[int] = ()
) -> Interpolation:
    """η_j, or its derivative in the variables `derivative`, at the points; beyond the sensors functions are constant.

    At a sensor, a derivative is that of the interval to its right, at the last one that to its left.
    """
    twice = next((variable for variable in derivative if list(derivative).count(variable) > 1), None)
    if twice is not None:
        raise ConfigError(
            "A second derivative of an input that is linear between its sensors is zero almost everywhere: write the "
            "equation with first derivatives, or give the input by modes."
        )
    sensors, weights = np.zeros((len(points), 1), int), np.ones((len(points), 1))
    for variable, axis in enumerate(axes):
        x = points[:, variable]
        left = np.clip(np.searchsorted(axis, x, side="right") - 1, 0, len(axis) - 2)
        width = axis[left + 1] - axis[left]
        share = np.clip((x - axis[left]) / width, 0.0, 1.0)
        pair = np.stack([1.0 - share, share], axis=1)
        if variable in derivative:
            inside = (x >= axis[0]) & (x <= axis[-1])
            pair = np.stack([-1.0 / width, 1.0 / width], axis=1) * inside[:, None]
        corners = np.stack([left, left + 1], axis=1)
        shape = (len(points), 2 ** (variable + 1))
        sensors = (sensors[:, :, None] * len(axis) + corners[:, None, :]).reshape(shape)
        weights = (weights[:, :, None] * pair[:, None, :]).reshape(shape)
    return Interpolation(sensors, weights)


def values(sensors: Float[ndarray, sensors], x: Float[ndarray, points]) -> Float[ndarray, "points sensors"]:
    """η_j(x_i) of one variable."""
    return interpolation([sensors], x[:, None]).matrix(len(sensors))


def integrals(sensors: Float[ndarray, sensors], x: Float[ndarray, points]) -> Float[ndarray, "points sensors"]:
    """∫ η_j(s) ds from the first sensor to x_i, exactly: on an interval of length h, with d = the length covered,

    the rising half contributes d²/(2h) and the falling half d − d²/(2h).
    """
    left, right = sensors[:-1], sensors[1:]
    covered = np.clip(x[:, None], left, right) - left
    rising = covered**2 / (2 * (right - left))
    matrix = np.zeros((len(x), len(sensors)))
    matrix[:, 1:] += rising
    matrix[:, :-1] += covered - rising
    return matrix


def sine_coefficients(sensors: Float[ndarray, sensors], modes: int) -> Float[ndarray, "modes sensors"]:
    """2 ∫₀¹ η_j(x) sin(nπx) dx for n = 1..modes, on sensors that span [0, 1].

    By parts this is 2/(nπ) (C_{j−1} − C_j), where C_j is the mean of cos(nπx) over the j-th interval and the two
    end hats take the point values cos 0 and cos nπ instead of the mean they lack.
    """
    n = np.arange(1, modes + 1)[:, None]
    # Mean of the cosine as midpoint × sinc: a difference of sines over h would cancel on short intervals.
    means = np.cos(np.pi * n * (sensors[:-1] + sensors[1:]) / 2) * np.sinc(n * np.diff(sensors) / 2)
    return -2 / (np.pi * n) * np.diff(means, axis=1, prepend=1.0, append=(-1.0) ** n)
