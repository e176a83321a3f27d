"""Solving a problem from its residuals alone: least squares in space, collocation in time, one step after another."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable
from operator import itemgetter
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float
from numpy import ndarray

from stablepdenet.spectral.equations import Equations, Factors, Moment
from stablepdenet.spectral.evolution import evolution_of
from stablepdenet.spectral.functions import Clock
from stablepdenet.spectral.plan import Plan
from stablepdenet.spectral.rows import Coefficients, Numbers
from stablepdenet.spectral.stepping import (
    better_start,
    ends,
    linear_factors,
    linearised,
    no_factors,
    rescaled,
    settle,
    solve_linear,
)


class Answer(NamedTuple):
    """Coefficients of every time step (steps first), and whether all iterations arrived."""

    coefficients: Coefficients
    arrived: Bool[Array, ""]


class March(eqx.Module):
    """A plan's numbers, ready to solve: all in float64, so every call must be inside of `jax.enable_x64(True)`.

    With u = v + w, the rough part w of the values at the start evolves by `evolution`, which is linear and known; v is
    solved for, step after step.
    """

    start: Equations
    first: Moment
    step: Equations
    moments: Moment
    high: Numbers
    evolution: tuple[Numbers, ...]
    # What takes the last step's coefficients to those that go on in the next one.
    onwards: tuple[Numbers, ...]
    clocks: tuple[Clock, ...] = eqx.field(static=True)
    size: int = eqx.field(static=True)
    # Whether all time steps have the same equations, but for what they start from; whether they have the same matrix.
    alike: bool = eqx.field(static=True)
    one_matrix: bool = eqx.field(static=True)

    @property
    def together(self) -> int:
        """How many inputs are solved for at once: many where they share one factorisation. Else one: each stops
        iterating when it has arrived, and no matrices are factorised in batches, which hangs in JAX 0.10 on machines
        with few cores."""
        return sys.maxsize if self.step.linear else 1

    def answer(self, a: Float[Array, " m"], guess: Coefficients | None = None) -> Answer:
        """The solution for one input; `guess` has the coefficients of every step. Not to be differentiated, unless the
        equations are linear."""
        given, rough, fine = self._begin(a)
        if self.one_matrix and not len(self.high):
            return Answer(self._linear(given, a), fine)
        nothing = jax.tree.map(jnp.zeros_like, given)

        def following(
            state: tuple[Coefficients, Coefficients, Factors, Array, Array],
            now: tuple[Moment, Coefficients, Coefficients, Coefficients | None],
        ) -> tuple[tuple[Coefficients, Coefficients, Factors, Array, Array], Coefficients]:
            (given, before, factors, first, fine), (moment, evolution, onwards, guess) = state, now
            rising = rough(evolution)
            start = tuple(rescaled(own, moment.length) + w for own, w in zip(given, rising, strict=True))
            if self.step.linear:
                found, arrived = solve_linear(self.step, start, a, moment), fine
            else:
                # From where the last step ended, or as it would go on, or from the guess.
                goes_on = tuple(turn.T @ each + w for turn, each, w in zip(onwards, before, rising, strict=True))
                other = self.step.replaced(start, goes_on if guess is None else guess)
                begin = better_start(
                    [start, other],
                    lambda at: jnp.linalg.norm(self.step.solve(factors, self.step.residual(at, a, moment))),
                )
                if guess is not None:
                    # In the first step there are no factors to compare by yet.
                    begin = jax.tree.map(lambda own, given, now=first: jnp.where(now, given, own), begin, other)
                found, arrived, factors = settle(self.step, begin, a, moment, factors=factors, stale=first, wanted=fine)
            smooth = jax.tree.map(jnp.subtract, found, rising)
            following_given = ends(smooth, self.clocks, moment.length)
            return (following_given, smooth, factors, jnp.asarray(False), fine & arrived), found

        factors = no_factors(self.step, nothing, a, jax.tree.map(itemgetter(0), self.moments))
        scanned = (self.moments, self.evolution, self.onwards, guess)
        state, found = jax.lax.scan(following, (given, nothing, factors, jnp.asarray(True), fine), scanned)
        return Answer(found, state[-1])

    def linearised(self, a: Float[Array, " m"], solution: Coefficients) -> Coefficients:
        """The solution again, from itself: to be differentiated in the input."""
        given, rough, _ = self._begin(a)
        if self.one_matrix and not len(self.high):
            return self._linear(given, a)

        def following(
            given: Coefficients, now: tuple[Moment, Coefficients, Coefficients]
        ) -> tuple[Coefficients, Coefficients]:
            moment, evolution, solution = now
            rising = rough(evolution)
            start = tuple(rescaled(own, moment.length) + w for own, w in zip(given, rising, strict=True))
            if self.step.linear:
                found = solve_linear(self.step, start, a, moment)
            else:
                found = linearised(self.step, self.step.replaced(start, solution), a, moment)
            return ends(jax.tree.map(jnp.subtract, found, rising), self.clocks, moment.length), found

        return jax.lax.scan(following, given, (self.moments, self.evolution, solution))[1]

    def _begin(
        self, a: Float[Array, " m"]
    ) -> tuple[Coefficients, Callable[[Coefficients], Coefficients], Bool[Array, ""]]:
        """What the first step is given; how its rough part rises in a step, from that step's evolution; and whether the
        conditions at the start are met."""
        given = tuple(jnp.zeros((clock.size, self.size)) for clock in self.clocks)
        fine = jnp.asarray(True)
        if self.start.rows:
            if self.start.linear:
                given = solve_linear(self.start, given, a, self.first)
            else:
                where = jax.lax.stop_gradient((given, a, self.first))
                found = settle(self.start, *where, factors=no_factors(self.start, *where), stale=True)
                given, fine = linearised(self.start, found.at, a, self.first), found.arrived
            given = tuple(rescaled(each, 1.0 / self.first.length) for each in given)
        parts = [
            each[order, self.high]
            for each, clock in zip(given, self.clocks, strict=True)
            for order in range(clock.order)
        ]
        high = jnp.concatenate(parts) if parts else jnp.zeros(0)
        given = tuple(each.at[:, self.high].set(0.0) for each in given)
        return given, lambda evolution: tuple(jnp.tensordot(high, each, 1) for each in evolution), fine

    def _linear(self, given: Coefficients, a: Float[Array, " m"]) -> Coefficients:
        """All steps of linear equations with one matrix: what a step makes of what it starts from is one matrix too, so
        that many steps cost little."""
        first = jax.tree.map(lambda each: each[0], self.moments)
        zero = jax.tree.map(jnp.zeros_like, given)
        factors = linear_factors(self.step, zero, a, first)

        def free(a: Float[Array, " m"], moment: Moment, start: Coefficients = zero) -> Coefficients:
            return solve_linear(self.step, start, a, moment, factors=factors)

        def turned(start: Float[Array, " starts"]) -> Coefficients:
            parts, row = [], 0
            for clock in self.clocks:
                own = start[row : row + clock.order * self.size].reshape(clock.order, self.size)
                parts.append(jnp.concatenate([own, jnp.zeros((clock.free, self.size))]))
                row += clock.order * self.size
            nothing = jnp.zeros_like(a)
            return jax.tree.map(jnp.subtract, free(nothing, first, tuple(parts)), free(nothing, first))

        count = self.size * sum(clock.order for clock in self.clocks)
        response = jax.vmap(turned)(jnp.eye(count))
        same = free(a, first) if self.alike else None

        def following(given: Coefficients, moment: Moment) -> tuple[Coefficients, Coefficients]:
            begin = tuple(rescaled(each, moment.length) for each in given)
            start = jnp.concatenate(
                [each[: clock.order].ravel() for each, clock in zip(begin, self.clocks, strict=True)]
            )
            rest = same if same is not None else free(a, moment)
            found = tuple(own + jnp.tensordot(start, each, 1) for own, each in zip(rest, response, strict=True))
            return ends(found, self.clocks, moment.length), found

        return jax.lax.scan(following, given, self.moments)[1]


def make_march(plan: Plan) -> March:
    """The numbers of a plan."""
    start, step = plan.start(), plan.step()
    first = jax.tree.map(lambda each: each[0], plan.moments(start.rows))
    high = np.setdiff1d(np.arange(plan.space.size), plan.places)
    moments, evolution = plan.moments(step.rows), evolution_of(plan, high)
    one = step.linear and (plan.alike or _one_matrix(step, moments, plan))
    onwards = tuple(onwards_of(clock, plan.lengths) for clock in plan.clocks)
    return March(start, first, step, moments, high, evolution, onwards, plan.clocks, plan.space.size, plan.alike, one)


def onwards_of(clock: Clock, lengths: Float[ndarray, " steps"]) -> Float[ndarray, "steps size size"]:
    """What takes each step's coefficients to those with which the next one begins, as if the solution went on."""
    turns = [clock.restricted(1.0, new / old) for old, new in itertools.pairwise(lengths)]
    return np.stack([np.zeros((clock.size, clock.size)), *turns])


def _one_matrix(step: Equations, moments: Moment, plan: Plan) -> bool:
    """Whether linear equations have the same matrix at all times, although what is known in them changes."""
    if not plan.even:
        return False
    last = len(plan.lengths) - 1

    @eqx.filter_jit
    def matrix(step: Equations, moment: Moment) -> Float[Array, "unknowns rows"]:
        zero = tuple(jnp.zeros((clock.size, plan.space.size)) for clock in plan.clocks)
        return step.factorise_whole(zero, jnp.zeros(plan.setting.problem.inputs.size), moment).columns

    with jax.enable_x64(True):
        some = [jax.tree.map(itemgetter(number), moments) for number in sorted({0, last // 3, last})]
        first, *others = (np.asarray(matrix(step, moment)) for moment in some)
    return all(bool(np.allclose(each, first, rtol=1e-9, atol=1e-9)) for each in others)
