"""Laws of coefficients: positive fields, and fields of two values."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray
from numpy import ndarray

from stablepdenet.functions.base import AbstractFunctionSpace, Points


class LogNormal(AbstractFunctionSpace):
    """scale * exp(g) with a zero-mean Gaussian field g: always positive, with median `scale`."""

    field: AbstractFunctionSpace
    scale: float = 1.0

    def sample(self, x: Points, num: int, *, key: PRNGKeyArray) -> Float[Array, "num points"]:
        return self.scale * jnp.exp(self.field.sample(x, num, key=key))

    def sample_grid(
        self, axes: tuple[Float[ndarray, " _"], ...], num: int, *, key: PRNGKeyArray
    ) -> Float[Array, "num points"]:
        return self.scale * jnp.exp(self.field.sample_grid(axes, num, key=key))

    def mean(self, x: Points) -> Float[ndarray, " points"]:
        return self.scale * np.exp(0.5 * _variances(self.field, x))

    def covariance(self, x: Points, y: Points) -> Float[ndarray, "points others"]:
        return np.outer(self.mean(x), self.mean(y)) * np.expm1(self.field.covariance(x, y))

    def refined(self, factor: float) -> LogNormal:
        return LogNormal(self.field.refined(factor), self.scale)


class Thresholded(AbstractFunctionSpace):
    """`high` where a zero-mean Gaussian field g is positive, `low` elsewhere: a medium of two materials."""

    field: AbstractFunctionSpace
    low: float
    high: float

    def sample(self, x: Points, num: int, *, key: PRNGKeyArray) -> Float[Array, "num points"]:
        return self._values(self.field.sample(x, num, key=key))

    def sample_grid(
        self, axes: tuple[Float[ndarray, " _"], ...], num: int, *, key: PRNGKeyArray
    ) -> Float[Array, "num points"]:
        return self._values(self.field.sample_grid(axes, num, key=key))

    def _values(self, g: Float[Array, "num points"]) -> Float[Array, "num points"]:
        return self.low + (self.high - self.low) * (g > 0)

    def mean(self, x: Points) -> Float[ndarray, " points"]:
        return np.full(len(x), 0.5 * (self.low + self.high))

    def covariance(self, x: Points, y: Points) -> Float[ndarray, "points others"]:
        """(high - low)^2 arcsin(rho) / (2 pi) with the correlation rho of g: the chance that both are positive is
        1/4 + arcsin(rho) / (2 pi)."""
        sizes = np.sqrt(np.outer(_variances(self.field, x), _variances(self.field, y)))
        correlation = np.clip(self.field.covariance(x, y) / sizes, -1.0, 1.0)
        return (self.high - self.low) ** 2 * np.arcsin(correlation) / (2 * np.pi)

    def refined(self, factor: float) -> Thresholded:
        return Thresholded(self.field.refined(factor), self.low, self.high)


def _variances(field: AbstractFunctionSpace, x: Points) -> Float[ndarray, " points"]:
    """Var[g(x)], a few points at a time: all covariances would be as many as pairs of points."""
    parts = np.array_split(np.asarray(x), max(1, len(x) // 64))
    return np.concatenate([np.diag(field.covariance(part, part)) for part in parts])
