"""The operator that we recommend for a problem, and estimates of the errors of any operator."""

from __future__ import annotations

import warnings
from pathlib import Path

import jax
import numpy as np

from stablepdenet.errors import ConfigError
from stablepdenet.problems import Problem, warn_of_contradictions
from stablepdenet.progress import Progress, Report, displayed, silent
from stablepdenet.solving import solve
from stablepdenet.spectral import (
    TOLERANCE,
    JudgedOperator,
    SpectralOperator,
    TrialFile,
    choose,
    estimates,
    grid_of,
    trial_inputs,
)
from stablepdenet.spectral.choose import TASK

# Seconds that finding the functions and steps may take, unless told otherwise.
BUDGET = 240.0


def robust(
    problem: Problem,
    *,
    tolerance: float = TOLERANCE,
    budget: float = BUDGET,
    trials: Path | str | None = None,
    progress: Progress | None = None,
) -> SpectralOperator | JudgedOperator:
    """An operator for a problem, yours included, whose answers are within the tolerance, as relative L2 errors, or say
    that they are not.

    It needs the equations alone: no labels, no attack, no ansatz, no training. Functions and time steps are added until
    the estimated errors meet the tolerance on inputs that are drawn, rough and twice as large, or until
    `budget` seconds are over; there is a warning then. `progress` is told of each trial; without one, stderr shows it.
    With a file for `trials`, a call that was stopped is continued by another: the trial that is due is kept there.

        operator = stablepdenet.robust(problem, tolerance=1e-3)
        u, errors, estimate, trusted = operator.answer(a, points)
    """
    if not 0.0 < tolerance < 1.0:
        raise ConfigError(f"robust(tolerance={tolerance}): a relative error must be between 0 and 1, as 1e-3.")
    if not budget > 0.0:
        raise ConfigError(f"robust(budget={budget}): it must be a positive number of seconds.")
    warn_of_contradictions(problem)
    with displayed(progress, problem.name) as told:
        spectral = make_judge(problem, tolerance=tolerance, budget=budget, trials=trials, progress=told)
        a, points = trial_inputs(problem, key=jax.random.key(3)), grid_of(problem)
        operator: SpectralOperator | JudgedOperator = spectral
        reached = estimates(operator, a, points)
        if spectral.plan.setting.all_linear and problem.ansatz is not None:
            # What is known of solutions may serve better than smooth functions.
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                solved = JudgedOperator(solve(problem), spectral)
            own = estimates(solved, a, points)
            if np.max(own) < np.max(reached):
                operator, reached = solved, own
        middle, largest, missed = np.median(reached), np.max(reached), int(np.sum(~(reached <= tolerance)))
        note = f"estimated errors of {len(reached)} inputs: median {middle:.1e}, largest {largest:.1e}"
        numbers = {"inputs": len(reached), "missed": missed, "median": float(middle), "largest": float(largest)}
        told(Report(TASK, 1, 1, note, numbers))
    if missed:
        warnings.warn(
            f"The tolerance {tolerance:g} is not met on {missed} of {len(reached)} inputs of '{problem.name}' (drawn, "
            f"with noise, and twice as large): the largest estimated error is {np.max(reached):.2g}. Answers say which "
            "are to be trusted: operator.answer(a, points).trusted. A larger budget may help.",
            stacklevel=2,
        )
    return operator


def make_judge(
    problem: Problem,
    *,
    tolerance: float = TOLERANCE,
    budget: float = BUDGET,
    trials: Path | str | None = None,
    progress: Progress = silent,
) -> SpectralOperator:
    """A spectral operator of a problem: what answers, and what judges any other operator's answers."""
    kept = TrialFile(Path(trials), problem, tolerance) if trials else None
    begin, keep = (kept.read(), kept.write) if kept else (None, None)
    return choose(problem, tolerance=tolerance, budget=budget, progress=progress, begin=begin, keep=keep)
