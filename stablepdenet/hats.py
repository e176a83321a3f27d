"""The hat functions η_j of a sensor grid: the interpolant of the sensor values a is Σ_j a_j η_j(x)."""

import numpy as np
from jaxtyping import Float
from numpy import ndarray


def values(sensors: Float[ndarray, "sensors"], x: Float[ndarray, "points"]) -> Float[ndarray, "points sensors"]:
    """η_j(x_i)."""
    return np.stack([np.interp(x, sensors, unit) for unit in np.eye(len(sensors))], axis=1)


def integrals(sensors: Float[ndarray, "sensors"], x: Float[ndarray, "points"]) -> Float[ndarray, "points sensors"]:
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


def sine_coefficients(sensors: Float[ndarray, "sensors"], modes: int) -> Float[ndarray, "modes sensors"]:
    """2 ∫₀¹ η_j(x) sin(nπx) dx for n = 1..modes, on sensors that span [0, 1].

    By parts this is 2/(nπ) (C_{j−1} − C_j), where C_j is the mean of cos(nπx) over the j-th interval and the two
    end hats take the point values cos 0 and cos nπ instead of the mean they lack.
    """
    n = np.arange(1, modes + 1)[:, None]
    # Mean of the cosine as midpoint × sinc: a difference of sines over h would cancel on short intervals.
    means = np.cos(np.pi * n * (sensors[:-1] + sensors[1:]) / 2) * np.sinc(n * np.diff(sensors) / 2)
    return -2 / (np.pi * n) * np.diff(means, axis=1, prepend=1.0, append=(-1.0) ** n)
