"""An input is its array: how the array `a` that the branch sees defines a function everywhere.

Either the entries of `a` are values at sensors, joined by straight lines, or they are coefficients of fixed modes.
Both are linear, so the function's values at any points are one fixed matrix: `a @ input.matrix(x).T`. Clean and
attacked inputs go through the same line of code, and the PDE always sees the perturbed function.
"""

from abc import abstractmethod

import equinox as eqx
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray
from numpy import ndarray

from stablepdenet import hats
from stablepdenet.errors import ConfigError
from stablepdenet.spaces.base import AbstractFunctionSpace
from stablepdenet.spaces.series import SineSeries


class AbstractInput(eqx.Module):
    """The operator's input: its law and its discrete representation."""

    space: eqx.AbstractVar[AbstractFunctionSpace]

    @property
    @abstractmethod
    def size(self) -> int:
        """The branch-input dimension m."""

    @abstractmethod
    def sample(self, num: int, *, key: PRNGKeyArray) -> Float[Array, "num m"]:
        """Draws `num` inputs from the function space."""

    @abstractmethod
    def matrix(self, x: Float[ndarray, " points"]) -> Float[ndarray, "points m"]:
        """The matrix whose product with `a` gives the input function at `x`."""

    @abstractmethod
    def radius(self, a: Float[Array, "batch m"]) -> Float[Array, " batch"]:
        """The input's norm that a relative budget refers to (eq:bl-l2-admissible-set): ||c||_2 of coefficients, which
        is the function's L2 norm, and the discrete norm ||a||_{2,m} of sensor values, which approximates it."""

    @abstractmethod
    def modes(self, band: int) -> Float[ndarray, "band m"]:
        """The first `band` orthonormal sine modes sqrt(2) sin(n pi x), written as input arrays."""

    @abstractmethod
    def describe(self) -> str:
        """A few words for listings."""


class SensorInput(AbstractInput):
    """Values at sensors, linear in between."""

    space: AbstractFunctionSpace
    sensors: Float[ndarray, " m"]

    @property
    def size(self) -> int:
        return len(self.sensors)

    def sample(self, num: int, *, key: PRNGKeyArray) -> Float[Array, "num m"]:
        return self.space.sample(self.sensors, num, key=key)

    def matrix(self, x: Float[ndarray, " points"]) -> Float[ndarray, "points m"]:
        return hats.values(self.sensors, x)

    def radius(self, a: Float[Array, "batch m"]) -> Float[Array, " batch"]:
        return (a**2).mean(axis=-1) ** 0.5

    def modes(self, band: int) -> Float[ndarray, "band m"]:
        return np.sqrt(2.0) * np.sin(np.pi * np.arange(1, band + 1)[:, None] * self.sensors)

    def describe(self) -> str:
        return f"{self.size} sensors, {type(self.space).__name__}"


class ModalInput(AbstractInput):
    """Coefficients of the orthonormal sine modes."""

    space: SineSeries

    @property
    def size(self) -> int:
        return self.space.modes

    def sample(self, num: int, *, key: PRNGKeyArray) -> Float[Array, "num m"]:
        return self.space.coefficients(num, key=key)

    def matrix(self, x: Float[ndarray, " points"]) -> Float[ndarray, "points m"]:
        return self.space.basis(x)

    def radius(self, a: Float[Array, "batch m"]) -> Float[Array, " batch"]:
        return (a**2).sum(axis=-1) ** 0.5

    def modes(self, band: int) -> Float[ndarray, "band m"]:
        if band > self.size:
            raise ConfigError(f"A band of {band} modes exceeds the input's {self.size} coefficients: lower the band.")
        return np.eye(band, self.size)

    def describe(self) -> str:
        return f"{self.size} coefficients, {type(self.space).__name__}"
