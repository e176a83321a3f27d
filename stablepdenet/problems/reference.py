"""Exact solution operators that an audit can do more with than call them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cached_property
from typing import final

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy import ndarray

Axes = tuple[Float[ndarray, " _"], ...]


class AbstractReference(ABC):
    """S: a -> u on the tensor grid of `axes` (the first coordinate slowest).

    A plain function serves a problem as well; this family can also be differentiated, so that an attack finds where the
    true error is largest, and moved to another grid.
    """

    axes: Axes

    @abstractmethod
    def __call__(self, a: Float[ndarray, "batch m"]) -> Float[ndarray, "batch n *components"]:
        """The solutions in float64."""

    @abstractmethod
    def traced(self, a: Float[Array, "batch m"]) -> Float[Array, "batch n *components"]:
        """The solutions as a differentiable function in JAX, in the dtype of `a`."""

    @abstractmethod
    def on(self, axes: Axes) -> AbstractReference:
        """The same operator on another grid."""


@final
class LinearReference(AbstractReference):
    """S(a) = a M^T, where `build(axes)` makes the response matrix M of the unit inputs when it is first asked for."""

    def __init__(self, build: Callable[[Axes], Float[ndarray, "n m"]], axes: Axes):
        self._build, self.axes = build, axes

    @cached_property
    def matrix(self) -> Float[ndarray, "n m"]:
        return self._build(self.axes)

    def __call__(self, a: Float[ndarray, "batch m"]) -> Float[ndarray, "batch n *components"]:
        return np.asarray(a, np.float64) @ self.matrix.T

    def traced(self, a: Float[Array, "batch m"]) -> Float[Array, "batch n *components"]:
        return a @ jnp.asarray(self.matrix.T, a.dtype)

    def on(self, axes: Axes) -> LinearReference:
        return LinearReference(self._build, axes)


class AbstractViscousReference(AbstractReference):
    """A reference of fronts that get thinner as its viscosity falls, so that an audit can follow them."""

    viscosity: float

    @abstractmethod
    def at(self, viscosity: float, axes: Axes) -> AbstractViscousReference:
        """The same operator at another viscosity, on another grid."""
