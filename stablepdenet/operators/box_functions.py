"""Functions that any solution on a box can be made of: products of one coordinate's waves or polynomials."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy import ndarray
from numpy.polynomial.legendre import legder, legvander

from stablepdenet.functions.domain import Box


@dataclass(frozen=True)
class BoxFunctions:
    """Products of so many functions of each coordinate, orthonormal on the box: waves where it is periodic, Legendre
    polynomials where it is not. Of several components, all functions of the first come first."""

    domain: Box
    counts: tuple[int, ...]
    components: int = 1

    def __call__(self, points: Float[Array, "n dim"]) -> Float[Array, "n k *components"]:
        found = jnp.ones((len(points), 1), points.dtype)
        for column, (interval, periodic, count) in enumerate(
            zip(self.domain.intervals, self.domain.periodic, self.counts, strict=True)
        ):
            factor = axis_functions(points[:, column], interval, periodic, count)
            found = (found[:, :, None] * factor[:, None, :]).reshape(len(points), -1)
        if self.components == 1:
            return found
        each = jnp.eye(self.components, dtype=found.dtype)[None, :, None, :]
        return (found[:, None, :, None] * each).reshape(len(points), -1, self.components)

    def derivative(
        self, points: Float[ndarray, "n dim"], index: Sequence[int] = (), number: int = 0
    ) -> Float[ndarray, "n k"]:
        """A derivative of one component of all functions, in float64: known in closed form, nothing is compiled."""
        found = np.ones((len(points), 1))
        for column, (interval, periodic, count) in enumerate(
            zip(self.domain.intervals, self.domain.periodic, self.counts, strict=True)
        ):
            factor = axis_derivatives(points[:, column], interval, periodic, count, tuple(index).count(column))
            found = (found[:, :, None] * factor[:, None, :]).reshape(len(points), -1)
        others = np.zeros_like(found)
        return np.concatenate([found if i == number else others for i in range(self.components)], axis=1)


def axis_functions(
    x: Float[Array, " n"], interval: tuple[float, float], periodic: bool, count: int
) -> Float[Array, "n count"]:
    """The functions of one coordinate."""
    low, high = interval
    # From -1 to 1 over the interval.
    z = (2.0 * x - (low + high)) / (high - low)
    return _waves(z, count) if periodic else _polynomials(z, count)


def axis_derivatives(
    x: Float[ndarray, " n"], interval: tuple[float, float], periodic: bool, count: int, order: int
) -> Float[ndarray, "n count"]:
    """Their derivatives of an order."""
    low, high = interval
    if not periodic:
        z = (2.0 * x - low - high) / (high - low)
        slopes: Float[ndarray, "_ count"] = np.eye(count)
        for _ in range(order):
            slopes = legder(slopes, axis=0)
        scale = np.sqrt(2.0 * np.arange(count) + 1.0) * (2.0 / (high - low)) ** order
        return legvander(z, max(len(slopes) - 1, 0)) @ slopes * scale
    waves = 2.0 * np.pi * ((np.arange(count) + 1) // 2) / (high - low)
    # The derivative of a wave is the wave a quarter of a period earlier.
    quarter = np.where(np.arange(count) % 2 == 1, 0.0, -0.5 * np.pi) + 0.5 * np.pi * order
    found = np.sqrt(2.0) * waves**order * np.cos(waves * (x[:, None] - 0.5 * (low + high)) + quarter)
    found[:, 0] = 1.0 if order == 0 else 0.0
    return found


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
