"""The Gaussian field of periodic functions."""

from __future__ import annotations

import itertools

import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray
from numpy import ndarray

from stablepdenet.functions.base import AbstractFunctionSpace, Points, normal_combinations, rows


class PeriodicGaussianField(AbstractFunctionSpace):
    """Zero-mean Gaussian field of one `period` in each variable with covariance sigma^2 (-Laplace + tau^2)^-gamma,
    written as a Fourier series. In one variable, with the period 1,

        f(x) = sum_k s_k (xi_k cos 2 pi k x + zeta_k sin 2 pi k x),  xi_k, zeta_k ~ N(0, 1),
        s_k = sqrt(2) sigma ((2 pi k)^2 + tau^2)^(-gamma / 2),               s_1 = 0.2126;

    in several, k runs over the vectors of whole numbers up to `modes`, of k and -k one. The constant mode is left out,
    so every sample has mean zero.
    """

    sigma: float = 625.0
    tau: float = 5.0
    gamma: float = 4.0
    modes: int = 64
    period: float = 1.0

    def scales(self, dimension: int = 1) -> Float[ndarray, " waves"]:
        """The standard deviations s_k of the Fourier coefficients."""
        squares = np.sum((2 * np.pi / self.period * _waves(self.modes, dimension)) ** 2, axis=1)
        return np.sqrt(2.0) * self.sigma * (squares + self.tau**2) ** (-self.gamma / 2)

    def _phases(self, x: Points) -> Float[ndarray, "points waves"]:
        where = rows(x)
        return 2 * np.pi / self.period * where @ _waves(self.modes, where.shape[1]).T

    def covariance(self, x: Points, y: Points) -> Float[ndarray, "points others"]:
        p, q, power = self._phases(x), self._phases(y), self.scales(rows(x).shape[1]) ** 2
        return (np.cos(p) * power) @ np.cos(q).T + (np.sin(p) * power) @ np.sin(q).T

    def sample(self, x: Points, num: int, *, key: PRNGKeyArray) -> Float[Array, "num points"]:
        phases, scales = self._phases(x), self.scales(rows(x).shape[1])
        basis = np.concatenate([np.cos(phases) * scales, np.sin(phases) * scales], axis=1)
        return normal_combinations(num, basis.T, key=key)

    def refined(self, factor: float) -> PeriodicGaussianField:
        """gamma over the factor, with sigma such that E ||u||^2 stays: the period leaves no length to shrink."""
        rougher = PeriodicGaussianField(self.sigma, self.tau, self.gamma / factor, self.modes, self.period)
        ratio = float(np.linalg.norm(self.scales()) / np.linalg.norm(rougher.scales()))
        return PeriodicGaussianField(self.sigma * ratio, self.tau, self.gamma / factor, self.modes, self.period)


def _waves(modes: int, dimension: int) -> Float[ndarray, "waves dimension"]:
    """Vectors of whole numbers up to `modes` whose first number that is not zero is positive."""
    if dimension == 1:
        return np.arange(1.0, modes + 1)[:, None]
    numbers = itertools.product(range(-modes, modes + 1), repeat=dimension)
    return np.array([k for k in numbers if any(k) and next(filter(None, k)) > 0], np.float64)
