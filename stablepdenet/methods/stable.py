"""StablePDENet."""

from __future__ import annotations

from typing import ClassVar

import jax.numpy as jnp
from jaxtyping import Array, Float

from stablepdenet.methods.base import AbstractMethod, Batch, Terms, physics_terms
from stablepdenet.physics import ResidualMap, Residuals, block_norms, weighted_sum
from stablepdenet.problems import Problem


class Stable(AbstractMethod):
    """J_Stable = E_a [L_phys(theta; a + delta) + lambda_sens Q(theta; a, delta)] (eq:stable-objective).

    `rho` is the share of the objective that lambda_sens gives to Q when it is calibrated, `tau` keeps Q finite.
    """

    rho: float = 0.10
    tau: float = 1e-6

    attacks: ClassVar[bool] = True

    def terms(self, residuals: ResidualMap, problem: Problem, batch: Batch, lambda_sens: Float[Array, ""]) -> Terms:
        # One call for both halves: they share the trunk pass and larger products.
        both = residuals(jnp.concatenate([batch.clean, batch.attacked]))
        half = len(batch.clean)
        clean = {name: r[:half] for name, r in both.items()}
        attacked = {name: r[half:] for name, r in both.items()}
        physics = physics_terms(block_norms(attacked), problem)
        quotient = sensitivity_quotient(clean, attacked, batch.attacked - batch.clean, problem, tau=self.tau)
        sensitivity = jnp.mean(quotient)
        loss = physics.loss + lambda_sens * sensitivity
        return Terms(loss, physics.blocks, sensitivity, lambda_sens * sensitivity / loss)

    def calibrate(self, physics: Float[Array, ""], sensitivity: Float[Array, ""]) -> Float[Array, ""]:
        """lambda_sens = rho / (1 - rho) * mean L_phys / mean Q (eq:lambda-calibration)."""
        return self.rho / (1.0 - self.rho) * physics / sensitivity


def sensitivity_quotient(
    clean: Residuals, attacked: Residuals, delta: Float[Array, "batch m"], problem: Problem, *, tau: float
) -> Float[Array, " batch"]:
    """Q = sum_q w_q ||r_q(a + delta) - r_q(a)||^2_{2,N_q} / (||delta||^2_{2,m} + tau) per input (eq:increment-loss).

    A difference of residual vectors, not of losses: the finite-difference form of the residual map's derivative along
    delta.
    """
    change = {name: attacked[name] - clean[name] for name in clean}
    return weighted_sum(block_norms(change), problem) / (jnp.mean(delta**2, axis=1) + tau)
