"""PI-DeepONet."""

from __future__ import annotations

from typing import ClassVar

from jaxtyping import Array, Float

from stablepdenet.methods.base import AbstractMethod, Batch, Terms, physics_terms
from stablepdenet.physics import ResidualMap, block_norms
from stablepdenet.problems import Problem


class Clean(AbstractMethod):
    """J = E_a L_phys(theta; a): the physics-informed baseline."""

    attacks: ClassVar[bool] = False

    def terms(self, residuals: ResidualMap, problem: Problem, batch: Batch, lambda_sens: Float[Array, ""]) -> Terms:
        return physics_terms(block_norms(residuals(batch.clean)), problem)
