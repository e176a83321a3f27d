"""Penalties on the prediction itself: what other fields use, and what the paper warns of.

They ask that G(a + delta) stays near G(a), as labels do in image recognition. A solution does not: S(a + delta) is not
S(a), and near resonance far from it. They are here to be compared with.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from stablepdenet.attacks import PGD, Objective
from stablepdenet.operators import AbstractOperator, Query
from stablepdenet.problems import Problem
from stablepdenet.problems.physics import BlockNorms, block_norms, residual_map
from stablepdenet.training.objectives.base import AbstractPenalised, Batch, random_start


class Increment(AbstractPenalised):
    """J = E_a [L_phys(a + delta) + lambda ||G(a + delta) - G(a)||^2 / (||delta||^2 + tau)]: StablePDENet with the
    prediction's increment in place of the residuals' (eq:naive-robustness)."""

    tau: float = eqx.field(default=1e-6, kw_only=True)

    def parts(self, operator: AbstractOperator, problem: Problem, batch: Batch) -> tuple[BlockNorms, Array]:
        change, delta = _increment(operator, problem, batch), batch.attacked - batch.clean
        attacked = residual_map(operator, problem)(batch.attacked)
        return block_norms(attacked), change / (jnp.mean(delta**2, axis=1) + self.tau)


class Trades(AbstractPenalised):
    """J = E_a [L_phys(a) + lambda max_delta ||G(a + delta) - G(a)||^2]: accuracy on clean inputs, and outputs that an
    attack cannot move (Zhang et al. 2019, "Theoretically principled trade-off between robustness and accuracy")."""

    perturbed: ClassVar[bool] = False

    def search(self) -> PGD:
        # The distance from G(a) has no slope at a.
        return dataclasses.replace(self.attack, random_start=True)

    def target(self, operator: AbstractOperator, problem: Problem, clean: Float[Array, "batch m"]) -> Objective:
        outputs = _outputs(operator, problem)
        before = outputs(clean)
        return lambda a: jnp.mean((outputs(a) - before) ** 2, axis=1)

    def parts(self, operator: AbstractOperator, problem: Problem, batch: Batch) -> tuple[BlockNorms, Array]:
        return block_norms(residual_map(operator, problem)(batch.clean)), _increment(operator, problem, batch)


class Jacobian(AbstractPenalised):
    """J = E_a [L_phys(a) + lambda E_v ||G'(a) v||^2 / ||v||^2] with random directions v (Hoffman et al. 2019, "Robust
    learning with Jacobian regularization")."""

    tau: float = eqx.field(default=1e-6, kw_only=True)

    perturbed: ClassVar[bool] = False

    def search(self) -> PGD:
        return random_start(self.attack)

    def parts(self, operator: AbstractOperator, problem: Problem, batch: Batch) -> tuple[BlockNorms, Array]:
        direction = batch.attacked - batch.clean
        _, change = jax.jvp(_outputs(operator, problem), (batch.clean,), (direction,))
        gain = jnp.mean(change**2, axis=1) / (jnp.mean(direction**2, axis=1) + self.tau)
        return block_norms(residual_map(operator, problem)(batch.clean)), gain


def _outputs(operator: AbstractOperator, problem: Problem) -> Callable[[Array], Float[Array, "batch n"]]:
    """a -> u at the points of all blocks, one component after another."""
    points = np.concatenate([block.points for block in problem.blocks])
    evaluate = operator.prepare([Query(points, ((),), component=number) for number in range(len(problem.solution))])
    return lambda a: jnp.concatenate([fields[()] for fields in evaluate(a)], axis=1)


def _increment(operator: AbstractOperator, problem: Problem, batch: Batch) -> Float[Array, " batch"]:
    """||G(a + delta) - G(a)||^2, the mean over points."""
    both = _outputs(operator, problem)(jnp.concatenate([batch.clean, batch.attacked]))
    return jnp.mean((both[len(batch.clean) :] - both[: len(batch.clean)]) ** 2, axis=1)
