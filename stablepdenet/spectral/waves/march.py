"""Solving a periodic problem wave by wave, one time step after another."""

from __future__ import annotations

from operator import itemgetter
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from stablepdenet.spectral.equations import Moment
from stablepdenet.spectral.functions import Clock
from stablepdenet.spectral.march import Answer, onwards_of
from stablepdenet.spectral.plan import Plan
from stablepdenet.spectral.rows import Coefficients, Numbers
from stablepdenet.spectral.stepping import ends, rescaled
from stablepdenet.spectral.waves.equations import Waves
from stablepdenet.spectral.waves.matrices import mean_input, waves_at_start, waves_of_step

# Coefficients that are solved for at once.
AT_ONCE = 2**25


class State(NamedTuple):
    """What a time step is given, the last step's coefficients, and whether all steps so far arrived."""

    given: Coefficients
    before: Coefficients
    fine: Bool[Array, ""]


class WaveMarch(eqx.Module):
    """A plan's numbers, ready to solve: all in float64, so every call must be inside of `jax.enable_x64(True)`."""

    start: Waves
    first: Moment
    step: Waves
    moments: Moment
    # What takes the last step's coefficients to those that go on in the next one.
    onwards: tuple[Numbers, ...]
    clocks: tuple[Clock, ...] = eqx.field(static=True)
    size: int = eqx.field(static=True)

    @property
    def together(self) -> int:
        """How many inputs are solved for at once: so many that their coefficients fit into memory."""
        return max(1, AT_ONCE // (len(self.moments.length) * sum(clock.size for clock in self.clocks) * self.size))

    def answer(self, a: Float[Array, " m"], guess: Coefficients | None = None) -> Answer:
        """The solution for one input; `guess` has the coefficients of every step. Not to be differentiated."""
        begin, fine = self.start.settled(self._nothing, a, self.first, 0)
        given = self._given(begin)

        def following(
            state: State, now: tuple[Moment, Coefficients, Coefficients | None, Numbers]
        ) -> tuple[State, Coefficients]:
            moment, onwards, guess, kind = now
            start = tuple(rescaled(own, moment.length) for own in state.given)
            # From where the last step ended, or as it would go on, or from the guess.
            goes_on = tuple(turn.T @ each for turn, each in zip(onwards, state.before, strict=True))
            other = self.step.replaced(start, goes_on if guess is None else guess)
            begin = self.step.better([start, other], a, moment, kind)
            found, arrived = self.step.settled(begin, a, moment, kind, wanted=state.fine)
            return State(ends(found, self.clocks, moment.length), found, state.fine & arrived), found

        scanned = (self.moments, self.onwards, guess, self.step.kinds)
        state, found = jax.lax.scan(following, State(given, self._nothing, fine), scanned)
        return Answer(found, state.fine)

    def linearised(self, a: Float[Array, " m"], solution: Coefficients) -> Coefficients:
        """The solution again, from itself: to be differentiated in the input."""
        where = jax.lax.stop_gradient((self._nothing, a, self.first))
        begin, _ = self.start.settled(*where, 0)

        def following(
            given: Coefficients, now: tuple[Moment, Coefficients, Numbers]
        ) -> tuple[Coefficients, Coefficients]:
            moment, solution, kind = now
            start = tuple(rescaled(own, moment.length) for own in given)
            found = self.step.linearised(self.step.replaced(start, solution), a, moment, kind)
            return ends(found, self.clocks, moment.length), found

        given = self._given(self.start.linearised(jax.lax.stop_gradient(begin), a, self.first, 0))
        return jax.lax.scan(following, given, (self.moments, solution, self.step.kinds))[1]

    @property
    def _nothing(self) -> Coefficients:
        return tuple(jnp.zeros((clock.size, self.size)) for clock in self.clocks)

    def _given(self, begin: Coefficients) -> Coefficients:
        return tuple(rescaled(each, 1.0 / self.first.length) for each in begin)


def make_wave_march(plan: Plan) -> WaveMarch:
    """The numbers of a plan."""
    start = waves_at_start(plan)
    first = jax.tree.map(itemgetter(0), plan.moments(start.rows))
    nothing = tuple(np.zeros((clock.size, plan.space.size)) for clock in plan.clocks)
    settle = eqx.filter_jit(lambda start, at, a, first: start.settled(at, a, first, 0)[0])
    with jax.enable_x64(True):
        given = tuple(map(np.asarray, settle(start, nothing, mean_input(plan), first)))
    step = waves_of_step(plan, given)
    onwards = tuple(onwards_of(clock, plan.lengths) for clock in plan.clocks)
    return WaveMarch(start, first, step, plan.moments(step.rows), onwards, plan.clocks, plan.space.size)
