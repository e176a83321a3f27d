"""Solving a problem from its residuals alone: least squares in space, collocation in time, one step after another."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int
from numpy import ndarray

from stablepdenet.problems import Problem
from stablepdenet.spectral.equations import Coefficients, Equations, Moment, Numbers, make_rows
from stablepdenet.spectral.functions import Axis, Clock, Space, radau
from stablepdenet.spectral.setting import Setting

# A Newton iteration that moves the coefficients by less, of their size, has arrived.
ARRIVED = 1e-9
ITERATIONS = 12
# Parts of a Newton step that are tried; the residual says which is taken.
PARTS = (1.0, 0.5, 0.25, 0.1, 0.03)
# Points for each function of a coordinate; more for the values at the start, which may be rough.
POINTS, ROUGH = 2.0, 3.0
# Inputs whose mean says where the linear part of the equations is taken.
DRAWN = 64


@dataclass(frozen=True)
class Plan:
    """Functions of space and time steps: enough to solve a problem for any input.

    `counts` are the functions of each coordinate of space in which the equations are solved. `rough_counts`, as many or
    more, are those that the values at the start have: what the former cannot follow evolves by the linear part of the
    equations, once and for all inputs.
    """

    setting: Setting
    counts: tuple[int, ...]
    rough_counts: tuple[int, ...]
    edges: tuple[float, ...]
    stages: int

    @cached_property
    def space(self) -> Space:
        return self._space(self.rough_counts)

    def _space(self, counts: Sequence[int]) -> Space:
        domain, columns = self.setting.problem.domain, self.setting.columns
        return Space(
            tuple(
                Axis(domain.intervals[i], self.setting.periodic[i], count)
                for i, count in zip(columns, counts, strict=True)
            )
        )

    @cached_property
    def places(self) -> Int[ndarray, " k"]:
        """Those of the functions that the equations are solved in."""
        return self._space(self.counts).within(self.space)

    @property
    def clocks(self) -> tuple[Clock, ...]:
        if self.setting.time is None:
            return tuple(Clock(0, 1) for _ in self.setting.orders)
        return tuple(Clock(order, self.stages) for order in self.setting.orders)

    @property
    def lengths(self) -> Float[ndarray, " steps"]:
        """How long the time steps are."""
        return np.diff(np.asarray(self.edges))

    def start(self) -> Equations:
        """The conditions at the beginning, in the coefficients that the first step is given."""
        free = tuple((0, clock.order) for clock in self.clocks)
        letters = [self.setting.problem.domain.coordinates[i] for i in self.setting.columns]
        counts = [
            max(int(ROUGH * count) + 3, 2 * _sensors(self.setting.problem, letter) + 1)
            for count, letter in zip(self.rough_counts, letters, strict=True)
        ]
        return self._equations(True, np.zeros(1), free, np.arange(self.space.size), counts)

    def step(self, *, rough: bool = False) -> Equations:
        """One time step's equations, in the functions that they are solved in or in all."""
        free = tuple((clock.order, clock.size) for clock in self.clocks)
        theta = np.zeros(1) if self.setting.time is None else radau(self.stages)
        places, own = (np.arange(self.space.size), self.rough_counts) if rough else (self.places, self.counts)
        return self._equations(False, theta, free, places, [int(POINTS * count) + 3 for count in own])

    def _equations(
        self,
        initial: bool,
        theta: Float[ndarray, " q"],
        free: tuple[tuple[int, int], ...],
        places: Int[ndarray, " k"],
        counts: Sequence[int],
    ) -> Equations:
        problem, time = self.setting.problem, self.setting.time
        found = [region for region in self.setting.regions if self.setting.initial(region) == initial]
        rows = tuple(
            make_rows(problem, region, self.space, self.clocks, free, places, theta, counts, time) for region in found
        )
        linear = all(region.block.name in self.setting.linear for region in found)
        return Equations(rows, places, problem, free, time, linear)

    def moments(self, equations: Equations) -> Moment:
        """What is known in each of the time steps."""
        problem, time = self.setting.problem, self.setting.time
        starts, lengths = np.asarray(self.edges[:-1]), self.lengths
        found = []
        for rows in equations.rows:
            own = {}
            for name, (of, word) in rows.region.terms.inputs.items():
                each = problem.inputs[of]
                columns = problem.domain.columns(each.of)
                points = np.array(np.broadcast_to(rows.where.points, (len(starts), *rows.where.points.shape)))
                if time in columns:
                    points[:, :, time] = starts[:, None] + lengths[:, None] * np.asarray(rows.theta)
                    own[name] = np.stack([each.matrix(where[:, columns], word) for where in points])
                else:
                    same = np.asarray(each.matrix(points[0][:, columns], word))
                    own[name] = np.broadcast_to(same, (len(starts), *same.shape))
            found.append(own)
        return Moment(starts, lengths, tuple(found))


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

    def answer(self, a: Float[Array, " m"], guess: Coefficients | None = None, iterations: int = ITERATIONS) -> Answer:
        """The solution for one input; `guess` has the coefficients of every step."""
        given = tuple(jnp.zeros((clock.size, self.size)) for clock in self.clocks)
        fine = jnp.asarray(True)
        if self.start.rows:
            given, fine = settle(self.start, given, a, self.first, ITERATIONS)
            given = tuple(_rescaled(each, 1.0 / self.first.length) for each in given)
        parts = [
            each[order, self.high]
            for each, clock in zip(given, self.clocks, strict=True)
            for order in range(clock.order)
        ]
        high = jnp.concatenate(parts) if parts else jnp.zeros(0)
        given = tuple(each.at[:, self.high].set(0.0) for each in given)

        def following(
            state: tuple[Coefficients, Array], now: tuple[Moment, Coefficients, Coefficients | None]
        ) -> tuple[tuple[Coefficients, Array], Coefficients]:
            (given, fine), (moment, evolution, guess) = state, now
            rough = tuple(jnp.tensordot(high, each, 1) for each in evolution)
            start = tuple(_rescaled(own, moment.length) + w for own, w in zip(given, rough, strict=True))
            begin = start if guess is None else self.step.replaced(start, guess)
            found, arrived = settle(self.step, begin, a, moment, iterations)
            smooth = jax.tree.map(jnp.subtract, found, rough)
            return (ends(smooth, self.clocks, moment.length), fine & arrived), found

        (_, fine), found = jax.lax.scan(following, (given, fine), (self.moments, self.evolution, guess))
        return Answer(found, fine)


def make_march(plan: Plan) -> March:
    """The numbers of a plan."""
    start, step = plan.start(), plan.step()
    first = jax.tree.map(lambda each: each[0], plan.moments(start))
    high = np.setdiff1d(np.arange(plan.space.size), plan.places)
    return March(start, first, step, plan.moments(step), high, _evolution(plan, high), plan.clocks, plan.space.size)


def settle(
    equations: Equations, start: Coefficients, a: Float[Array, " m"], moment: Moment, iterations: int
) -> tuple[Coefficients, Bool[Array, ""]]:
    """Gauss-Newton iterations until they arrive. Gradients are those of the last one, with its factors held: at the
    solution these are the answer's."""
    if equations.linear:
        step = equations.factorise(jax.tree.map(jnp.zeros_like, start), jnp.zeros_like(a), moment)
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


def _rescaled(given: Float[Array, "size k"], length: Float[Array, ""]) -> Float[Array, "size k"]:
    """Coefficients of powers of t, as those of powers of theta."""
    return given * (length ** np.arange(len(given)))[:, None]


def _evolution(plan: Plan, high: Int[ndarray, " h"]) -> tuple[Float[ndarray, "steps h size k"], ...]:
    """How each high function at the start evolves by the linear part of the equations, taken at 0 and the mean input:
    of each component, and each derivative in time that the start gives."""
    clocks, size = plan.clocks, plan.space.size
    count = len(high) * sum(clock.order for clock in clocks)
    start = tuple(np.zeros((count, clock.size, size)) for clock in clocks)
    row = 0
    for each, clock in zip(start, clocks, strict=True):
        for order in range(clock.order):
            each[np.arange(row, row + len(high)), order, high] = 1.0
            row += len(high)
    if not count:
        return tuple(np.zeros((len(plan.lengths), *each.shape)) for each in start)
    equations = plan.step(rough=True)
    drawn = plan.setting.problem.inputs.sample(DRAWN, key=jax.random.key(0))
    middle = np.asarray(drawn, np.float64).mean(axis=0)
    with jax.enable_x64(True):
        _, found = eqx.filter_jit(_evolve)(equations, start, plan.moments(equations), middle, clocks)
        return jax.tree.map(np.asarray, found)


def _evolve(
    equations: Equations, start: tuple[Numbers, ...], moments: Moment, a: Numbers, clocks: tuple[Clock, ...]
) -> tuple[Coefficients, Coefficients]:
    """Marches many starts by the linear part at 0 and `a`."""
    zero = jax.tree.map(lambda each: jnp.zeros(each.shape[1:]), start)

    def following(given: Coefficients, moment: Moment) -> tuple[Coefficients, Coefficients]:
        step = equations.factorise(zero, a, moment)

        def one(given: Coefficients) -> Coefficients:
            at = tuple(_rescaled(each, moment.length) for each in given)
            for _ in range(2):
                _, slope = jax.jvp(lambda at: equations.residual(at, a, moment), (zero,), (at,))
                at = equations.moved(at, equations.solve(step, slope))
            return at

        found = jax.vmap(one)(given)
        return jax.vmap(lambda at: ends(at, clocks, moment.length))(found), found

    return jax.lax.scan(following, start, moments)


def _sensors(problem: Problem, letter: str) -> int:
    """The most numbers that an input has along a coordinate."""
    most = 0
    for each in (problem.inputs[name] for name in problem.inputs):
        if letter in each.of:
            axes = getattr(each, "axes", None)
            most = max(most, len(axes[each.of.index(letter)]) if axes is not None else each.size)
    return most
