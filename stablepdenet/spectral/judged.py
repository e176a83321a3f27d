"""Any operator, ours or somebody else's, with a judge of its answers."""

from __future__ import annotations

from typing import Any, TypeGuard

import jax.numpy as jnp
from jaxtyping import Array, Float
from numpy import ndarray

from stablepdenet.operators import AbstractOperator
from stablepdenet.spectral.bounds import error_bounds
from stablepdenet.spectral.operator import Estimated, Points, SpectralOperator, shares, sharpened
from stablepdenet.spectral.setting import Setting


class JudgedOperator(AbstractOperator):
    """Any operator, with a spectral one that says how wrong its answers are; what `robust` made will do."""

    operator: AbstractOperator
    judge: SpectralOperator

    def __init__(self, operator: AbstractOperator, judge: SpectralOperator | JudgedOperator):
        self.operator = operator
        # A judged operator's own judge knows all that it says of the solution.
        self.judge = judge.judge if isinstance(judge, JudgedOperator) else judge

    @property
    def tolerance(self) -> float:
        """The relative error within which answers are trusted: the one that the judge was made for."""
        return self.judge.tolerance

    @property
    def setting(self) -> Setting:
        """How its problem is posed."""
        return self.judge.setting

    def __call__(self, a: Float[Array, "batch m"], points: Points) -> Float[Array, "batch n *components"]:
        self.judge.look_at(a)
        return self.operator(a, jnp.asarray(points))

    def answer(self, a: Float[Array, "batch m"], points: Points) -> Estimated:
        """The operator's answers with estimates of their errors: their difference from the judge's answers, and the
        error that the judge estimates of these."""
        own, judged = self.operator(a, jnp.asarray(points)), self.judge.answer(a, points)
        errors = judged.u + judged.errors - own
        # What the judge does not know of itself is not known of the operator either.
        found = shares(errors, own + errors) + judged.estimate
        estimate = jnp.where(jnp.isfinite(found), found, jnp.inf)
        return sharpened(Estimated(own, errors, estimate, estimate <= self.tolerance), self, a, points)

    def bound(self, a: Float[Array, "batch m"], points: Points) -> Float[ndarray, " batch"]:
        """The relative L2 error of each of the operator's answers over these points, at most: guaranteed, not
        estimated. Infinite where nothing is known."""
        return error_bounds(self.setting, self(a, points), a, points)


def is_judged(operator: Any) -> TypeGuard[SpectralOperator | JudgedOperator]:
    """Whether an operator estimates the errors of its answers."""
    return isinstance(operator, JudgedOperator) or (isinstance(operator, SpectralOperator) and bool(operator.judge))
