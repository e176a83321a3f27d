"""PI-DeepONet."""

from __future__ import annotations

from typing import ClassVar

from jaxtyping import Array, Float

from stablepdenet.methods.base import AbstractMethod, Batch, Terms, physics_terms
from stablepdenet.operators import AbstractOperator
from stablepdenet.physics import block_norms, residual_map
from stablepdenet.problems import Problem


class Clean(AbstractMethod):
    """J = E_a L_phys(theta; a): the physics-informed baseline."""

    attacks: ClassVar[bool] = False
    perturbed: ClassVar[bool] = False

    def terms(self, operator: AbstractOperator, problem: Problem, batch: Batch, weight: Float[Array, ""]) -> Terms:
        return physics_terms(block_norms(residual_map(operator, problem)(batch.clean)), problem)
