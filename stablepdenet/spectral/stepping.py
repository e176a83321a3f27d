"""One time step: Newton iterations on its equations, and what the next step is given."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from stablepdenet.spectral.equations import Equations, Factors, Moment, Step
from stablepdenet.spectral.functions import Clock
from stablepdenet.spectral.rows import Coefficients

# An iteration that moves the coefficients by less, of their size, has arrived; one that moves them by less than the
# second was stopped by rounding, or is as good as there.
ARRIVED, NEARLY = 1e-8, 3e-5
# Factors are kept, from iteration to iteration and from step to step, while each change is at most this part of the
# last one: factorising takes far longer than iterating. New factors are kept below the other.
KEEPS, KEEPS_NEW = 0.2, 0.9
ITERATIONS = 60
# Where the next change would be larger, this part of a change is tried, and of that; down to the least.
SHORTER, SHORTEST = 0.4, 0.02


class Iterated(NamedTuple):
    """Where iterations are: the coefficients; the change that comes next, if it is `known`, and the part of it that is
    taken; the factors, whether they are to be made anew, and whether they are new; how far the change goes; and how
    many iterations there were."""

    at: Coefficients
    change: Float[Array, " unknowns"]
    known: Bool[Array, ""]
    part: Float[Array, ""]
    factors: Factors
    stale: Bool[Array, ""]
    new: Bool[Array, ""]
    moved: Float[Array, ""]
    number: Int[Array, ""]


class Settled(NamedTuple):
    """Coefficients, whether the iterations arrived, and the factors that they ended with."""

    at: Coefficients
    arrived: Bool[Array, ""]
    factors: Factors


def settle(
    equations: Equations,
    start: Coefficients,
    a: Float[Array, " m"],
    moment: Moment,
    *,
    factors: Factors,
    stale: Bool[Array, ""] | bool,
    wanted: Bool[Array, ""] | bool = True,
) -> Settled:
    """Gauss-Newton iterations until they arrive, with the factors of an earlier step as long as these serve; they never
    do where they are `stale`. Not to be differentiated: `linearised` is. Nothing is done where an answer is not
    `wanted` any more.

    What says whether a change helps is the size of the next one with the same factors, not the residual: it has no
    units, and what functions cannot meet of the equations does not hide it.
    """

    def iterate(state: Iterated) -> Iterated:
        # Residual, solution and factors stand here once: a program's size is the time that compiling it takes.
        at, change, known, part, factors, stale, new, moved, number = state
        factors = jax.lax.cond(stale, lambda: equations.factorise(at, a, moment), lambda: factors)
        there = equations.moved(at, jnp.where(known, part, 0.0) * change)
        following = equations.solve(factors, equations.residual(there, a, moment))
        before, after = jnp.linalg.norm(change), jnp.linalg.norm(following)
        falls = after <= (1.0 - 0.5 * part) * before
        serves = falls & (after <= jnp.where(new, KEEPS_NEW, KEEPS) * before)
        # Newly factorised, and hardly moved since: what still moves is rounding.
        rounding = known & new & (moved <= NEARLY) & ~serves
        goes_on = ~known | serves | rounding
        # New factors, and still too far: less of the change is tried, as long as that is not next to nothing.
        shorter = ~goes_on & ~falls & new & (part * SHORTER >= SHORTEST)
        taken = goes_on | falls | (new & ~shorter)
        whole = jnp.sqrt(sum(jnp.sum(each**2) for each in there) + after**2)
        return Iterated(
            at=jax.tree.map(lambda old, own: jnp.where(taken, own, old), at, there),
            change=jnp.where(goes_on, following, change),
            known=goes_on | shorter,
            part=jnp.where(shorter, part * SHORTER, 1.0),
            factors=factors,
            stale=~(goes_on | shorter),
            new=jnp.where(known, shorter | (new & (after > KEEPS * before)), stale),
            moved=jnp.where(rounding, 0.0, jnp.where(goes_on, after / jnp.maximum(whole, 1e-300), jnp.inf)),
            number=number + 1,
        )

    def unfinished(state: Iterated) -> Bool[Array, ""]:
        return (state.moved > ARRIVED) & (state.number < ITERATIONS) & wanted

    change = jnp.zeros(equations.unknowns)
    begin = Iterated(
        at=start,
        change=change,
        known=jnp.asarray(False),
        part=jnp.asarray(1.0),
        factors=factors,
        stale=jnp.asarray(stale),
        new=jnp.asarray(False),
        moved=jnp.asarray(jnp.inf),
        number=jnp.asarray(0),
    )
    end = jax.lax.while_loop(unfinished, iterate, begin)
    arrived = (end.moved <= NEARLY) & wanted
    at = equations.moved(end.at, jnp.where(end.known, 1.0, 0.0) * end.change)
    if equations.stages is None:
        # One step is all there is: kept factors save little, and where solutions are far from the start they mislead.
        begin = jax.tree.map(lambda found, start: jnp.where(arrived, found, start), at, start)
        better, found = _newton(equations, begin, a, moment)
        at = jax.tree.map(lambda new, old: jnp.where(found, new, old), better, at)
        arrived = (arrived | found) & wanted
    return Settled(at, arrived, end.factors)


def _newton(
    equations: Equations, start: Coefficients, a: Float[Array, " m"], moment: Moment
) -> tuple[Coefficients, Bool[Array, ""]]:
    """Gauss-Newton iterations with new factors each time, and whether they arrive."""

    def iterate(state: tuple[Coefficients, Array, Array]) -> tuple[Coefficients, Array, Array]:
        at, _, number = state
        change = equations.solve(equations.factorise(at, a, moment), equations.residual(at, a, moment))
        there = equations.moved(at, change)
        size = jnp.sqrt(sum(jnp.sum(each**2) for each in there))
        return there, jnp.linalg.norm(change) / jnp.maximum(size, 1e-300), number + 1

    def unfinished(state: tuple[Coefficients, Array, Array]) -> Bool[Array, ""]:
        return (state[1] > ARRIVED) & (state[2] < ITERATIONS)

    at, moved, _ = jax.lax.while_loop(unfinished, iterate, (start, jnp.asarray(jnp.inf), jnp.asarray(0)))
    return at, moved <= ARRIVED


def no_factors(equations: Equations, start: Coefficients, a: Float[Array, " m"], moment: Moment) -> Factors:
    """Zeros in the place of factors that are still to be made."""
    shapes = jax.eval_shape(equations.factorise, start, a, moment)
    return jax.tree.map(lambda each: jnp.zeros(each.shape, each.dtype), shapes)


def better_start(starts: Sequence[Coefficients], size: Callable[[Coefficients], Float[Array, ""]]) -> Coefficients:
    """The one that the next change, of that size, moves least."""
    many = jax.tree.map(lambda *each: jnp.stack(each), *starts)
    best = _least(jax.lax.map(size, many))
    return jax.tree.map(lambda each: each[best], many)


def linearised(equations: Equations, at: Coefficients, a: Float[Array, " m"], moment: Moment) -> Coefficients:
    """One Gauss-Newton iteration from a solution. Its factors are held, so that gradients are those of the solution."""
    factors = jax.lax.stop_gradient(equations.factorise_whole(*jax.lax.stop_gradient((at, a, moment))))
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


def linear_factors(equations: Equations, start: Coefficients, a: Float[Array, " m"], moment: Moment) -> Step:
    """Those of linear equations, which are the same for all solutions and inputs."""
    return equations.factorise_whole(jax.tree.map(jnp.zeros_like, start), jnp.zeros_like(a), moment)


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
