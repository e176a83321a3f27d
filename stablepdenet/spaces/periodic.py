"""The periodic Gaussian field of the Burgers benchmark."""

from __future__ import annotations

import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray
from numpy import ndarray

from stablepdenet.spaces.base import AbstractFunctionSpace, normal_combinations


class PeriodicGaussianField(AbstractFunctionSpace):
    """Zero-mean field of period 1 with covariance sigma^2 (-Laplacian + tau^2)^-gamma.

    Convention of the original PI-DeepONet data, which the paper's numbers imply: with the defaults
    sigma = 25^2, tau = 5, gamma = 4, the field is

        u(x) = sum_{k >= 1} s_k (xi_k cos 2 pi k x + zeta_k sin 2 pi k x),   xi_k, zeta_k ~ N(0, 1),
        s_k = sqrt(2) sigma ((2 pi k)^2 + tau^2)^(-gamma / 2),               s_1 = 0.2126.

    The constant mode is left out, so every sample has mean zero.
    """

    sigma: float = 625.0
    tau: float = 5.0
    gamma: float = 4.0
    modes: int = 64

    def scales(self) -> Float[ndarray, " modes"]:
        """The standard deviations s_k of the Fourier coefficients."""
        k = np.arange(1, self.modes + 1)
        return np.sqrt(2.0) * self.sigma * ((2 * np.pi * k) ** 2 + self.tau**2) ** (-self.gamma / 2)

    def _phases(self, x: Float[ndarray, " points"]) -> Float[ndarray, "points modes"]:
        return 2 * np.pi * np.asarray(x, np.float64)[:, None] * np.arange(1, self.modes + 1)

    def covariance(self, x: Float[ndarray, " points"], y: Float[ndarray, " others"]) -> Float[ndarray, "points others"]:
        p, q, power = self._phases(x), self._phases(y), self.scales() ** 2
        return (np.cos(p) * power) @ np.cos(q).T + (np.sin(p) * power) @ np.sin(q).T

    def sample(self, x: Float[ndarray, " points"], num: int, *, key: PRNGKeyArray) -> Float[Array, "num points"]:
        phases, scales = self._phases(x), self.scales()
        basis = np.concatenate([np.cos(phases) * scales, np.sin(phases) * scales], axis=1)
        return normal_combinations(num, basis.T, key=key)

    def refined(self, factor: float) -> PeriodicGaussianField:
        """gamma over the factor, with sigma such that E ||u||^2 stays: the period leaves no length to shrink."""
        shifted = PeriodicGaussianField(self.sigma, self.tau, self.gamma / factor, self.modes)
        ratio = np.linalg.norm(self.scales()) / np.linalg.norm(shifted.scales())
        return PeriodicGaussianField(self.sigma * float(ratio), self.tau, self.gamma / factor, self.modes)
