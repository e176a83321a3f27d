"""The operator of a linear problem: fixed functions, coefficients linear in the input."""

from __future__ import annotations

from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float
from numpy import ndarray

from stablepdenet.operators.ansatz import Functions
from stablepdenet.operators.base import AbstractBasisOperator


class LinearOperator(AbstractBasisOperator):
    """G(a) = lift(a) + sum_j (a C + c)_j phi_j; C and c are kept in float64."""

    matrix: Float[ndarray, "m k"] | Float[Array, "m k"]
    constant: Float[ndarray, " k"] | Float[Array, " k"]
    functions: Functions = eqx.field(static=True)
    lift: Functions | None = eqx.field(static=True)

    @property
    def lifted(self) -> bool:
        return self.lift is not None

    def coefficients(self, a: Float[Array, "batch m"]) -> Float[Array, "batch k"]:
        own = a @ self.matrix + self.constant
        return jnp.concatenate([own, a], axis=1) if self.lifted else own

    def basis(self, points: Float[Array, "n dim"]) -> Float[Array, "n k"]:
        found = self.functions(points)
        return found if self.lift is None else jnp.concatenate([found, self.lift(points)], axis=1)


def legendre(ranges: Sequence[tuple[float, float]], degrees: Sequence[int]) -> Functions:
    """Products of the Legendre polynomials below the `degrees`, orthonormal on the box of the `ranges`."""

    def functions(points: Float[Array, "n dim"]) -> Float[Array, "n k"]:
        product = jnp.ones((len(points), 1), points.dtype)
        for column, ((low, high), degree) in enumerate(zip(ranges, degrees, strict=True)):
            z = (2.0 * points[:, column] - (low + high)) / (high - low)
            factor = _polynomials(z, degree)
            product = (product[:, :, None] * factor[:, None, :]).reshape(len(points), -1)
        return product

    return functions


def _polynomials(z: Float[Array, " n"], degree: int) -> Float[Array, "n degree"]:
    """(n + 1) P_{n+1} = (2 n + 1) z P_n - n P_{n-1}, normalised."""

    def following(last: tuple[Array, Array], n: Float[Array, ""]) -> tuple[tuple[Array, Array], Array]:
        before, value = last
        return (value, ((2.0 * n + 1.0) * z * value - n * before) / (n + 1.0)), value

    # A loop, not its many steps: derivatives of these take long to compile.
    numbers = jnp.arange(degree, dtype=z.dtype)
    _, values = jax.lax.scan(following, (jnp.zeros_like(z), jnp.ones_like(z)), numbers)
    return values.T * jnp.sqrt(2.0 * numbers + 1.0)
