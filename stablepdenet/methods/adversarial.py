"""AdvPI, and the same with noise."""

from __future__ import annotations

from typing import ClassVar

from jaxtyping import Array, Float

from stablepdenet.methods.base import AbstractMethod, Batch, Terms, physics_terms
from stablepdenet.operators import AbstractOperator
from stablepdenet.physics import block_norms, residual_map
from stablepdenet.problems import Problem


class Adversarial(AbstractMethod):
    """J_Adv = E_a L_phys(theta; a + delta): the attacked physics loss (eq:adv-objective)."""

    attacks: ClassVar[bool] = True

    def terms(self, operator: AbstractOperator, problem: Problem, batch: Batch, weight: Float[Array, ""]) -> Terms:
        return physics_terms(block_norms(residual_map(operator, problem)(batch.attacked)), problem)


class Noise(Adversarial):
    """J = E_a E_delta L_phys(theta; a + delta) with random delta: augmentation by noise."""

    searches: ClassVar[bool] = False
