"""Poisson: −u'' = f on (0, 1), u(0) = u(1) = 0."""

import numpy as np
import scipy
from jaxtyping import Float
from numpy import ndarray


def response_matrix(
    sensors: Float[ndarray, "sensors"], x: Float[ndarray, "points"]
) -> Float[ndarray, "points sensors"]:
    """∫₀¹ G(x_i, s) η_j(s) ds, with G(x, s) = min(x, s) (1 − max(x, s)) and η_j the hat functions of the sensors.

    The sensors span [0, 1], in any spacing; u = a @ matrix.T is the exact solution at x when f is the
    piecewise-linear interpolant of the sensor values a.
    """
    x = x[:, None]
    left, right = sensors[:-1], sensors[1:]
    kink = np.clip(x, left, right)
    matrix = np.zeros((len(x), len(sensors)))
    # G η is a quadratic on either side of s = x, so two Gauss nodes on each side integrate it exactly.
    for start, end in ((left, kink), (kink, right)):
        half = (end - start) / 2
        for node in (-1 / np.sqrt(3), 1 / np.sqrt(3)):
            s = (start + end) / 2 + node * half
            weighted = half * np.minimum(x, s) * (1 - np.maximum(x, s)) / (right - left)
            matrix[:, :-1] += weighted * (right - s)
            matrix[:, 1:] += weighted * (s - left)
    return matrix


def finite_difference(f: Float[ndarray, "batch nodes"]) -> Float[ndarray, "batch nodes"]:
    """(−u_{i−1} + 2u_i − u_{i+1}) / h² = f_i at the inner nodes of the uniform grid over [0, 1]; second order."""
    intervals = f.shape[1] - 1
    stencil = np.full((2, intervals - 1), -1.0)  # upper banded form: superdiagonal, then diagonal
    stencil[1] = 2.0
    u = np.zeros(f.shape)
    u[:, 1:-1] = scipy.linalg.solveh_banded(stencil, f[:, 1:-1].T / intervals**2).T
    return u
