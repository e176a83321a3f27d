"""Solving a problem from its residuals alone: least squares in space, collocation in time, one step after another."""

from __future__ import annotations

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from stablepdenet.spectral.equations import Coefficients, Equations, Moment, Numbers
from stablepdenet.spectral.evolution import evolution_of
from stablepdenet.spectral.functions import Clock
from stablepdenet.spectral.plan import Plan
from stablepdenet.spectral.stepping import ITERATIONS, ends, linear_factors, rescaled, settle


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
    clocks: tuple[Clock, ...] = eqx.field(static=True)
    size: int = eqx.field(static=True)
    # Whether all time steps have the same equations, but for what they start from.
    alike: bool = eqx.field(static=True)

    def answer(self, a: Float[Array, " m"], guess: Coefficients | None = None, iterations: int = ITERATIONS) -> Answer:
        """The solution for one input; `guess` has the coefficients of every step."""
        given = tuple(jnp.zeros((clock.size, self.size)) for clock in self.clocks)
        fine = jnp.asarray(True)
        if self.start.rows:
            given, fine = settle(self.start, given, a, self.first)
            given = tuple(rescaled(each, 1.0 / self.first.length) for each in given)
        parts = [
            each[order, self.high]
            for each, clock in zip(given, self.clocks, strict=True)
            for order in range(clock.order)
        ]
        high = jnp.concatenate(parts) if parts else jnp.zeros(0)
        given = tuple(each.at[:, self.high].set(0.0) for each in given)

        shared = None
        if self.alike and self.step.linear:
            first = jax.tree.map(lambda each: each[0], self.moments)
            shared = linear_factors(self.step, given, a, first)

        def following(
            state: tuple[Coefficients, Array], now: tuple[Moment, Coefficients, Coefficients | None]
        ) -> tuple[tuple[Coefficients, Array], Coefficients]:
            (given, fine), (moment, evolution, guess) = state, now
            rough = tuple(jnp.tensordot(high, each, 1) for each in evolution)
            start = tuple(rescaled(own, moment.length) + w for own, w in zip(given, rough, strict=True))
            begin = start if guess is None else self.step.replaced(start, guess)
            found, arrived = settle(self.step, begin, a, moment, iterations=iterations, factors=shared)
            smooth = jax.tree.map(jnp.subtract, found, rough)
            return (ends(smooth, self.clocks, moment.length), fine & arrived), found

        (_, fine), found = jax.lax.scan(following, (given, fine), (self.moments, self.evolution, guess))
        return Answer(found, fine)


def make_march(plan: Plan) -> March:
    """The numbers of a plan."""
    start, step = plan.start(), plan.step()
    first = jax.tree.map(lambda each: each[0], plan.moments(start))
    high = np.setdiff1d(np.arange(plan.space.size), plan.places)
    moments, evolution = plan.moments(step), evolution_of(plan, high)
    return March(start, first, step, moments, high, evolution, plan.clocks, plan.space.size, plan.alike)
