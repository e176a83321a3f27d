"""StablePDENet, and the same with a derivative in place of the difference."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from stablepdenet.operators import AbstractOperator
from stablepdenet.problems import Problem
from stablepdenet.problems.physics import BlockNorms, Residuals, block_norms, residual_map, weighted_sum
from stablepdenet.training.objectives.base import AbstractPenalised, Batch


class Stable(AbstractPenalised):
    """J_Stable = E_a [L_phys(theta; a + delta) + lambda_sens Q(theta; a, delta)] (eq:stable-objective).

    `rho` is the share of the objective that lambda_sens gives to Q when it is calibrated, `tau` keeps Q finite.
    """

    tau: float = eqx.field(default=1e-6, kw_only=True)

    def parts(self, operator: AbstractOperator, problem: Problem, batch: Batch) -> tuple[BlockNorms, Array]:
        # One call for both halves: they share the trunk pass and larger products.
        both = residual_map(operator, problem)(jnp.concatenate([batch.clean, batch.attacked]))
        half = len(batch.clean)
        clean = {name: r[:half] for name, r in both.items()}
        attacked = {name: r[half:] for name, r in both.items()}
        quotient = sensitivity_quotient(clean, attacked, batch.attacked - batch.clean, problem, tau=self.tau)
        return block_norms(attacked), quotient


class Tangent(AbstractPenalised):
    """Stable with the residuals' derivative along delta, taken at a + delta, in place of their difference:
    sum_q w_q ||r_q'(a + delta) delta||^2_{2,N_q} / (||delta||^2_{2,m} + tau)."""

    tau: float = eqx.field(default=1e-6, kw_only=True)

    def parts(self, operator: AbstractOperator, problem: Problem, batch: Batch) -> tuple[BlockNorms, Array]:
        delta = batch.attacked - batch.clean
        attacked, change = jax.jvp(residual_map(operator, problem), (batch.attacked,), (delta,))
        return block_norms(attacked), quotient_of(change, delta, problem, tau=self.tau)


def sensitivity_quotient(
    clean: Residuals, attacked: Residuals, delta: Float[Array, "batch m"], problem: Problem, *, tau: float
) -> Float[Array, " batch"]:
    """Q = sum_q w_q ||r_q(a + delta) - r_q(a)||^2_{2,N_q} / (||delta||^2_{2,m} + tau) per input (eq:increment-loss).

    A difference of residual vectors, not of losses: the finite-difference form of the residual map's derivative along
    delta.
    """
    return quotient_of({name: attacked[name] - clean[name] for name in clean}, delta, problem, tau=tau)


def quotient_of(
    change: Residuals, delta: Float[Array, "batch m"], problem: Problem, *, tau: float
) -> Float[Array, " batch"]:
    """The weighted square of the residuals' change over that of the input's, per input."""
    return weighted_sum(block_norms(change), problem) / (jnp.mean(delta**2, axis=1) + tau)
