"""Projected gradient ascent (Algorithm 1, alg:stable_attack)."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from stablepdenet.attacks.admissible import AbstractAdmissibleSet, Unrestricted
from stablepdenet.attacks.balls import AbstractBall, Budget

Objective = Callable[[Float[Array, "batch m"]], Float[Array, " batch"]]
Switch = bool | Bool[Array, ""]


class Attacked(NamedTuple):
    """An admissible perturbed input a + delta and its perturbation."""

    inputs: Float[Array, "batch m"]
    delta: Float[Array, "batch m"]


@final
class PGD(eqx.Module):
    """z <- Pi[z + alpha * direction(gradient)], for `steps` steps, from a random start.

        PGD(LinfBall(0.05), PeriodicEndpoints())

    Any ball and any admissible set go together. The objective is injected, so an attack knows nothing of physics or
    methods. It works in the ball's coordinates z and projects after every step, so a perturbation outside of the ball
    or of the admissible set cannot leave it.

    `step_size` is a fraction of the ball's radius: alpha = step_size * radius.
    """

    ball: AbstractBall
    admissible: AbstractAdmissibleSet = Unrestricted()
    steps: int = 40
    step_size: float = 0.1
    random_start: Switch = True

    def __call__(self, objective: Objective, a: Float[Array, "batch m"], *, key: PRNGKeyArray) -> Attacked:
        """Maximises `objective` (one value per input) over the admissible perturbations of each input."""
        alpha = self.step_size * self.ball.radius(a)
        gradient = jax.grad(lambda z: jnp.sum(objective(self.attacked(z, a).inputs)))

        def step(_: Array, z: Float[Array, "batch k"]) -> Float[Array, "batch k"]:
            return self.project(z + alpha * self.ball.normalise(gradient(z)), a)

        return self.attacked(jax.lax.fori_loop(0, self.steps, step, self.first(a, key=key)), a)

    @property
    def eps(self) -> Budget:
        """The ball's budget."""
        return self.ball.eps

    def with_eps(self, eps: Budget) -> PGD:
        """The same with another budget."""
        return dataclasses.replace(self, ball=dataclasses.replace(self.ball, eps=eps))

    def first(self, a: Float[Array, "batch m"], *, key: PRNGKeyArray) -> Float[Array, "batch k"]:
        """Where a search begins: at random, or at the clean input."""
        return self.project(jnp.where(self.random_start, self.ball.start(a, key=key), 0.0), a)

    def project(self, z: Float[Array, "batch k"], a: Float[Array, "batch m"]) -> Float[Array, "batch k"]:
        """A point of the ball and of the admissible set, for each input: the nearest of the set, then the nearest of
        the ball, then shrunk into the set where it was left again. Shrinking keeps a perturbation's shape ("projected
        or rescaled"), but need not give the nearest point. With the l-infinity ball nothing is left to shrink."""
        z = self.ball.moved(z, lambda delta: self.admissible.project(delta, a))
        z = self.ball.project(z, a)
        return z * self.admissible.shrinkage(self.ball.perturbation(z), a)

    def attacked(self, z: Float[Array, "batch k"], a: Float[Array, "batch m"]) -> Attacked:
        """The perturbed input of z. Through `snap` an objective sees admissible inputs only, and entries that move
        together share a gradient."""
        delta = self.ball.perturbation(z)
        return Attacked(self.admissible.snap(a + delta), delta)

    def describe(self) -> str:
        """A few words for listings."""
        return f"PGD, {self.ball.describe()}"
