"""Functions given by random coefficients: power series and sine series."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray
from numpy import ndarray

from stablepdenet.functions.base import AbstractFunctionSpace, Points, normal_combinations, one_variable


class PowerSeries(AbstractFunctionSpace):
    """f(x) = sum_{k < terms} c_k x^k with independent c_k ~ U(-bound, bound)."""

    terms: int = 4
    bound: float = 1.0

    def _powers(self, x: Points) -> Float[ndarray, "points terms"]:
        return one_variable(x, type(self).__name__)[:, None] ** np.arange(self.terms)

    def covariance(self, x: Points, y: Points) -> Float[ndarray, "points others"]:
        return self.bound**2 / 3.0 * self._powers(x) @ self._powers(y).T

    def sample(self, x: Points, num: int, *, key: PRNGKeyArray) -> Float[Array, "num points"]:
        coefficients = jax.random.uniform(key, (num, self.terms), minval=-self.bound, maxval=self.bound)
        return coefficients @ jnp.asarray(self._powers(x).T)

    def refined(self, factor: float) -> PowerSeries:
        """More or fewer powers: a polynomial has no scale to shrink, only a degree."""
        return PowerSeries(max(1, round(self.terms * factor)), self.bound)


class SineSeries(AbstractFunctionSpace):
    """f(x) = sum_{n <= modes} c_n phi_n(x), phi_n = sqrt(2) sin(n pi x), independent c_n ~ N(0, sigma_n^2), with

        sigma_n = (1 + (n / decay)^2)^-1 / [sum_j (1 + (j / decay)^2)^-2]^(1/2),

    so that E ||f||^2 = 1 (the paper's Helmholtz forcing).
    """

    modes: int = 10
    decay: float = 5.0

    def scales(self) -> Float[ndarray, " modes"]:
        """The standard deviations sigma_n."""
        raw = 1.0 / (1.0 + (np.arange(1, self.modes + 1) / self.decay) ** 2)
        return raw / np.linalg.norm(raw)

    def basis(self, x: Points, order: int = 0) -> Float[ndarray, "points modes"]:
        """phi_n at the points x, or its derivative of some order: each moves a sine by a quarter of its period."""
        frequencies = np.pi * np.arange(1, self.modes + 1)
        phases = one_variable(x, type(self).__name__)[:, None] * frequencies
        return np.sqrt(2.0) * frequencies**order * np.sin(phases + order * np.pi / 2)

    def coefficients(self, num: int, *, key: PRNGKeyArray) -> Float[Array, "num modes"]:
        """Draws the coefficient vectors c of `num` functions."""
        return normal_combinations(num, np.diag(self.scales()), key=key)

    def covariance(self, x: Points, y: Points) -> Float[ndarray, "points others"]:
        return (self.basis(x) * self.scales() ** 2) @ self.basis(y).T

    def sample(self, x: Points, num: int, *, key: PRNGKeyArray) -> Float[Array, "num points"]:
        return self.coefficients(num, key=key) @ jnp.asarray(self.basis(x).T)

    def refined(self, factor: float) -> SineSeries:
        return SineSeries(self.modes, self.decay * factor)
