"""What an objective is: the loss that one outer step minimises."""

from __future__ import annotations

import dataclasses
from abc import abstractmethod
from typing import ClassVar, NamedTuple, final

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from stablepdenet.attacks import PGD, Objective
from stablepdenet.operators import AbstractOperator
from stablepdenet.problems import Problem
from stablepdenet.problems.physics import BlockNorms, physics_loss, residual_map, weighted_sum


class Batch(NamedTuple):
    """Clean inputs a, and their attacked copies a + delta (unused while a training is clean)."""

    clean: Float[Array, "batch m"]
    attacked: Float[Array, "batch m"]


class Terms(NamedTuple):
    """A loss and what it consists of, averaged over the batch; `sensitivity` is the penalty before its weight."""

    loss: Float[Array, ""]
    blocks: dict[str, Float[Array, ""]]
    sensitivity: Float[Array, ""]
    share: Float[Array, ""]


class AbstractObjective(eqx.Module):
    """A training objective J(theta), with the `attack` that validation tries on it.

    `perturbed` says whether its physics loss sees perturbed inputs.
    """

    attack: eqx.AbstractVar[PGD | None]
    perturbed: ClassVar[bool] = True

    @abstractmethod
    def terms(self, operator: AbstractOperator, problem: Problem, batch: Batch, weight: Float[Array, ""]) -> Terms:
        """The objective on a batch; `weight` is lambda_sens, or that of whatever penalty there is."""


class AbstractAttacking(AbstractObjective):
    """An objective on perturbed inputs, which are searched for by its `attack`."""

    attack: PGD

    def search(self) -> PGD:
        """How it perturbs inputs: by its attack as it is."""
        return self.attack

    def target(self, operator: AbstractOperator, problem: Problem, clean: Float[Array, "batch m"]) -> Objective:
        """What it searches for: inputs of a large physics loss (eq:training-attack)."""
        residuals = residual_map(operator, problem)
        return lambda a: physics_loss(residuals(a), problem)


class AbstractPenalised(AbstractAttacking):
    """J = E_a [L_phys + lambda P]: a physics loss and a penalty. lambda gives it a share `rho`: it is calibrated on so
    many attacked batches."""

    rho: float = eqx.field(default=0.10, kw_only=True)
    calibration_batches: int = eqx.field(default=10, kw_only=True)

    @abstractmethod
    def parts(self, operator: AbstractOperator, problem: Problem, batch: Batch) -> tuple[BlockNorms, Array]:
        """The blocks' norms that the physics loss is made of, and the penalty, both for each input."""

    @final
    def terms(self, operator: AbstractOperator, problem: Problem, batch: Batch, weight: Float[Array, ""]) -> Terms:
        norms, penalty = self.parts(operator, problem, batch)
        physics, mean = physics_terms(norms, problem), jnp.mean(penalty)
        loss = physics.loss + weight * mean
        return Terms(loss, physics.blocks, mean, weight * mean / loss)

    @final
    def calibrate(self, physics: Float[Array, ""], penalty: Float[Array, ""]) -> Float[Array, ""]:
        """lambda = rho / (1 - rho) * mean L_phys / mean P, from the averages over attacked warm-up batches
        (eq:lambda-calibration)."""
        return self.rho / (1.0 - self.rho) * physics / penalty


def random_start(attack: PGD) -> PGD:
    """No search: somewhere in the attack's set."""
    return dataclasses.replace(attack, steps=0, random_start=True)


def physics_terms(norms: BlockNorms, problem: Problem) -> Terms:
    """The physics loss alone."""
    loss = jnp.mean(weighted_sum(norms, problem))
    zero = jnp.zeros_like(loss)
    return Terms(loss, {name: jnp.mean(norm) for name, norm in norms.items()}, zero, zero)
