"""The Gaussian field with a radial basis kernel."""

from __future__ import annotations

import numpy as np
import scipy
from jaxtyping import Array, Float, PRNGKeyArray
from numpy import ndarray

from stablepdenet.spaces.base import AbstractFunctionSpace, normal_combinations


class GaussianField(AbstractFunctionSpace):
    """Zero-mean Gaussian field with kernel variance * exp(-|x - y|^2 / (2 length_scale^2))."""

    length_scale: float = 1.0
    variance: float = 1.0

    def covariance(self, x: Float[ndarray, " points"], y: Float[ndarray, " others"]) -> Float[ndarray, "points others"]:
        distance = np.asarray(x, np.float64)[:, None] - np.asarray(y, np.float64)[None, :]
        return self.variance * np.exp(-0.5 * (distance / self.length_scale) ** 2)

    def sample(self, x: Float[ndarray, " points"], num: int, *, key: PRNGKeyArray) -> Float[Array, "num points"]:
        # The kernel is numerically singular (a few eigenvalues carry everything), so a Cholesky factor would need an
        # artificial jitter; the symmetric root does not.
        eigenvalues, eigenvectors = scipy.linalg.eigh(self.covariance(x, x))
        root = eigenvectors * np.sqrt(np.maximum(eigenvalues, 0.0))
        return normal_combinations(num, root.T, key=key)

    def refined(self, factor: float) -> GaussianField:
        return GaussianField(self.length_scale / factor, self.variance)
