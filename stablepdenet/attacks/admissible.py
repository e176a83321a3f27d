"""Admissible input sets A: which perturbed inputs still define a well-posed problem.

Every set is convex and contains the clean inputs, so shrinking a perturbation always brings it back inside.
"""

from __future__ import annotations

from abc import abstractmethod

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

# A number, or a traced one: a sweep over budgets then compiles once.
Budget = float | Float[Array, ""]
Switch = bool | Bool[Array, ""]


class AbstractAdmissibleSet(eqx.Module):
    """A set A of inputs."""

    @abstractmethod
    def project(
        self, delta: Float[Array, "batch m"], a: Float[Array, "batch m"], eps: Budget
    ) -> Float[Array, "batch m"]:
        """Solves min ||d - delta||_2 subject to |d_i| <= eps and a + d in A, for each input of the batch."""

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

    def project(
        self, delta: Float[Array, "batch m"], a: Float[Array, "batch m"], eps: Budget
    ) -> Float[Array, "batch m"]:
        return jnp.clip(delta, -eps, eps)

    def shrinkage(self, delta: Float[Array, "batch m"], a: Float[Array, "batch m"]) -> Float[Array, "batch 1"]:
        return jnp.ones((len(a), 1))

    def snap(self, a: Float[Array, "batch m"]) -> Float[Array, "batch m"]:
        return a


class PeriodicEndpoints(AbstractAdmissibleSet):
    """Inputs whose first and last sensor value agree: functions of period 1 with a sensor at both ends."""

    def project(
        self, delta: Float[Array, "batch m"], a: Float[Array, "batch m"], eps: Budget
    ) -> Float[Array, "batch m"]:
        # Both ends move together, so the nearest common value is their mean; the box is the same for both.
        ends = 0.5 * (delta[:, :1] + delta[:, -1:])
        return jnp.clip(jnp.concatenate([ends, delta[:, 1:-1], ends], axis=1), -eps, eps)

    def shrinkage(self, delta: Float[Array, "batch m"], a: Float[Array, "batch m"]) -> Float[Array, "batch 1"]:
        # A line through a in any other direction leaves this subspace at once. The tolerance is float32 rounding.
        scale = jnp.max(jnp.abs(delta), axis=1, keepdims=True)
        return jnp.where(jnp.abs(delta[:, :1] - delta[:, -1:]) <= 1e-5 * scale, 1.0, 0.0)

    def snap(self, a: Float[Array, "batch m"]) -> Float[Array, "batch m"]:
        # Their mean, so that both ends share one gradient and a sign step moves them alike.
        ends = 0.5 * (a[:, :1] + a[:, -1:])
        return jnp.concatenate([ends, a[:, 1:-1], ends], axis=1)

    @property
    def condition(self) -> str:
        return "first and last value agree"


class ValueRange(AbstractAdmissibleSet):
    """Inputs with all values in [lower, upper], e.g. a positive diffusion coefficient."""

    lower: float
    upper: float = float("inf")

    def project(
        self, delta: Float[Array, "batch m"], a: Float[Array, "batch m"], eps: Budget
    ) -> Float[Array, "batch m"]:
        return jnp.clip(delta, jnp.maximum(self.lower - a, -eps), jnp.minimum(self.upper - a, eps))

    def shrinkage(self, delta: Float[Array, "batch m"], a: Float[Array, "batch m"]) -> Float[Array, "batch 1"]:
        room = jnp.where(delta < 0, self.lower - a, self.upper - a)
        reach = jnp.where(delta == 0, jnp.inf, room / jnp.where(delta == 0, 1.0, delta))
        return jnp.clip(jnp.min(reach, axis=1, keepdims=True), 0.0, 1.0)

    def snap(self, a: Float[Array, "batch m"]) -> Float[Array, "batch m"]:
        return jnp.clip(a, self.lower, self.upper)

    @property
    def condition(self) -> str:
        return f"values lie in [{self.lower:g}, {self.upper:g}]"
