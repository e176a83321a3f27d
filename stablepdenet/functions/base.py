"""What every function space offers: random functions as a pure function of a key."""

from __future__ import annotations

from abc import abstractmethod
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray
from numpy import ndarray

from stablepdenet.errors import ConfigError
from stablepdenet.functions import points as point_sets

# Points of a function: one row each. Those of a function of one variable may be a plain vector.
Points = Float[ndarray, "_ _"] | Float[ndarray, " _"]


class AbstractFunctionSpace(eqx.Module):
    """A probability law on functions of one, two or three variables."""

    @abstractmethod
    def sample(self, x: Points, num: int, *, key: PRNGKeyArray) -> Float[Array, "num points"]:
        """Draws `num` functions and returns their values at the points `x`."""

    @abstractmethod
    def covariance(self, x: Points, y: Points) -> Float[ndarray, "points others"]:
        """The law's covariance Cov[f(x), f(y)], in float64."""

    @abstractmethod
    def refined(self, factor: float) -> AbstractFunctionSpace:
        """A law of about the same size whose functions vary `factor` times as fast: rougher above 1, smoother below."""

    def mean(self, x: Points) -> Float[ndarray, " points"]:
        """The law's mean E[f(x)]: zero unless a space says otherwise."""
        return np.zeros(len(x))

    def sample_grid(
        self, axes: tuple[Float[ndarray, " _"], ...], num: int, *, key: PRNGKeyArray
    ) -> Float[Array, "num points"]:
        """The same on a tensor grid, first coordinate slowest; a law that factorises does better."""
        return self.sample(axes[0] if len(axes) == 1 else point_sets.grid(*axes), num, key=key)


def rows(x: Any) -> Float[ndarray, "points dim"]:
    """Points as rows, in float64."""
    values = np.asarray(x, np.float64)
    return values[:, None] if values.ndim == 1 else values


def one_variable(x: Any, name: str) -> Float[ndarray, " points"]:
    """Points of a function of one variable."""
    found = rows(x)
    if found.shape[1] != 1:
        raise ConfigError(f"{name} has functions of one variable, and was asked for {found.shape[1]}.")
    return found[:, 0]


def squared_distances(x: Points, y: Points) -> Float[ndarray, "points others"]:
    """|x - y|^2 of all pairs."""
    differences = rows(x)[:, None, :] - rows(y)[None, :, :]
    return np.sum(differences**2, axis=-1)


def normal_combinations(
    num: int, directions: Float[ndarray, "k points"], *, key: PRNGKeyArray
) -> Float[Array, "num points"]:
    """`num` sums of the directions with independent standard normal weights."""
    return _combined(key, num, jnp.asarray(directions))


# One program: piece by piece, JAX would compile and keep one for each operation.
@partial(jax.jit, static_argnums=1)
def _combined(key: PRNGKeyArray, num: int, directions: Float[Array, "k points"]) -> Float[Array, "num points"]:
    return jax.random.normal(key, (num, len(directions))) @ directions
