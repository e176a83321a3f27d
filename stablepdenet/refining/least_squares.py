"""Gauss-Newton steps of many inputs at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

# Conjugate gradients end where the gradient is this part of the first one, or after so many iterations.
ENOUGH, MOST = 1e-3, 60
# Inputs that iterate together: their Jacobians fit into a core's own cache, and few wait for the slowest.
FEW = 8

Columns = Float[Array, "batch rank rows"]
Step = Float[Array, "batch rank"]
# r -> the steps that make |J step - r| least, and whether each was found.
Steps = Callable[[Float[Array, "batch rows"]], tuple[Step, Bool[Array, " batch"]]]


def factorised(columns: Columns) -> Steps:
    """By one factorisation for each input."""
    gram = jnp.einsum("bpt,bqt->bpq", columns, columns)
    # Near the identity, unless an input is far from those that the directions were made of.
    ridge = jnp.finfo(gram.dtype).eps * jnp.trace(gram, axis1=1, axis2=2)
    gram = gram + ridge[:, None, None] * jnp.eye(gram.shape[1], dtype=gram.dtype)
    # One after another: batches of factorisations hang in JAX 0.10 on machines with few cores.
    factors = jax.lax.map(jnp.linalg.cholesky, jax.lax.stop_gradient(gram))

    def solve(_: object, right: Step) -> Step:
        return jax.lax.map(lambda pair: jax.scipy.linalg.cho_solve((pair[0], True), pair[1]), (factors, right))

    def steps(residual: Float[Array, "batch rows"]) -> tuple[Step, Bool[Array, " batch"]]:
        right = jnp.einsum("bpt,bt->bp", columns, residual)
        found = jax.lax.custom_linear_solve(
            lambda step: jnp.einsum("bpq,bq->bp", gram, step), right, solve, symmetric=True
        )
        return found, jnp.ones(len(found), bool)

    return steps


def iterated(columns: Columns) -> Steps:
    """By conjugate gradients, which cost less where J is near orthonormal."""

    def solve(_: object, right: Step) -> tuple[Step, Bool[Array, " batch"]]:
        pairs = jax.lax.stop_gradient(columns), right
        return jax.lax.map(lambda pair: _conjugate_gradients(*pair), pairs, batch_size=FEW)

    def normal(step: Step) -> Step:
        return jnp.einsum("bpt,bt->bp", columns, jnp.einsum("bpt,bp->bt", columns, step))

    def steps(residual: Float[Array, "batch rows"]) -> tuple[Step, Bool[Array, " batch"]]:
        right = jnp.einsum("bpt,bt->bp", columns, residual)
        return jax.lax.custom_linear_solve(normal, right, solve, symmetric=True, has_aux=True)

    return steps


class State(NamedTuple):
    """Of conjugate gradients: what is found, the gradient that is left, its square, and where to go next."""

    found: Float[Array, " rank"]
    gradient: Float[Array, " rank"]
    square: Float[Array, ""]
    direction: Float[Array, " rank"]
    number: Int[Array, ""]


def _conjugate_gradients(
    columns: Float[Array, "rank rows"], right: Float[Array, " rank"]
) -> tuple[Float[Array, " rank"], Bool[Array, ""]]:
    """The solution of J J^T x = right, and whether it was found."""
    square = right @ right
    aim = ENOUGH**2 * square

    def iterate(at: State) -> State:
        image = columns @ (at.direction @ columns)
        length = at.square / (at.direction @ image)
        gradient = at.gradient - length * image
        square = gradient @ gradient
        direction = gradient + square / at.square * at.direction
        return State(at.found + length * at.direction, gradient, square, direction, at.number + 1)

    start = State(jnp.zeros_like(right), right, square, right, jnp.zeros((), int))
    end = jax.lax.while_loop(lambda at: (at.square > aim) & (at.number < MOST), iterate, start)
    return end.found, end.square <= aim
