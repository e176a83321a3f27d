"""PI-DeepONet."""

from __future__ import annotations

from typing import ClassVar

from jaxtyping import Array, Float

from stablepdenet.attacks import PGD
from stablepdenet.operators import AbstractOperator
from stablepdenet.problems import Problem
from stablepdenet.problems.physics import block_norms, residual_map
from stablepdenet.training.objectives.base import AbstractObjective, Batch, Terms, physics_terms


class Clean(AbstractObjective):
    """J = E_a L_phys(theta; a): the physics-informed baseline. It needs no attack; with one, validation tells what that
    does."""

    attack: PGD | None = None

    perturbed: ClassVar[bool] = False

    def terms(self, operator: AbstractOperator, problem: Problem, batch: Batch, weight: Float[Array, ""]) -> Terms:
        return physics_terms(block_norms(residual_map(operator, problem)(batch.clean)), problem)
