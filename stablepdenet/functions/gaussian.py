"""Gaussian fields given by a kernel of the distance."""

from __future__ import annotations

import math
from abc import abstractmethod
from functools import reduce

import jax
import jax.numpy as jnp
import numpy as np
import scipy
from jaxtyping import Array, Float, PRNGKeyArray
from numpy import ndarray

from stablepdenet.errors import ConfigError
from stablepdenet.functions.base import AbstractFunctionSpace, Points, normal_combinations, squared_distances


class AbstractKernelField(AbstractFunctionSpace):
    """A zero-mean Gaussian field with a stationary kernel, sampled by the symmetric root of its covariance."""

    @abstractmethod
    def kernel(self, squared: Float[ndarray, "points others"]) -> Float[ndarray, "points others"]:
        """The covariance of two values at a squared distance."""

    def covariance(self, x: Points, y: Points) -> Float[ndarray, "points others"]:
        return self.kernel(squared_distances(x, y))

    def sample(self, x: Points, num: int, *, key: PRNGKeyArray) -> Float[Array, "num points"]:
        return normal_combinations(num, _root(self.covariance(x, x)).T, key=key)


class GaussianField(AbstractKernelField):
    """Zero-mean Gaussian field with kernel variance * exp(-|x - y|^2 / (2 length_scale^2))."""

    length_scale: float = 1.0
    variance: float = 1.0

    def kernel(self, squared: Float[ndarray, "points others"]) -> Float[ndarray, "points others"]:
        return self.variance * np.exp(-0.5 * squared / self.length_scale**2)

    def sample_grid(
        self, axes: tuple[Float[ndarray, " _"], ...], num: int, *, key: PRNGKeyArray
    ) -> Float[Array, "num points"]:
        """The kernel is a product over the coordinates, so its root is one of small roots."""
        if len(axes) == 1:
            return self.sample(axes[0], num, key=key)
        scale = math.sqrt(self.variance)
        unit = GaussianField(self.length_scale)
        roots = [jnp.asarray(_root(unit.covariance(axis, axis))) for axis in axes]
        weights = jax.random.normal(key, (num, *map(len, axes)))

        def along(values: Array, place: tuple[int, Array]) -> Array:
            number, root = place
            return jnp.moveaxis(jnp.tensordot(values, root, axes=(number + 1, 1)), -1, number + 1)

        return scale * reduce(along, enumerate(roots), weights).reshape(num, -1)

    def refined(self, factor: float) -> GaussianField:
        return GaussianField(self.length_scale / factor, self.variance)


class MaternField(AbstractKernelField):
    """Zero-mean Gaussian field with the Matérn kernel of smoothness 1/2, 3/2 or 5/2: its functions have one derivative
    fewer than the number above 1/2, in the mean square.

        variance * p(s) exp(-s),  s = sqrt(2 smoothness) |x - y| / length_scale,  p = 1, 1 + s, 1 + s + s^2 / 3.
    """

    length_scale: float = 1.0
    variance: float = 1.0
    smoothness: float = 1.5

    def __check_init__(self) -> None:
        if self.smoothness not in (0.5, 1.5, 2.5):
            raise ConfigError(f"MaternField(smoothness={self.smoothness:g}) must be 0.5, 1.5 or 2.5.")

    def kernel(self, squared: Float[ndarray, "points others"]) -> Float[ndarray, "points others"]:
        s = np.sqrt(2.0 * self.smoothness * squared) / self.length_scale
        polynomial = np.ones_like(s) + (self.smoothness > 0.5) * s + (self.smoothness > 1.5) * s**2 / 3.0
        return self.variance * polynomial * np.exp(-s)

    def refined(self, factor: float) -> MaternField:
        return MaternField(self.length_scale / factor, self.variance, self.smoothness)


def _root(covariance: Float[ndarray, "n n"]) -> Float[ndarray, "n n"]:
    """Kernels are numerically singular (a few eigenvalues carry everything), so a Cholesky factor would need an
    artificial jitter; the symmetric root does not."""
    eigenvalues, eigenvectors = scipy.linalg.eigh(covariance)
    return eigenvectors * np.sqrt(np.maximum(eigenvalues, 0.0))
