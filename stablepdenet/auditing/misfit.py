"""How far an operator's solution is from a reference solution, as an objective of attacks."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy import ndarray

from stablepdenet.auditing.measure import flat_basis, reference_of
from stablepdenet.operators import AbstractBasisOperator, AbstractOperator
from stablepdenet.problems import AbstractReference, LinearReference, Problem


class AbstractMisfit(eqx.Module):
    """MSE(G(a) - S) on the evaluation grid, for each input. `cheap` where the cost does not depend on the grid."""

    cheap: ClassVar[bool]

    @abstractmethod
    def target(
        self, a: Float[Array, "batch m"], solution: Float[Array, "batch n *components"]
    ) -> Float[Array, "batch _ *components"]:
        """What `fixed` needs to know of the inputs a and of their reference solutions."""

    @abstractmethod
    def fixed(self, a: Float[Array, "batch m"], target: Float[Array, "batch _ *components"]) -> Float[Array, " batch"]:
        """MSE(G(a) - S(a_0)) with the reference solution held at other inputs a_0 (eq:test-attack)."""

    @abstractmethod
    def moving(self, a: Float[Array, "batch m"]) -> Float[Array, " batch"]:
        """MSE(G(a) - S(a)): the true error, the reference being solved again (eq:error-operator)."""


class FactoredMisfit(AbstractMisfit):
    """For G(a) = c(a) Phi^T and S(a) = a M^T: with the triangular factor R of [Phi, M] / sqrt(n),

        MSE(G(a) - S(a_0)) = || R [c(a), -a_0] ||^2,

    exactly, and independent of the number of grid points. (The Gram matrix R^T R would do as well, but squares the
    rounding errors.)
    """

    cheap: ClassVar[bool] = True

    operator: AbstractBasisOperator
    factor: Float[Array, "rank k"]

    def target(
        self, a: Float[Array, "batch m"], solution: Float[Array, "batch n *components"]
    ) -> Float[Array, "batch _ *components"]:
        return a

    def fixed(self, a: Float[Array, "batch m"], target: Float[Array, "batch _ *components"]) -> Float[Array, " batch"]:
        stacked = jnp.concatenate([self.operator.coefficients(a), -target], axis=1)
        return jnp.sum((stacked @ self.factor.T) ** 2, axis=1)

    def moving(self, a: Float[Array, "batch m"]) -> Float[Array, " batch"]:
        return self.fixed(a, a)


@dataclass(frozen=True)
class _HostReference:
    """A reference that is a plain function: it can be called inside a compiled search, but has no gradient."""

    problem: Problem
    shape: tuple[int, ...]

    def traced(self, a: Float[Array, "batch m"]) -> Float[Array, "batch n *components"]:
        shape = jax.ShapeDtypeStruct((len(a), *self.shape), a.dtype)
        return jax.pure_callback(lambda a: reference_of(self.problem, np.asarray(a)).astype(a.dtype), shape, a)


class DirectMisfit(AbstractMisfit):
    """For any operator and reference: on the grid itself."""

    cheap: ClassVar[bool] = False

    operator: AbstractOperator
    points: Float[Array, "n dim"]
    reference: AbstractReference | _HostReference = eqx.field(static=True)

    def target(
        self, a: Float[Array, "batch m"], solution: Float[Array, "batch n *components"]
    ) -> Float[Array, "batch _ *components"]:
        return solution

    def fixed(self, a: Float[Array, "batch m"], target: Float[Array, "batch _ *components"]) -> Float[Array, " batch"]:
        difference = self.operator(a, self.points) - target
        return jnp.mean(difference.reshape(len(a), -1) ** 2, axis=1)

    def moving(self, a: Float[Array, "batch m"]) -> Float[Array, " batch"]:
        return self.fixed(a, self.reference.traced(a))


def misfit(operator: AbstractOperator, problem: Problem) -> AbstractMisfit:
    """The cheapest exact form."""
    reference = problem.require_reference()
    if isinstance(operator, AbstractBasisOperator) and isinstance(reference, LinearReference):
        basis = flat_basis(np.asarray(operator.basis(jnp.asarray(problem.grid)), np.float64))
        return FactoredMisfit(operator, jnp.asarray(_factor(np.concatenate([basis, reference.matrix], axis=1))))
    shape = (len(problem.grid), len(problem.solution)) if len(problem.solution) > 1 else (len(problem.grid),)
    traced = reference if isinstance(reference, AbstractReference) else _HostReference(problem, shape)
    return DirectMisfit(operator, jnp.asarray(problem.grid), traced)


def _factor(columns: Float[ndarray, "n k"]) -> Float[ndarray, "rank k"]:
    return np.asarray(np.linalg.qr(columns / np.sqrt(len(columns)), mode="r"))
