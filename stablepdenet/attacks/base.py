"""Projected gradient ascent (Algorithm 1, alg:stable_attack)."""

from abc import abstractmethod
from collections.abc import Callable
from typing import NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from stablepdenet.attacks.admissible import AbstractAdmissibleSet, Budget, Switch

Objective = Callable[[Float[Array, "batch m"]], Float[Array, " batch"]]


class Attacked(NamedTuple):
    """An admissible perturbed input a + delta and its perturbation."""

    inputs: Float[Array, "batch m"]
    delta: Float[Array, "batch m"]


class AbstractPGD(eqx.Module):
    """z <- Pi[z + alpha * direction(gradient)], for `steps` steps, from a random start.

    The objective is injected, so an attack knows nothing of physics or methods. It works in perturbation coordinates z
    with delta = perturbation(z). A member says what its ball looks like; the loop is final and projects after every
    step, so a perturbation outside of the ball or of the admissible set cannot leave it.

    `step_size` is a fraction of the ball's radius: alpha = step_size * radius.
    """

    eps: eqx.AbstractVar[Budget]
    admissible: eqx.AbstractVar[AbstractAdmissibleSet]
    steps: eqx.AbstractVar[int]
    step_size: eqx.AbstractVar[float]
    random_start: eqx.AbstractVar[Switch]

    @abstractmethod
    def radius(self, a: Float[Array, "batch m"]) -> Float[Array, "batch 1"]:
        """The ball's radius for each input."""

    @abstractmethod
    def start(self, a: Float[Array, "batch m"], *, key: PRNGKeyArray) -> Float[Array, "batch k"]:
        """A random z, not yet projected."""

    @abstractmethod
    def direction(self, gradient: Float[Array, "batch k"]) -> Float[Array, "batch k"]:
        """The ascent direction of unit length in the ball's norm."""

    @abstractmethod
    def project(self, z: Float[Array, "batch k"], a: Float[Array, "batch m"]) -> Float[Array, "batch k"]:
        """A point of the ball and the admissible set for each input: the nearest one, as far as a member says so."""

    @abstractmethod
    def length(self, z: Float[Array, "batch k"]) -> Float[Array, "batch 1"]:
        """The ball's norm of z."""

    @abstractmethod
    def perturbation(self, z: Float[Array, "batch k"]) -> Float[Array, "batch m"]:
        """delta from z."""

    @abstractmethod
    def coordinates(self, delta: Float[Array, "batch m"]) -> Float[Array, "batch k"]:
        """z from delta, or from the part of it that the coordinates can express."""

    @abstractmethod
    def describe(self) -> str:
        """A few words for listings."""

    @final
    def __call__(self, objective: Objective, a: Float[Array, "batch m"], *, key: PRNGKeyArray) -> Attacked:
        """Maximises `objective` (one value per input) over the admissible perturbations of each input."""
        alpha = self.step_size * self.radius(a)
        gradient = jax.grad(lambda z: jnp.sum(objective(self.attacked(z, a).inputs)))
        z = self.first(a, key=key)
        z = jax.lax.fori_loop(0, self.steps, lambda _, z: self.project(z + alpha * self.direction(gradient(z)), a), z)
        return self.attacked(z, a)

    @final
    def first(self, a: Float[Array, "batch m"], *, key: PRNGKeyArray) -> Float[Array, "batch k"]:
        """Where a search begins: at random, or at the clean input."""
        return self.project(jnp.where(self.random_start, self.start(a, key=key), 0.0), a)

    @final
    def attacked(self, z: Float[Array, "batch k"], a: Float[Array, "batch m"]) -> Attacked:
        """The perturbed input of z. Through `snap` an objective sees admissible inputs only, and entries that move
        together share a gradient."""
        delta = self.perturbation(z)
        return Attacked(self.admissible.snap(a + delta), delta)
