"""The operator of a linear problem: fixed functions, coefficients linear in the input."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from stablepdenet.operators.base import AbstractBasisOperator

# Functions of the points, a column each.
Functions = Callable[[Float[Array, "n dim"]], Float[Array, "n k"]]


@dataclass(frozen=True)
class Ansatz:
    """What solutions are made of: u = lift(a) + sum_j c_j phi_j.

    The `lift`, a column for each number of the input, takes care of what smooth functions cannot follow, as a rough
    initial value; None where nothing needs it.
    """

    features: Functions
    lift: Functions | None = None


class LinearOperator(AbstractBasisOperator):
    """G(a) = lift(a) + sum_j (a C + c)_j phi_j."""

    matrix: Float[Array, "m k"]
    constant: Float[Array, " k"]
    ansatz: Ansatz = eqx.field(static=True)

    def coefficients(self, a: Float[Array, "batch m"]) -> Float[Array, "batch k"]:
        own = a @ self.matrix + self.constant
        return own if self.ansatz.lift is None else jnp.concatenate([own, a], axis=1)

    def basis(self, points: Float[Array, "n dim"]) -> Float[Array, "n k"]:
        features = self.ansatz.features(points)
        lift = self.ansatz.lift
        return features if lift is None else jnp.concatenate([features, lift(points)], axis=1)


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
    values = [jnp.ones_like(z), z]
    for n in range(1, degree - 1):
        values.append(((2 * n + 1) * z * values[n] - n * values[n - 1]) / (n + 1))
    return jnp.stack([(2.0 * n + 1.0) ** 0.5 * value for n, value in enumerate(values[:degree])], axis=1)
