"""Any operator, ours or somebody else's, with a judge of its answers."""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Float

from stablepdenet.operators import AbstractOperator
from stablepdenet.spectral.operator import Estimated, Points, SpectralOperator


class JudgedOperator(AbstractOperator):
    """Any operator, with a spectral one that says how wrong its answers are."""

    operator: AbstractOperator
    judge: SpectralOperator

    def __call__(self, a: Float[Array, "batch m"], points: Points) -> Float[Array, "batch n *components"]:
        return self.operator(a, jnp.asarray(points))

    def answer(self, a: Float[Array, "batch m"], points: Points) -> Estimated:
        """The operator's answers with estimates of their errors: their difference from the judge's answers, and the
        error that the judge estimates of these."""
        own, judged = self.operator(a, jnp.asarray(points)), self.judge.answer(a, points)
        errors = judged.u + judged.errors - own
        axes = tuple(range(1, own.ndim))
        share = jnp.sqrt(jnp.sum(errors**2, axis=axes) / jnp.sum((own + errors) ** 2, axis=axes))
        # What the judge does not know of itself is not known of the operator either.
        return Estimated(own, errors, jnp.where(jnp.isfinite(judged.estimate), share + judged.estimate, jnp.inf))
