"""AdvPI, and the same with cheaper perturbations."""

from __future__ import annotations

import dataclasses

from jaxtyping import Array, Float

from stablepdenet.attacks import PGD
from stablepdenet.operators import AbstractOperator
from stablepdenet.problems import Problem
from stablepdenet.problems.physics import block_norms, residual_map
from stablepdenet.training.objectives.base import AbstractAttacking, Batch, Terms, physics_terms, random_start


class Adversarial(AbstractAttacking):
    """J_Adv = E_a L_phys(theta; a + delta): the attacked physics loss (eq:adv-objective)."""

    def terms(self, operator: AbstractOperator, problem: Problem, batch: Batch, weight: Float[Array, ""]) -> Terms:
        return physics_terms(block_norms(residual_map(operator, problem)(batch.attacked)), problem)


class Noise(Adversarial):
    """J = E_a E_delta L_phys(theta; a + delta) with random delta: augmentation by noise."""

    def search(self) -> PGD:
        return random_start(self.attack)


class OneStep(Adversarial):
    """AdvPI with the attack's first step alone, as long as the radius: FGSM (Goodfellow et al. 2015, "Explaining and
    harnessing adversarial examples")."""

    def search(self) -> PGD:
        return dataclasses.replace(self.attack, steps=1, step_size=1.0, random_start=False)
