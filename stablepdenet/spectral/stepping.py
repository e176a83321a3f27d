"""One time step: Newton iterations on its equations, and what the next step is given."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from stablepdenet.spectral.equations import Coefficients, Equations, Moment, Step
from stablepdenet.spectral.functions import Clock

# An iteration that moves the coefficients by less, of their size, has arrived; one that moves them by less than the
# second was stopped by rounding, or is as good as there.
ARRIVED, NEARLY = 1e-8, 3e-5
# Factors are kept, from iteration to iteration and from step to step, while each change is at most this part of the
# last one: factorising takes far longer than iterating.
KEEPS = 0.1
ITERATIONS = 30
# An iteration may enlarge the residual by this factor: near the solution it is rounding that decides.
ROOM = 1.01
# Parts of a step that are tried where all of it enlarges the residual.
PARTS = (0.5, 0.25, 0.1, 0.03)


class Iterated(NamedTuple):
    """Where iterations are: the coefficients, the factors, how many changes ago these were made (in another step: more
    than one), how far the last change went, and how many iterations there were."""

    at: Coefficients
    factors: Step
    age: Int[Array, ""]
    moved: Float[Array, ""]
    number: Int[Array, ""]


class Settled(NamedTuple):
    """Coefficients, whether the iterations arrived, and the factors that they ended with."""

    at: Coefficients
    arrived: Bool[Array, ""]
    factors: Step


def settle(
    equations: Equations,
    start: Coefficients,
    a: Float[Array, " m"],
    moment: Moment,
    *,
    factors: Step | None = None,
    wanted: Bool[Array, ""] | bool = True,
) -> Settled:
    """Gauss-Newton iterations until they arrive, with the factors of an earlier step for as long as these serve. Not to
    be differentiated: `linearised` is. Nothing is done where an answer is not `wanted` any more."""

    def iterate(state: Iterated) -> Iterated:
        at, factors, age, before, number = state
        residual = equations.residual(at, a, moment)
        change = equations.solve(factors, residual)

        def along(part: float | Float[Array, ""]) -> Float[Array, ""]:
            return _size(equations.residual(equations.moved(at, part * change), a, moment), factors)

        whole = jnp.sqrt(sum(jnp.sum(each**2) for each in at) + jnp.sum(change**2))
        moved = jnp.linalg.norm(change) / jnp.maximum(whole, 1e-300)
        falls = along(1.0) <= ROOM * _size(residual, factors)
        serves = falls & (moved <= KEEPS * before)
        # Newly factorised, and hardly moved since: what still moves is rounding.
        rounding = (age == 1) & (before <= NEARLY) & ~serves

        def shorter() -> Float[Array, ""]:
            parts = jnp.asarray(PARTS)
            return parts[_least(jax.lax.map(along, parts))]

        def onward() -> Iterated:
            part = jax.lax.cond(falls, lambda: jnp.asarray(1.0), shorter)
            new = equations.moved(at, part * change)
            return Iterated(new, factors, age + 1, jnp.where(rounding, 0.0, moved), number + 1)

        def anew() -> Iterated:
            new = equations.factorise(at, a, moment)
            return Iterated(at, new, jnp.asarray(0), jnp.asarray(jnp.inf), number + 1)

        return jax.lax.cond((age == 0) | serves | rounding, onward, anew)

    def unfinished(state: Iterated) -> Bool[Array, ""]:
        return (state.moved > ARRIVED) & (state.number < ITERATIONS) & wanted

    first = equations.factorise(start, a, moment) if factors is None else factors
    begin = Iterated(start, first, jnp.asarray(0 if factors is None else 2), jnp.asarray(jnp.inf), jnp.asarray(0))
    end = jax.lax.while_loop(unfinished, iterate, begin)
    return Settled(end.at, (end.moved <= NEARLY) & wanted, end.factors)


def better_start(
    equations: Equations, starts: Sequence[Coefficients], a: Float[Array, " m"], moment: Moment, factors: Step
) -> Coefficients:
    """The one with the smallest residual."""
    sizes = jnp.stack([_size(equations.residual(each, a, moment), factors) for each in starts])
    return jax.tree.map(lambda *each: jnp.stack(each)[_least(sizes)], *starts)


def linearised(equations: Equations, at: Coefficients, a: Float[Array, " m"], moment: Moment) -> Coefficients:
    """One Gauss-Newton iteration from a solution. Its factors are held, so that gradients are those of the solution."""
    factors = jax.lax.stop_gradient(equations.factorise(*jax.lax.stop_gradient((at, a, moment))))
    # What is given carries the gradient from step to step.
    return equations.moved(at, equations.solve(factors, equations.residual(at, a, moment)))


def solve_linear(
    equations: Equations, start: Coefficients, a: Float[Array, " m"], moment: Moment, *, factors: Step | None = None
) -> Coefficients:
    """The solution of linear equations; several steps may share their factors."""
    factors = linear_factors(equations, start, a, moment) if factors is None else factors
    at = start
    for _ in range(2):  # the second for what rounding left
        at = equations.moved(at, equations.solve(factors, equations.residual(at, a, moment)))
    return at


def _least(sizes: Float[Array, " n"]) -> Int[Array, ""]:
    """The number of the smallest that is a number (`argmin` fails in float64 inside of a float32 program)."""
    best, least = jnp.asarray(0), jnp.asarray(jnp.inf)
    for number in range(len(sizes)):
        smaller = sizes[number] < least
        best, least = jnp.where(smaller, number, best), jnp.where(smaller, sizes[number], least)
    return best


def _size(residual: Float[Array, " rows"], factors: Step) -> Float[Array, ""]:
    return jnp.sum((factors.scales * residual) ** 2)


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
