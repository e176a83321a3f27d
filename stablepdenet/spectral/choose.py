"""How many functions and time steps a problem needs for a tolerance: tried on inputs, without labels."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray
from numpy import ndarray

from stablepdenet.attacks import LinfBall
from stablepdenet.points import grid
from stablepdenet.problems import Problem
from stablepdenet.spaces import SensorInput
from stablepdenet.spectral.operator import SpectralOperator, spectral_operator
from stablepdenet.spectral.plan import Plan
from stablepdenet.spectral.setting import Setting, read_setting

# Functions of each coordinate to begin with, by the number of coordinates of space; odd, as waves come in pairs.
FIRST = {0: 1, 1: 25, 2: 11, 3: 7}
# How much finer the next trial is: the functions of each coordinate, and the time steps.
MORE, HALVES = 1.5, 2
STEPS, STEPS_SHARED, STAGES = 8, 32, 3
# Steps grow from the start, where solutions change fastest: the i-th of n ends at (i / n)^GROWTH of the time.
GROWTH = 1.5
# Unknowns of one time step at most, where each input has a matrix of its own and where all share one.
MOST, MOST_SHARED = 700, 2500
# Time steps at most, likewise.
MOST_STEPS, MOST_SHARED_STEPS = 128, 512
# An error of so many tolerances skips one trial.
FAR = 4.0
# Below this error, half the time step has a much smaller one.
SMALL = 0.05
# Inputs that are tried: as drawn, with rough noise, and twice as large.
DRAWN, NOISY, DOUBLED = 6, 6, 4
# The noise on the values at sensors, of their mean square over inputs.
NOISE = 0.05
# Points of the grid on which errors are estimated.
POINTS = 5_000


class Trial(NamedTuple):
    """A plan, and the estimated errors of the inputs that were tried: by its functions of space, by its time steps."""

    plan: Plan
    space: Float[ndarray, " inputs"]
    time: Float[ndarray, " inputs"]

    @property
    def worst(self) -> float:
        return float(np.max(np.maximum(self.space, self.time)))


def trial_inputs(problem: Problem, *, key: PRNGKeyArray) -> Float[Array, "inputs m"]:
    """Inputs as the problem draws them, some with noise at every sensor, some twice as large."""
    keys = jax.random.split(key, 4)
    drawn, noisy, doubled = (
        problem.sample(count, key=own) for count, own in zip((DRAWN, NOISY, DOUBLED), keys[:3], strict=True)
    )
    size = jnp.sqrt(jnp.mean(drawn**2, axis=0))
    signs = jax.random.rademacher(keys[3], noisy.shape, noisy.dtype)
    sensors = jnp.concatenate(
        [
            jnp.full(each.size, float(isinstance(each, SensorInput)))
            for each in (problem.inputs[name] for name in problem.inputs)
        ]
    )
    # The radius of other balls is not one of single sensors.
    pointwise = problem.attack is not None and isinstance(problem.attack.ball, LinfBall)
    noise = jnp.full_like(size, problem.attack.eps) if problem.attack and pointwise else NOISE * size
    rough = problem.admissible.snap(noisy + noise * signs * sensors)
    return jnp.concatenate([drawn, rough, problem.admissible.snap(2.0 * doubled)])


def choose(
    problem: Problem,
    *,
    tolerance: float,
    budget: float,
    say: Callable[[str], None] = lambda line: None,
) -> SpectralOperator:
    """The first of finer and finer plans whose estimated errors meet the tolerance on all tried inputs; the best that
    the budget, in seconds, allows where none does."""
    began = time.monotonic()
    setting = read_setting(problem)
    a = trial_inputs(problem, key=jax.random.key(2))
    plan = first_plan(setting)
    while True:
        trial = _try(plan, a)
        say(f"{_described(plan)}: estimated error {trial.worst:.1e}")
        spent = time.monotonic() - began
        if trial.worst <= tolerance or spent > budget:
            break
        finer = _finer(trial, tolerance)
        if finer == plan:
            break
        plan = finer
    return with_estimate(plan)


def first_plan(setting: Setting) -> Plan:
    """The coarsest."""
    counts = tuple(_odd(FIRST[min(3, len(setting.columns))]) for _ in setting.columns)
    plan = Plan(setting, counts, _rough(setting, counts), _edges(setting, STEPS), STAGES)
    # Where all inputs share one matrix, functions and steps are cheap.
    if setting.all_linear:
        return replace(plan, counts=plan.rough_counts, edges=_edges(setting, STEPS_SHARED))
    return plan


def with_estimate(plan: Plan) -> SpectralOperator:
    """The operator of a plan, which knows a finer one to be judged by."""
    judge = judge_of(plan)
    return eqx.tree_at(
        lambda each: each.judge, spectral_operator(plan), spectral_operator(judge), is_leaf=lambda leaf: leaf is None
    )


def judge_of(plan: Plan) -> Plan:
    """Finer in space, in time and at the start."""
    finer = _in_time(_in_space(plan))
    return (
        finer
        if plan.setting.all_linear
        else replace(finer, rough_counts=_rough(plan.setting, finer.counts, 2.0 * MORE))
    )


def _try(plan: Plan, a: Float[Array, "inputs m"]) -> Trial:
    operator, points = spectral_operator(plan), grid_of(plan.setting.problem)
    found = operator.solutions(a)
    errors = []
    for finer in (_in_space(plan), _in_time(plan)):
        judge = spectral_operator(finer) if finer != plan else None
        errors.append(np.asarray(operator.judged_by(judge, a, points, found).estimate) if judge else np.zeros(len(a)))
    return Trial(plan, *errors)


def _finer(trial: Trial, tolerance: float) -> Plan:
    """Finer in what the errors come from, as long as it may grow."""
    plan, setting = trial.plan, trial.plan.setting
    if np.max(trial.space) > tolerance:
        for _ in range(2 if np.max(trial.space) > FAR * tolerance else 1):
            plan = _in_space(plan) if _fits(_in_space(plan)) else plan
    if np.max(trial.time) > tolerance:
        # A step's error is of fifth order once it is small.
        halves = 1 if np.max(trial.time) < SMALL else 2
        for _ in range(halves):
            finer = _in_time(plan)
            plan = finer if len(finer.lengths) <= (MOST_SHARED_STEPS if setting.all_linear else MOST_STEPS) else plan
    return plan


def _fits(plan: Plan) -> bool:
    most = MOST_SHARED if plan.setting.all_linear else MOST
    return len(plan.places) * sum(clock.free for clock in plan.clocks) <= most


def _in_space(plan: Plan) -> Plan:
    counts = tuple(_odd(MORE * count) for count in plan.counts)
    rough = counts if plan.setting.all_linear else _rough(plan.setting, counts)
    return replace(plan, counts=counts, rough_counts=rough)


def _in_time(plan: Plan) -> Plan:
    if plan.setting.time is None:
        return plan
    old = np.asarray(plan.edges)
    parts = [begin + length * np.arange(HALVES) / HALVES for begin, length in zip(old[:-1], plan.lengths, strict=True)]
    return replace(plan, edges=(*np.concatenate(parts).tolist(), plan.edges[-1]))


def _edges(setting: Setting, steps: int) -> tuple[float, ...]:
    if setting.time is None:
        return (0.0, 1.0)
    low, high = setting.problem.domain.intervals[setting.time]
    # Steps of one length share one factorisation, where the equations are linear.
    growth = 1.0 if setting.all_linear else GROWTH
    return tuple((low + (high - low) * (np.arange(steps + 1) / steps) ** growth).tolist())


def grid_of(problem: Problem) -> Float[ndarray, "n dim"]:
    """Where errors are estimated: the problem's own grid, or one of as many points as are quickly evaluated."""
    if problem.axes:
        return problem.grid
    each = max(2, int(POINTS ** (1.0 / problem.domain.dimension)))
    return grid(*(np.linspace(low, high, each) for low, high in problem.domain.intervals))


def _rough(setting: Setting, counts: tuple[int, ...], more: float = 2.0) -> tuple[int, ...]:
    """Functions for the values at the start: `more` for each sensor along a coordinate, where inputs are these."""
    problem = setting.problem
    names = {name for region in setting.regions if setting.initial(region) for name, _ in region.terms.inputs.values()}
    if not names or len(setting.columns) > 1:
        return counts
    sensors = [each for each in (problem.inputs[name] for name in names) if isinstance(each, SensorInput)]
    most = max((len(axis) for each in sensors for axis in each.axes), default=0)
    return tuple(max(count, _odd(more * most)) for count in counts)


def _odd(number: float) -> int:
    return 2 * (int(number) // 2) + 1


def _described(plan: Plan) -> str:
    functions = " x ".join(map(str, plan.counts))
    return f"{functions} functions" + (f", {len(plan.lengths)} time steps" if plan.setting.time is not None else "")
