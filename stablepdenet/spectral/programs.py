"""Compiled programs that solve: float64 inside, for inputs and answers of any dtype."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from stablepdenet.spectral.march import Answer, March
from stablepdenet.spectral.rows import Coefficients
from stablepdenet.spectral.waves import WaveMarch
from stablepdenet.spectral.wide import join


@eqx.filter_jit
def solutions_of(numbers: March | WaveMarch, a: Float[Array, "batch m"]) -> Answer:
    arrays, static = eqx.partition(numbers, eqx.is_array)

    @jax.custom_vjp
    def run(arrays: Any, a: Float[Array, "batch m"]) -> Answer:
        with jax.enable_x64(True):
            return _narrow(_each(join(eqx.combine(arrays, static)), jnp.asarray(a, jnp.float64)), a.dtype)

    def forward(arrays: Any, a: Array) -> tuple[Answer, Any]:
        found = run(arrays, a)
        return found, (arrays, a, found.coefficients)

    def backward(saved: Any, cotangent: Answer) -> tuple[None, Array]:
        arrays, a, found = saved
        with jax.enable_x64(True):
            march = join(eqx.combine(arrays, static))
            wide = jax.tree.map(lambda each: each.astype(jnp.float64), (found, cotangent.coefficients))

            def one(row: tuple[Array, Coefficients, Coefficients]) -> Array:
                a, guess, along = row
                _, pull = jax.vjp(lambda a: march.linearised(a, guess), a)
                return pull(along)[0]

            slopes = _mapped(one, (a.astype(jnp.float64), *wide), march)
            return None, slopes.astype(a.dtype)

    run.defvjp(forward, backward)
    return run(arrays, a)


@eqx.filter_jit
def slopes_of(numbers: March | WaveMarch, a: Float[Array, "batch m"]) -> Coefficients:
    """The derivatives of all coefficients in each number of the input: m first."""
    with jax.enable_x64(True):
        march = join(numbers)

        def one(a: Array) -> Coefficients:
            guess = march.answer(a).coefficients

            def along(direction: Array) -> Coefficients:
                return jax.jvp(lambda a: march.linearised(a, guess), (a,), (direction,))[1]

            return jax.lax.map(along, jnp.eye(len(a)))

        found = jax.lax.map(one, jnp.asarray(a, jnp.float64))
        return jax.tree.map(lambda each: jnp.moveaxis(each, 1, 0).astype(a.dtype), found)


@eqx.filter_jit
def corrections(finer: March | WaveMarch, a: Float[Array, "batch m"], guess: Coefficients) -> Answer:
    """The solutions in finer functions, from a guess."""
    with jax.enable_x64(True):
        march = join(finer)

        def one(row: tuple[Array, Coefficients]) -> Answer:
            return march.answer(*row)

        wide = jax.tree.map(lambda each: each.astype(jnp.float64), (a, guess))
        return _narrow(_mapped(one, wide, march), a.dtype)


def _each(march: March | WaveMarch, a: Float[Array, "batch m"]) -> Answer:
    return _mapped(lambda row: march.answer(row), a, march)


def _mapped(function: Any, rows: Any, march: March | WaveMarch) -> Any:
    count = len(jax.tree.leaves(rows)[0])
    if march.together >= count:
        return jax.vmap(function)(rows)
    return jax.lax.map(function, rows, batch_size=march.together if march.together > 1 else None)


def _narrow(answer: Answer, dtype: jnp.dtype) -> Answer:
    return jax.tree.map(lambda each: each.astype(dtype) if each.dtype == jnp.float64 else each, answer)


def settled(answer: Answer) -> Bool[Array, " batch"]:
    """Whether an answer's iterations arrived, and it is a number."""
    finite = [jnp.all(jnp.isfinite(each), axis=(1, 2, 3)) for each in answer.coefficients]
    return answer.arrived & jnp.all(jnp.stack(finite), axis=0)
