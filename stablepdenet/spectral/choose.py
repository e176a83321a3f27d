"""How many functions and time steps a problem needs for a tolerance: tried on inputs, without labels."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray
from numpy import ndarray

from stablepdenet.attacks import LinfBall
from stablepdenet.functions import SensorInput
from stablepdenet.functions.points import grid
from stablepdenet.problems import Problem
from stablepdenet.progress import Progress, Report, silent
from stablepdenet.spectral.operator import (
    TOLERANCE,
    Estimated,
    Points,
    SpectralOperator,
    settled,
    spectral_operator,
    timed_solutions,
    untabulated,
)
from stablepdenet.spectral.plan import Plan
from stablepdenet.spectral.setting import Setting, read_setting
from stablepdenet.spectral.tails import tails_of

# Functions of each coordinate to begin with, by the number of coordinates of space; odd, as waves come in pairs.
FIRST = {0: 1, 1: 25, 2: 11, 3: 7}
# How much finer the next trial is: the functions of each coordinate, and the time steps.
MORE, HALVES = 1.5, 2
STEPS, STAGES = 8, 3
# Where all inputs share one matrix, high orders in time are cheap.
STEPS_SHARED, STAGES_SHARED = 16, 5
# Steps grow from the start, where solutions change fastest: the i-th of n ends at (i / n)^GROWTH of the time.
GROWTH = 1.5
# Unknowns of one factorisation at most, where each input has a matrix of its own and where all share one.
MOST, MOST_SHARED = 1000, 2500
# Time steps at most, likewise.
MOST_STEPS, MOST_SHARED_STEPS = 128, 512
# What leaves out so many tolerances skips one trial; in time, where errors fall faster, its square.
FAR = 4.0
# How much longer a trial, its judges and the last check take than the answers of the trial; and for how many programs
# they must be compiled.
AGAIN, PROGRAMS = 5.0, 4.0
# With so many unknowns a factorisation takes twice as long as with few, where each input has its own and where all
# share one (Burgers and advection, tried).
DOUBLED_AT, DOUBLED_AT_SHARED = 150, 1000
# The part of the tolerance that the tried inputs may take up: others are harder than these few.
AIM = 0.5
# Inputs that are tried: as drawn, with rough noise, and twice as large.
DRAWN, NOISY, DOUBLED = 6, 6, 4
# The noise on the values at sensors, of their mean square over inputs.
NOISE = 0.05
# What progress is told of.
TASK = "robust"
# Points of the grid on which errors are estimated.
POINTS = 5_000


class Left(NamedTuple):
    """What the functions of space and of time leave out of the worst of the solutions that were tried."""

    space: float
    time: float


class Trial(NamedTuple):
    """A trial that is due: its plan, its number, which inputs had no answer in the one before, and the seconds that all
    before took."""

    plan: Plan
    number: int
    lost: tuple[bool, ...]
    seconds: float


@runtime_checkable
class Judged(Protocol):
    """Any operator whose answers come with estimates of their errors."""

    def answer(self, a: Float[Array, "batch m"], points: Points) -> Estimated: ...


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
    progress: Progress = silent,
    begin: Trial | None = None,
    keep: Callable[[Trial], None] | None = None,
) -> SpectralOperator:
    """The first of finer and finer plans whose estimated errors are within a part of the tolerance on all tried inputs;
    the best that the budget, in seconds, allows where none is. `keep` is told of each trial before it is made: a search
    that was stopped goes on where it begins with that one."""
    a, points = trial_inputs(problem, key=jax.random.key(2)), grid_of(problem)
    begin = begin or Trial(first_plan(read_setting(problem)), 0, (False,) * len(a), 0.0)
    began = time.monotonic() - begin.seconds
    plan, lost = begin.plan, np.array(begin.lost)
    for trial in itertools.count(begin.number):
        if keep:
            keep(Trial(plan, trial, tuple(lost.tolist()), time.monotonic() - began))
        due = time.monotonic()
        found, seconds = timed_solutions(untabulated(plan), a)
        compiling = time.monotonic() - due - seconds
        tails, arrived = tails_of(plan, found.coefficients), np.asarray(settled(found))
        # Two trials without an answer: there may be none, as where solutions grow without bound.
        hopeless, lost = lost & ~arrived, ~arrived
        left = Left(*(float(np.max(np.where(lost, np.inf, own)[~hopeless], initial=0.0)) for own in tails))
        words = _described(plan) + (f" ({np.sum(lost)} of {len(a)} inputs have no answer)" if np.any(lost) else "")
        operator = None
        if np.all(hopeless):
            return with_estimate(plan, tolerance)
        if max(left) <= tolerance:
            operator = with_estimate(plan, tolerance)
            worst = float(np.max(estimates(operator, a, points)[~hopeless], initial=0.0))
            progress(Report(TASK, trial, note=f"{words}: estimated error {worst:.1e}"))
            if worst <= AIM * tolerance:
                return operator
        else:
            note = f"{words}: they leave out {left.space:.0e} (space) and {left.time:.0e} (time) of solutions"
            progress(Report(TASK, trial, note=note))
        room = (budget - (time.monotonic() - began) - PROGRAMS * compiling) / AGAIN * work(plan) / seconds
        finer = next((each for each in finer_plans(plan, left, tolerance) if work(each) < room), None)
        if finer is None:
            break
        plan = finer
    return operator or with_estimate(plan, tolerance)


def estimates(operator: Judged, a: Float[Array, "batch m"], points: Points) -> Float[ndarray, " batch"]:
    """The estimated relative errors of the answers at some points."""
    return np.asarray(operator.answer(a, points).estimate)


def first_plan(setting: Setting) -> Plan:
    """The coarsest."""
    counts = tuple(_odd(FIRST[min(3, len(setting.columns))]) for _ in setting.columns)
    plan = Plan(setting, counts, _rough(setting, counts), _edges(setting, STEPS), STAGES)
    if setting.all_linear:
        edges = _edges(setting, STEPS_SHARED)
        return replace(plan, counts=plan.rough_counts, edges=edges, stages=STAGES_SHARED)
    return plan


def with_estimate(plan: Plan, tolerance: float = TOLERANCE) -> SpectralOperator:
    """The operator of a plan, which knows a finer and a coarser one to be judged by, and what is asked of it."""
    judge, coarse = spectral_operator(judge_of(plan)), spectral_operator(coarse_of(plan))
    return SpectralOperator(spectral_operator(plan).numbers, plan, judge, coarse, tolerance)


def judge_of(plan: Plan) -> Plan:
    """Finer in space, in time and at the start."""
    finer = _in_time(_in_space(plan))
    return (
        finer
        if plan.setting.all_linear
        else replace(finer, rough_counts=_rough(plan.setting, finer.counts, 2.0 * MORE))
    )


def coarse_of(plan: Plan) -> Plan:
    """Coarser in space and in time, as much as the judge is finer."""
    counts, rough = (tuple(_odd(count / MORE) for count in own) for own in (plan.counts, plan.rough_counts))
    steps = len(plan.lengths)
    edges = plan.edges[::HALVES] if steps % HALVES == 0 and plan.setting.time is not None else plan.edges
    return replace(plan, counts=counts, rough_counts=rough, edges=edges)


def finer_plans(plan: Plan, left: Left, tolerance: float) -> Iterator[Plan]:
    """Finer plans in what is left out, as long as it may grow, the finest first; where little is left out, in what most
    of it comes from."""
    setting, further = plan.setting, max(left) <= tolerance
    most = MOST_SHARED_STEPS if setting.all_linear else MOST_STEPS
    space = left.space > tolerance or (further and (left.space >= left.time or setting.time is None))
    time = left.time > tolerance or (further and left.time > left.space)
    tried = [plan]
    for times in (2, 1):
        finer = plan
        for _ in range(times if left.space > FAR * tolerance else 1):
            finer = _in_space(finer) if space and _fits(_in_space(finer)) else finer
        for _ in range(times if left.time > FAR**2 * tolerance else 1):
            finer = _in_time(finer) if time and len(_in_time(finer).lengths) <= most else finer
        if finer not in tried:
            tried.append(finer)
            yield finer


def work(plan: Plan) -> float:
    """How long solving takes, but for a factor: as factorising in each step, or once where all share a matrix."""
    if plan.setting.all_linear:
        return float(DOUBLED_AT_SHARED**3 + _unknowns(plan) ** 3)
    return float(DOUBLED_AT**3 + _unknowns(plan) ** 3) * len(plan.lengths)


def _unknowns(plan: Plan) -> int:
    """Those of one factorisation: of all stages of a time step where all inputs share it, of one stage elsewhere."""
    stages = [clock.free if plan.setting.all_linear else 1 for clock in plan.clocks]
    return len(plan.places) * sum(stages)


def _fits(plan: Plan) -> bool:
    return _unknowns(plan) <= (MOST_SHARED if plan.setting.all_linear else MOST)


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


def axes_of(problem: Problem) -> tuple[Float[ndarray, " _"], ...]:
    """The axes of the problem's own grid, or of one of as many points as are quickly evaluated."""
    each = max(2, int(POINTS ** (1.0 / problem.domain.dimension)))
    return problem.axes or tuple(np.linspace(low, high, each) for low, high in problem.domain.intervals)


def grid_of(problem: Problem) -> Float[ndarray, "n dim"]:
    """Where errors are estimated."""
    return grid(*axes_of(problem))


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
