"""How many functions and time steps a problem needs for a tolerance: tried on inputs, without labels."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from typing import NamedTuple, Protocol, runtime_checkable

import jax
import numpy as np
from jaxtyping import Array, Float
from numpy import ndarray

from stablepdenet.functions.points import grid
from stablepdenet.problems import Problem
from stablepdenet.progress import Progress, Report, silent
from stablepdenet.spectral.growing import FAR, Left, coarse_of, finer_plans, first_plan, judge_of, work
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
from stablepdenet.spectral.setting import read_setting
from stablepdenet.spectral.tails import tails_of
from stablepdenet.spectral.trials import trial_inputs

# How much longer a trial, its judges and the last check take than the answers of the trial; and for how many programs
# they must be compiled.
AGAIN, PROGRAMS = 5.0, 4.0
# The part of the tolerance that the tried inputs may take up: others are harder than these few.
AIM = 0.5
# What progress is told of.
TASK = "robust"
# Points of the grid on which errors are estimated.
POINTS = 5_000


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
        # Where solutions change fast at the start, steps follow what comes after it long before they follow that.
        # Where all is linear or made of waves, to estimate errors costs little.
        room = FAR**2 if plan.setting.waved or plan.setting.all_linear else 1.0
        if left.space <= tolerance and left.time <= room * tolerance:
            operator = with_estimate(plan, tolerance)
            worst = float(np.max(estimates(operator, a, points)[~hopeless], initial=0.0))
            progress(Report(TASK, trial, note=f"{words}: estimated error {worst:.1e}"))
            if worst <= AIM * tolerance:
                return operator
            if plan.setting.waved and worst > FAR * tolerance:
                # Finer waves and steps cost little: it does not matter which of them the error is owed to.
                left = Left(*(max(own, worst) for own in left))
        else:
            note = f"{words}: they leave out {left.space:.0e} (space) and {left.time:.0e} (time) of solutions"
            progress(Report(TASK, trial, note=note))
        time_left = (budget - (time.monotonic() - began) - PROGRAMS * compiling) / AGAIN * work(plan) / seconds
        finer = next((each for each in finer_plans(plan, left, tolerance) if work(each) < time_left), None)
        if finer is None:
            break
        plan = finer
    return operator or with_estimate(plan, tolerance)


def estimates(operator: Judged, a: Float[Array, "batch m"], points: Points) -> Float[ndarray, " batch"]:
    """The estimated relative errors of the answers at some points."""
    return np.asarray(operator.answer(a, points).estimate)


def with_estimate(plan: Plan, tolerance: float = TOLERANCE) -> SpectralOperator:
    """The operator of a plan, which knows a finer and a coarser one to be judged by, and what is asked of it."""
    judge, coarse = spectral_operator(judge_of(plan)), spectral_operator(coarse_of(plan))
    return SpectralOperator(spectral_operator(plan).numbers, plan, judge, coarse, tolerance)


def axes_of(problem: Problem) -> tuple[Float[ndarray, " _"], ...]:
    """The axes of the problem's own grid, or of one of as many points as are quickly evaluated."""
    each = max(2, int(POINTS ** (1.0 / problem.domain.dimension)))
    return problem.axes or tuple(np.linspace(low, high, each) for low, high in problem.domain.intervals)


def grid_of(problem: Problem) -> Float[ndarray, "n dim"]:
    """Where errors are estimated."""
    return grid(*axes_of(problem))


def _described(plan: Plan) -> str:
    functions = " x ".join(map(str, plan.counts))
    return f"{functions} functions" + (f", {len(plan.lengths)} time steps" if plan.setting.time is not None else "")
