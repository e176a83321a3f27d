"""Answers to given inputs: how wrong they are estimated to be, and which of them are not to be trusted."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float
from numpy import ndarray

from stablepdenet.auditing import Measurer
from stablepdenet.errors import ConfigError
from stablepdenet.experiments.range import beyond_training
from stablepdenet.experiments.runs import JUDGE, judged_in, load_operator
from stablepdenet.experiments.training.run import Run
from stablepdenet.problems import Problem
from stablepdenet.saving import load
from stablepdenet.spectral import axes_of, beyond_trials, error_bounds, inadmissible, is_judged, sharpened


class Source(NamedTuple):
    """An operator, its problem with a grid to answer on, and the run that it is from, if any. `judged` says whether the
    errors of its answers are to be estimated."""

    problem: Problem
    operator: Any
    run: Run | None
    judged: bool


class Prediction(NamedTuple):
    """Answers on the problem's grid, and where they are estimated, their errors, the relative L2 error of each, what
    this cannot exceed, where that is known for certain, and the largest one that is trusted. `beyond` says of each
    feature of an input how many times larger it is than what was seen before, `foreign` which inputs are not
    admissible."""

    u: Float[ndarray, "batch n *components"]
    errors: Float[ndarray, "batch n *components"] | None
    estimate: Float[ndarray, " batch"] | None
    bound: Float[ndarray, " batch"] | None
    tolerance: float
    beyond: dict[str, Float[ndarray, " batch"]]
    foreign: Bool[ndarray, " batch"]

    @property
    def outside(self) -> Bool[ndarray, " batch"]:
        """Which inputs are unlike what was seen before."""
        return np.max([np.zeros(len(self.u)), *self.beyond.values()], axis=0) > 1.0

    @property
    def missed(self) -> Bool[ndarray, " batch"]:
        """Whose estimated error is above the tolerance, or not known; none where nothing is estimated."""
        return np.zeros(len(self.u), bool) if self.estimate is None else ~(self.estimate <= self.tolerance)

    @property
    def trusted(self) -> Bool[ndarray, " batch"]:
        """Which answers there is no reason to doubt."""
        return ~(self.missed | self.outside | self.foreign)


def open_source(path: Path, problem: Problem | None, estimate: bool | None) -> Source:
    """The operator of a run folder, or of a file that `save` wrote, which needs its problem. Errors are estimated where
    there is a judge, unless told otherwise."""
    run = None
    if path.is_file() or (problem and not path.exists()):
        if problem is None:
            raise ConfigError(f"'{path}' does not say what problem it is of: name that by --problem.")
        operator = load(path, problem)
        known = is_judged(operator)
        if estimate and not known:
            raise ConfigError(f"'{path}' has nothing to judge its answers by: leave out --estimate.")
    else:
        problem, operator = load_operator(path, problem)
        run, known = Run.open(path), (path / JUDGE).exists()
    whole = dataclasses.replace(problem, axes=axes_of(problem))
    return Source(whole, operator, run, known if estimate is None else estimate)


def predict(source: Source, a: Float[ndarray, "batch m"], tolerance: float | None = None) -> Prediction:
    """Answers to the rows of `a`; the operator's own tolerance is taken unless another is given. A run's judge is made
    where there is none."""
    problem, operator, run, judged = source
    measurer, foreign = Measurer(problem), inadmissible(a, problem)
    if not judged:
        u = measurer.solve(operator, a).astype(a.dtype)
        beyond = beyond_training(a, problem, run.config) if run else {}
        return Prediction(u, None, None, None, np.inf, beyond, foreign)
    if run:
        operator = judged_in(run.folder, operator, problem)
    u, errors, estimate, _ = map(
        np.asarray, sharpened(measurer.answer(operator, a), operator, jnp.asarray(a), problem.grid)
    )
    bound = error_bounds(operator.setting, u, a, problem.grid)
    within = operator.tolerance if tolerance is None else tolerance
    # Where all is linear, a large input has the answer to a small one, and as large an error relative to it.
    beyond = {} if operator.judge.plan.setting.all_linear else beyond_trials(a, problem)
    return Prediction(u, errors, estimate, bound if np.any(np.isfinite(bound)) else None, within, beyond, foreign)
