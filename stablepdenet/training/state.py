"""The state of a training: everything that the next step depends on."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int, PRNGKeyArray

from stablepdenet.operators import AbstractOperator
from stablepdenet.training.objectives import Batch


class Best(NamedTuple):
    """The parameters with the smallest validation loss so far, that loss, and the step they are from."""

    operator: AbstractOperator
    loss: Float[Array, ""]
    step: Int[Array, ""]


class TrainState(NamedTuple):
    """State in, state out: parameters, optimiser, the cached attacks, lambda_sens, the step count, the seed's key, and
    the best parameters so far.

    Every random number is a function of (key, step), so a state that was stored and read back continues bit for bit.
    """

    operator: AbstractOperator
    optimiser: optax.OptState
    cache: Batch
    lambda_sens: Float[Array, ""]
    step: Int[Array, ""]
    key: PRNGKeyArray
    best: Best

    @property
    def trained(self) -> AbstractOperator:
        """The best parameters so far; before anything was validated, the newest."""
        return self.best.operator if bool(self.best.loss < jnp.inf) else self.operator


class Keys(NamedTuple):
    """The independent random streams of one seed."""

    operator: PRNGKeyArray
    functions: PRNGKeyArray
    batches: PRNGKeyArray
    attacks: PRNGKeyArray
    evaluation: PRNGKeyArray
    validation: PRNGKeyArray


@jax.jit
def streams(key: PRNGKeyArray) -> Keys:
    """Splits a seed's key into its named streams."""
    return Keys(*jax.random.split(key, len(Keys._fields)))
