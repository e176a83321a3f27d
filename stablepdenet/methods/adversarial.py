"""AdvPI."""

from __future__ import annotations

from typing import ClassVar

from jaxtyping import Array, Float

from stablepdenet.methods.base import AbstractMethod, Batch, Terms, physics_terms
from stablepdenet.physics import ResidualMap, block_norms
from stablepdenet.problems import Problem


class Adversarial(AbstractMethod):
    """J_Adv = E_a L_phys(theta; a + delta): the attacked physics loss (eq:adv-objective)."""

    attacks: ClassVar[bool] = True

    def terms(self, residuals: ResidualMap, problem: Problem, batch: Batch, lambda_sens: Float[Array, ""]) -> Terms:
        return physics_terms(block_norms(residuals(batch.attacked)), problem)
