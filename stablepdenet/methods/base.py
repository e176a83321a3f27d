"""What a method is: the loss that one outer step minimises."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar, NamedTuple

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from stablepdenet.physics import BlockNorms, ResidualMap, weighted_sum
from stablepdenet.problems import Problem


class Batch(NamedTuple):
    """Clean inputs a, and their attacked copies a + delta (unused while a method trains clean)."""

    clean: Float[Array, "batch m"]
    attacked: Float[Array, "batch m"]


class Terms(NamedTuple):
    """A loss and what it consists of, averaged over the batch."""

    loss: Float[Array, ""]
    blocks: dict[str, Float[Array, ""]]
    sensitivity: Float[Array, ""]
    share: Float[Array, ""]


class AbstractMethod(eqx.Module):
    """A training objective J(theta). Methods without an attack see clean batches only."""

    attacks: ClassVar[bool]

    @abstractmethod
    def terms(self, residuals: ResidualMap, problem: Problem, batch: Batch, lambda_sens: Float[Array, ""]) -> Terms:
        """The objective on a batch; `residuals` is the current operator's residual map."""

    def calibrate(self, physics: Float[Array, ""], sensitivity: Float[Array, ""]) -> Float[Array, ""]:
        """lambda_sens from the average physics loss and Q on attacked warm-up batches; zero where Q is not used."""
        return jnp.zeros_like(physics)


def physics_terms(norms: BlockNorms, problem: Problem) -> Terms:
    """The physics loss alone."""
    loss = jnp.mean(weighted_sum(norms, problem))
    zero = jnp.zeros_like(loss)
    return Terms(loss, {name: jnp.mean(norm) for name, norm in norms.items()}, zero, zero)
