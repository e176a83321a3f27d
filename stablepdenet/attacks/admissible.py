"""Admissible input sets A: which perturbed inputs still define a well-posed problem.

Every set is convex and contains the clean inputs, so shrinking a perturbation always brings it back inside.
"""

from __future__ import annotations

from abc import abstractmethod

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float


class AbstractAdmissibleSet(eqx.Module):
    """A set A of inputs."""

    @abstractmethod
    def project(self, delta: Float[Array, "batch m"], a: Float[Array, "batch m"]) -> Float[Array, "batch m"]:
        """The nearest d with a + d in A, for each input of the batch."""

    @abstractmethod
    def shrinkage(self, delta: Float[Array, "batch m"], a: Float[Array, "batch m"]) -> Float[Array, "batch 1"]:
        """The largest s in [0, 1] with a + s delta in A, for each input of the batch."""

    @abstractmethod
    def snap(self, a: Float[Array, "batch m"]) -> Float[Array, "batch m"]:
        """Removes what rounding leaves outside of A."""

    @property
    def condition(self) -> str:
        """What makes an input one of A, after "inputs whose"."""
        return f"values are in {type(self).__name__}"


class Unrestricted(AbstractAdmissibleSet):
    """Every input."""

    def project(self, delta: Float[Array, "batch m"], a: Float[Array, "batch m"]) -> Float[Array, "batch m"]:
        return delta

    def shrinkage(self, delta: Float[Array, "batch m"], a: Float[Array, "batch m"]) -> Float[Array, "batch 1"]:
        return jnp.ones((len(a), 1))

    def snap(self, a: Float[Array, "batch m"]) -> Float[Array, "batch m"]:
        return a


class PeriodicEndpoints(AbstractAdmissibleSet):
    """Inputs whose first and last sensor value agree: functions of period 1 with a sensor at both ends."""

    def project(self, delta: Float[Array, "batch m"], a: Float[Array, "batch m"]) -> Float[Array, "batch m"]:
        # Both ends move together, so the nearest common value is their mean.
        return _equal_ends(delta)

    def shrinkage(self, delta: Float[Array, "batch m"], a: Float[Array, "batch m"]) -> Float[Array, "batch 1"]:
        # A line through a in any other direction leaves this subspace at once. The tolerance is float32 rounding.
        scale = jnp.max(jnp.abs(delta), axis=1, keepdims=True)
        return jnp.where(jnp.abs(delta[:, :1] - delta[:, -1:]) <= 1e-5 * scale, 1.0, 0.0)

    def snap(self, a: Float[Array, "batch m"]) -> Float[Array, "batch m"]:
        # Their mean, so that both ends share one gradient and a sign step moves them alike.
        return _equal_ends(a)

    @property
    def condition(self) -> str:
        return "first and last value agree"


def _equal_ends(values: Float[Array, "batch m"]) -> Float[Array, "batch m"]:
    ends = 0.5 * (values[:, :1] + values[:, -1:])
    return jnp.concatenate([ends, values[:, 1:-1], ends], axis=1)


class ValueRange(AbstractAdmissibleSet):
    """Inputs with all values in [lower, upper], e.g. a positive diffusion coefficient."""

    lower: float
    upper: float = float("inf")

    def project(self, delta: Float[Array, "batch m"], a: Float[Array, "batch m"]) -> Float[Array, "batch m"]:
        return jnp.clip(delta, self.lower - a, self.upper - a)

    def shrinkage(self, delta: Float[Array, "batch m"], a: Float[Array, "batch m"]) -> Float[Array, "batch 1"]:
        room = jnp.where(delta < 0, self.lower - a, self.upper - a)
        reach = jnp.where(delta == 0, jnp.inf, room / jnp.where(delta == 0, 1.0, delta))
        return jnp.clip(jnp.min(reach, axis=1, keepdims=True), 0.0, 1.0)

    def snap(self, a: Float[Array, "batch m"]) -> Float[Array, "batch m"]:
        return jnp.clip(a, self.lower, self.upper)

    @property
    def condition(self) -> str:
        return f"values lie in [{self.lower:g}, {self.upper:g}]"
