"""Heat: u_t = αu_xx on (0, 1), u = 0 at both ends for t > 0, u(x, 0) = a(x), which need not vanish at the ends."""

from itertools import pairwise

import numpy as np
import scipy
from jaxtyping import Float
from numpy import ndarray

from stablepdenet.errors import ConfigError
from stablepdenet.functions import piecewise_linear

_NEGLIGIBLE = 41.0  # exp(−41) ≈ 1e-18, below round-off against the leading terms
_MOST_MODES = 2**15  # 26 MB of coefficients for 101 sensors; resolves αt down to about 4e-9


def response_matrix(
    sensors: Float[ndarray, "sensors"], points: Float[ndarray, "points 2"], alpha: float
) -> Float[ndarray, "points sensors"]:
    """Σ_n b_nj exp(−α(nπ)²t_i) sin(nπx_i), with b_nj the sine coefficients of the hat functions η_j of the sensors.

    The points are (x, t) pairs and the sensors span [0, 1], in any spacing; u = a @ matrix.T is the exact solution
    when a(x) is the piecewise-linear interpolant of the sensor values a. Where the initial and the boundary value
    disagree, at the corners, t = 0 takes the initial one: the boundary value 0 holds for all t > 0.
    """
    x, t = points.T
    matrix = np.zeros((len(x), len(sensors)))
    matrix[t == 0] = piecewise_linear.values(sensors, x[t == 0])

    inside = (t > 0) & (x > 0) & (x < 1)  # the ends stay exactly zero, which sin(nπ) in floating point is not
    times = np.unique(t[inside])
    modes = np.ceil(np.sqrt(_NEGLIGIBLE / (alpha * times)) / np.pi).astype(int)
    most = int(modes.max(initial=0))
    if most > _MOST_MODES:
        raise ConfigError(
            f"problem.alpha = {alpha:g} is too small for the exact solver: alpha * t = {alpha * times[0]:.1e} "
            f"needs {most} sine modes, more than {_MOST_MODES}."
        )
    coefficients = piecewise_linear.sine_coefficients(sensors, most)
    for time, count in zip(times, modes, strict=True):
        rows = inside & (t == time)
        n_pi = np.pi * np.arange(1, count + 1)
        matrix[rows] = (np.sin(np.outer(x[rows], n_pi)) * np.exp(-alpha * n_pi**2 * time)) @ coefficients[:count]
    return matrix


def finite_difference(
    a: Float[ndarray, "batch nodes"], alpha: float, duration: float, steps: int
) -> Float[ndarray, "batch times nodes"]:
    """Crank–Nicolson on the uniform grid over [0, 1]; second order in space and time, with D the second difference:

    (1 − ½αΔt D) u^{k+1} = (1 + ½αΔt D) u^k.
    """
    intervals = a.shape[1] - 1
    ratio = alpha * duration / steps * intervals**2
    implicit = np.full((2, intervals - 1), -ratio / 2)  # upper banded form: superdiagonal, then diagonal
    implicit[1] = 1 + ratio
    factor = scipy.linalg.cholesky_banded(implicit)

    u = np.zeros((steps + 1, a.shape[1], a.shape[0]))
    u[0, 1:-1] = a[:, 1:-1].T  # the first step sees the boundary value of t → 0⁺
    for now, following in pairwise(u):
        explicit = now[1:-1] + ratio / 2 * np.diff(now, 2, axis=0)
        following[1:-1] = scipy.linalg.cho_solve_banded((factor, False), explicit)
    u[0] = a.T
    return u.transpose(2, 0, 1)
