"""What every function space offers: random functions as a pure function of a key."""

from __future__ import annotations

from abc import abstractmethod
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray
from numpy import ndarray


class AbstractFunctionSpace(eqx.Module):
    """A probability law on functions of one variable."""

    @abstractmethod
    def sample(self, x: Float[ndarray, " points"], num: int, *, key: PRNGKeyArray) -> Float[Array, "num points"]:
        """Draws `num` functions and returns their values at the points `x`."""

    @abstractmethod
    def covariance(self, x: Float[ndarray, " points"], y: Float[ndarray, " others"]) -> Float[ndarray, "points others"]:
        """The law's covariance E[f(x) f(y)], in float64 (every space here has mean zero)."""

    @abstractmethod
    def refined(self, factor: float) -> AbstractFunctionSpace:
        """A law of about the same size whose functions vary `factor` times as fast: rougher above 1, smoother below."""


def normal_combinations(
    num: int, directions: Float[ndarray, "k points"], *, key: PRNGKeyArray
) -> Float[Array, "num points"]:
    """`num` sums of the directions with independent standard normal weights."""
    return _combined(key, num, jnp.asarray(directions))


# One program: piece by piece, JAX would compile and keep one for each operation.
@partial(jax.jit, static_argnums=1)
def _combined(key: PRNGKeyArray, num: int, directions: Float[Array, "k points"]) -> Float[Array, "num points"]:
    return jax.random.normal(key, (num, len(directions))) @ directions
