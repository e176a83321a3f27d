"""The operator of a linear problem: fixed functions, coefficients linear in the input."""

from __future__ import annotations

from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float
from numpy import ndarray

from stablepdenet.errors import ConfigError
from stablepdenet.functions.domain import Box
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


def each_component(functions: Functions, components: int) -> Functions:
    """The same functions for each of several components: all of the first, then all of the second, and so on."""
    if components == 1:
        return functions

    def several(points: Float[Array, "n dim"]) -> Float[Array, "n k c"]:
        found = functions(points)
        product = found[:, None, :, None] * jnp.eye(components, dtype=found.dtype)[None, :, None, :]
        return product.reshape(len(points), -1, components)

    return several


def box_functions(domain: Box, counts: Sequence[int]) -> Functions:
    """Products of so many functions of each coordinate, orthonormal on the box: waves where it is periodic, Legendre
    polynomials where it is not."""

    def functions(points: Float[Array, "n dim"]) -> Float[Array, "n k"]:
        product = jnp.ones((len(points), 1), points.dtype)
        for column, (interval, periodic, count) in enumerate(
            zip(domain.intervals, domain.periodic, counts, strict=True)
        ):
            factor = axis_functions(points[:, column], interval, periodic, count)
            product = (product[:, :, None] * factor[:, None, :]).reshape(len(points), -1)
        return product

    return functions


def axis_functions(
    x: Float[Array, " n"], interval: tuple[float, float], periodic: bool, count: int
) -> Float[Array, "n count"]:
    """The functions of one coordinate."""
    low, high = interval
    # From -1 to 1 over the interval.
    z = (2.0 * x - (low + high)) / (high - low)
    return _waves(z, count) if periodic else _polynomials(z, count)


def _waves(z: Float[Array, " n"], count: int) -> Float[Array, "n count"]:
    """1, then sqrt(2) cos k pi z and sqrt(2) sin k pi z: of an even number, the last is a cosine."""
    phases = jnp.pi * z[:, None] * jnp.arange(1, count // 2 + 1)
    pairs = jnp.sqrt(2.0).astype(z.dtype) * jnp.stack([jnp.cos(phases), jnp.sin(phases)], axis=2)
    return jnp.concatenate([jnp.ones_like(z[:, None]), pairs.reshape(len(z), -1)], axis=1)[:, :count]


def _polynomials(z: Float[Array, " n"], degree: int) -> Float[Array, "n degree"]:
    """(n + 1) P_{n+1} = (2 n + 1) z P_n - n P_{n-1}, normalised."""

    def following(last: tuple[Array, Array], n: Float[Array, ""]) -> tuple[tuple[Array, Array], Array]:
        before, value = last
        return (value, ((2.0 * n + 1.0) * z * value - n * before) / (n + 1.0)), value

    # A loop, not its many steps: derivatives of these take long to compile.
    numbers = jnp.arange(degree, dtype=z.dtype)
    _, values = jax.lax.scan(following, (jnp.zeros_like(z), jnp.ones_like(z)), numbers)
    return values.T * jnp.sqrt(2.0 * numbers + 1.0)
