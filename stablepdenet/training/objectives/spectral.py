"""Spectral norms: a bound of the operator's Lipschitz constant, whatever the input."""

from __future__ import annotations

from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from stablepdenet.attacks import PGD
from stablepdenet.errors import ConfigError
from stablepdenet.operators import AbstractOperator
from stablepdenet.problems import Problem
from stablepdenet.problems.physics import BlockNorms, block_norms, residual_map
from stablepdenet.training.objectives.base import AbstractPenalised, Batch, random_start

# Of the power method, in every step from the same start.
ITERATIONS = 10


class Spectral(AbstractPenalised):
    """J = E_a [L_phys(a) + lambda sum_l sigma(W_l)^2] over the branch's matrices W_l, whose spectral norms bound the
    operator's Lipschitz constant (Yoshida and Miyato 2017, "Spectral norm regularization for improving the
    generalizability of deep learning"). A penalty, as dividing by sigma would need a constant that nobody knows."""

    perturbed: ClassVar[bool] = False

    def search(self) -> PGD:
        return random_start(self.attack)

    def parts(self, operator: AbstractOperator, problem: Problem, batch: Batch) -> tuple[BlockNorms, Array]:
        norms = jnp.stack([spectral_norm(matrix) for matrix in _branch_matrices(operator)])
        clean = residual_map(operator, problem)(batch.clean)
        return block_norms(clean), jnp.broadcast_to(jnp.sum(norms**2), len(batch.clean))


def spectral_norm(matrix: Float[Array, "rows columns"]) -> Float[Array, ""]:
    """The largest singular value, by the power method; its derivative is that at the vectors found."""
    fixed = jax.lax.stop_gradient(matrix)

    def iterate(_: Int[Array, ""], right: Float[Array, " columns"]) -> Float[Array, " columns"]:
        right = fixed.T @ (fixed @ right)
        return right / jnp.linalg.norm(right)

    start = jax.random.normal(jax.random.key(0), (matrix.shape[1],), matrix.dtype)
    right = jax.lax.fori_loop(0, ITERATIONS, iterate, start)
    left = fixed @ right
    return (left / jnp.linalg.norm(left)) @ matrix @ right


def _branch_matrices(operator: AbstractOperator) -> list[Float[Array, "rows columns"]]:
    leaves, _ = jax.tree_util.tree_flatten_with_path(operator)
    found = [leaf for path, leaf in leaves if ".branch" in map(str, path) and eqx.is_array(leaf) and leaf.ndim == 2]
    if not found:
        raise ConfigError("method.name = spectral needs an operator with a branch: take the kind deeponet.")
    return found
