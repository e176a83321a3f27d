"""One time step: Gauss-Newton iterations on its equations, and what the next step is given."""

from __future__ import annotations

import math
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from stablepdenet.spectral.equations import Coefficients, Equations, Moment, Step
from stablepdenet.spectral.functions import Clock

# A Newton iteration that moves the coefficients by less, of their size, has arrived.
ARRIVED = 1e-9
ITERATIONS = 12
# Parts of a Newton step that are tried; the residual says which is taken.
PARTS = (1.0, 0.5, 0.25, 0.1, 0.03)


def settle(
    equations: Equations,
    start: Coefficients,
    a: Float[Array, " m"],
    moment: Moment,
    *,
    iterations: int = ITERATIONS,
    factors: Step | None = None,
) -> tuple[Coefficients, Bool[Array, ""]]:
    """Gauss-Newton iterations until they arrive. Gradients are those of the last one, with its factors held: at the
    solution these are the answer's. Linear equations may have `factors` that several steps share."""
    if equations.linear:
        step = factors if factors is not None else linear_factors(equations, start, a, moment)
        at = start
        for _ in range(2):  # the second for what rounding left
            at = equations.moved(at, equations.solve(step, equations.residual(at, a, moment)))
        return at, jnp.asarray(True)
    held, given, where = jax.lax.stop_gradient((start, a, moment))

    def size(at: Coefficients, scales: Float[Array, " rows"]) -> Float[Array, ""]:
        return jnp.sum((scales * equations.residual(at, given, where)) ** 2)

    def iterate(state: tuple[Coefficients, Array, Array]) -> tuple[Coefficients, Array, Array]:
        at, _, count = state
        step = equations.factorise(at, given, where)
        change = equations.solve(step, equations.residual(at, given, where))
        sizes = jax.vmap(lambda part: size(equations.moved(at, part * change), step.scales))(jnp.asarray(PARTS))
        least, part = jnp.asarray(jnp.inf), jnp.asarray(0.0)
        for found, tried in zip(sizes, PARTS, strict=True):
            least, part = jnp.where(found < least, found, least), jnp.where(found < least, tried, part)
        new = equations.moved(at, part * change)
        whole = jnp.sqrt(sum(jnp.sum(each**2) for each in new))
        return new, jnp.linalg.norm(change) / jnp.maximum(whole, 1e-300), count + 1

    def unfinished(state: tuple[Coefficients, Array, Array]) -> Bool[Array, ""]:
        return (state[1] > ARRIVED) & (state[2] < iterations - 1)

    at, moved, _ = jax.lax.while_loop(unfinished, iterate, (held, jnp.asarray(jnp.inf), jnp.asarray(0)))
    at = jax.lax.stop_gradient(at)
    step = jax.lax.stop_gradient(equations.factorise(at, given, where))
    # The given coefficients carry the gradient from step to step.
    carried = tuple(old + (new - jax.lax.stop_gradient(new)) for old, new in zip(at, start, strict=True))
    final = equations.moved(carried, equations.solve(step, equations.residual(carried, a, moment)))
    return final, moved <= math.sqrt(ARRIVED)


def linear_factors(equations: Equations, start: Coefficients, a: Float[Array, " m"], moment: Moment) -> Step:
    """Those of linear equations, which are the same for all solutions and inputs."""
    return equations.factorise(jax.tree.map(jnp.zeros_like, start), jnp.zeros_like(a), moment)


def ends(at: Coefficients, clocks: Sequence[Clock], length: Float[Array, ""]) -> Coefficients:
    """The time derivatives over factorials where a step ends, which the next is given."""
    found = []
    for each, clock in zip(at, clocks, strict=True):
        new = jnp.zeros_like(each)
        for order in range(clock.order):
            value = clock.values(np.ones(1), order)[0] @ each / length**order
            new = new.at[order].set(value / math.factorial(order))
        found.append(new)
    return tuple(found)


def rescaled(given: Float[Array, "size k"], length: Float[Array, ""]) -> Float[Array, "size k"]:
    """Coefficients of powers of t, as those of powers of theta."""
    return given * (length ** np.arange(len(given)))[:, None]
