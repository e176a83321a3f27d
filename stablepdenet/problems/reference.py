"""Exact solution operators that an audit can do more with than call them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cached_property
from typing import final

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy import ndarray

from stablepdenet.solvers.burgers import cole_hopf, cole_hopf_jax

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


@final
class ColeHopfReference(AbstractReference):
    """Burgers' solution operator on the grid of (x, t)."""

    def __init__(self, sensors: Float[ndarray, " m"], viscosity: float, axes: Axes):
        self.sensors, self.viscosity, self.axes = sensors, viscosity, axes

    def __call__(self, a: Float[ndarray, "batch m"]) -> Float[ndarray, "batch n *components"]:
        x, t = self.axes
        return cole_hopf(a, self.sensors, x, t, self.viscosity).swapaxes(1, 2).reshape(len(a), -1)

    def traced(self, a: Float[Array, "batch m"]) -> Float[Array, "batch n *components"]:
        x, t = self.axes
        # In float64 where JAX is set to it: see `cole_hopf_jax` on what small viscosities ask for.
        wide = a.astype(jax.dtypes.canonicalize_dtype(np.float64))
        # A quarter of the nodes: 3e-7 from the full number, in half the time.
        u = cole_hopf_jax(wide, self.sensors, x, t, self.viscosity, grid=1024)
        return u.swapaxes(1, 2).reshape(len(a), -1).astype(a.dtype)

    def on(self, axes: Axes) -> ColeHopfReference:
        return ColeHopfReference(self.sensors, self.viscosity, axes)
