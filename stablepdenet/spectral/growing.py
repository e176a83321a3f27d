"""Plans for a problem: the first, finer ones, and how long they take."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from stablepdenet.functions import SensorInput
from stablepdenet.spectral.plan import Plan
from stablepdenet.spectral.setting import Setting

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
# Waves of all time steps at most, where a problem is solved wave by wave.
MOST_WAVES = 2**19
# What leaves out so many tolerances skips one trial; in time, where errors fall faster, its square.
FAR = 4.0
# With so many unknowns a factorisation takes twice as long as with few, where each input has its own and where all
# share one (Burgers and advection, tried).
DOUBLED_AT, DOUBLED_AT_SHARED = 150, 1000


class Left(NamedTuple):
    """What the functions of space and of time leave out of the worst of the solutions that were tried."""

    space: float
    time: float


def first_plan(setting: Setting) -> Plan:
    """The coarsest."""
    counts = tuple(_odd(FIRST[min(3, len(setting.columns))]) for _ in setting.columns)
    if setting.waved:
        # One for each sensor.
        counts = tuple(max(own) for own in zip(counts, _sensors(setting), strict=True))
    plan = Plan(setting, counts, _rough(setting, counts), _edges(setting, STEPS), STAGES)
    if setting.all_linear:
        edges = _edges(setting, STEPS_SHARED)
        return replace(plan, counts=plan.rough_counts, edges=edges, stages=STAGES_SHARED)
    return plan


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
    most = MOST_SHARED_STEPS if setting.all_linear or setting.waved else MOST_STEPS
    space = left.space > tolerance or (further and (left.space >= left.time or setting.time is None))
    time = left.time > tolerance or (further and left.time > left.space)
    tried = [plan]
    for times in (2, 1):
        finer = plan
        for _ in range(times if left.time > FAR**2 * tolerance else 1):
            more = _in_time(finer)
            finer = more if time and len(more.lengths) <= most and (not setting.waved or _fits(more)) else finer
        for _ in range(times if left.space > FAR * tolerance else 1):
            finer = _in_space(finer) if space and _fits(_in_space(finer)) else finer
        if finer not in tried:
            tried.append(finer)
            yield finer


def work(plan: Plan) -> float:
    """How long solving takes, but for a factor: as transforms in each step, as factorising in each, or as factorising
    once where all share a matrix."""
    if plan.setting.waved:
        return float(plan.space.size * math.log(plan.space.size + 1.0)) * len(plan.lengths)
    if plan.setting.all_linear:
        return float(DOUBLED_AT_SHARED**3 + _unknowns(plan) ** 3)
    return float(DOUBLED_AT**3 + _unknowns(plan) ** 3) * len(plan.lengths)


def _unknowns(plan: Plan) -> int:
    """Those of one factorisation: of all stages of a time step where all inputs share it, of one stage elsewhere."""
    stages = [clock.free if plan.setting.all_linear else 1 for clock in plan.clocks]
    return len(plan.places) * sum(stages)


def _fits(plan: Plan) -> bool:
    if plan.setting.waved:
        return plan.space.size * len(plan.lengths) <= MOST_WAVES
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


def _rough(setting: Setting, counts: tuple[int, ...], more: float = 2.0) -> tuple[int, ...]:
    """Functions for the values at the start: `more` for each sensor along a coordinate, where inputs are these."""
    if setting.waved or len(setting.columns) > 1:
        return counts
    return tuple(max(own) for own in zip(counts, _sensors(setting, more), strict=True))


def _sensors(setting: Setting, more: float = 1.0) -> tuple[int, ...]:
    """So many functions for each sensor along the coordinates of space, of the inputs that the start has."""
    problem, found = setting.problem, dict.fromkeys(setting.columns, 0)
    for region in setting.regions:
        for name, _ in region.terms.inputs.values() if setting.initial(region) else ():
            each = problem.inputs[name]
            if isinstance(each, SensorInput):
                for column, axis in zip(problem.domain.columns(each.of), each.axes, strict=True):
                    found[column] = max(found[column], _odd(more * len(axis)))
    return tuple(found.values())


def _odd(number: float) -> int:
    return 2 * (int(number) // 2) + 1
