"""The operator of a linear problem: fixed functions, coefficients linear in the input."""

from __future__ import annotations

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float
from numpy import ndarray

from stablepdenet.errors import ConfigError
from stablepdenet.operators.ansatz import Functions
from stablepdenet.operators.base import AbstractBasisOperator


class LinearOperator(AbstractBasisOperator):
    """G(a) = lift(a) + sum_j (a C + c)_j phi_j; C and c are kept in float64. The functions and the lift have as many
    components as the solution."""

    matrix: Float[ndarray, "m k"] | Float[Array, "m k"]
    constant: Float[ndarray, " k"] | Float[Array, " k"]
    functions: Functions = eqx.field(static=True)
    lift: Functions | None = eqx.field(static=True)
    # How many columns points have, where it is known.
    dimension: int | None = eqx.field(static=True, default=None)

    @property
    def lifted(self) -> bool:
        return self.lift is not None

    def coefficients(self, a: Float[Array, "batch m"]) -> Float[Array, "batch k"]:
        own = a @ self.matrix + self.constant
        return jnp.concatenate([own, a], axis=1) if self.lifted else own

    def basis(self, points: Float[Array, "n dim"]) -> Float[Array, "n k *components"]:
        if self.dimension not in (None, points.shape[1]):
            raise ConfigError(f"Points have {points.shape[1]} columns: this operator needs {self.dimension}.")
        found = self.functions(points)
        return found if self.lift is None else jnp.concatenate([found, self.lift(points)], axis=1)
