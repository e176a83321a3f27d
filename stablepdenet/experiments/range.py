"""Whether an input is admissible, and like those that an operator was trained on: an answer to another is a guess."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float
from numpy import ndarray

from stablepdenet.attacks import white_noise
from stablepdenet.experiments.config import Config
from stablepdenet.experiments.training import SOLVED, make_program
from stablepdenet.functions import points
from stablepdenet.problems import Problem
from stablepdenet.spectral import trial_inputs
from stablepdenet.training.state import streams

# Of an input's largest value.
ROUNDING = 1e-5
FEATURES = ("largest value", "root mean square", "roughness")
# Where an input is looked at, about.
PLACES = 101


def beyond_training(
    inputs: Float[ndarray, "batch m"], problem: Problem, config: Config
) -> dict[str, Float[ndarray, " batch"]]:
    """How large each input's largest value, root mean square and slope's root mean square are, as multiples of the
    largest among the training functions; for a method trained on attacks, with noise of their radius on them.

    Above 1, an input lies outside of the training range. One of the training's own kind does so three times in a
    thousand, as there are a thousand functions and three numbers. A solved operator has no such range.
    """
    if config.operator.kind == SOLVED:
        return {name: np.zeros(len(inputs)) for name in FEATURES}
    frame = problem.ansatz.frame if problem.ansatz and config.operator.refinements else None
    if frame:
        # What is left without the mean is what such an operator sees.
        inputs = inputs - np.asarray(frame.means(jnp.asarray(inputs)))[:, None]
    program = make_program(problem, config)
    seen, objective = np.asarray(program.functions), program.objective
    if objective.perturbed and objective.attack is not None:
        noisy = white_noise(objective.attack, program.functions, key=streams(program.key).evaluation)
        seen = np.concatenate([seen, np.asarray(noisy.inputs)])
    return _multiples(inputs, seen, problem)


def beyond_trials(inputs: Float[ndarray, "batch m"], problem: Problem) -> dict[str, Float[ndarray, " batch"]]:
    """The same as multiples of the largest among inputs of the kind that `robust` tries: drawn, with noise, and twice
    as large. Above 1, what estimates errors was not tried on such an input."""
    return _multiples(inputs, np.asarray(trial_inputs(problem, key=jax.random.key(2))), problem)


def inadmissible(inputs: Float[ndarray, "batch m"], problem: Problem) -> Bool[ndarray, " batch"]:
    """Which inputs lie outside of the problem's admissible set, by more than rounding: for them it may have no
    solution, and an operator answers another input."""
    inputs = np.asarray(inputs, jnp.result_type(float))
    off = np.max(np.abs(np.asarray(problem.admissible.snap(jnp.asarray(inputs))) - inputs), axis=1)
    return ~(off <= ROUNDING * np.max(np.abs(inputs), axis=1))


def _multiples(
    inputs: Float[ndarray, "batch m"], seen: Float[ndarray, "seen m"], problem: Problem
) -> dict[str, Float[ndarray, " batch"]]:
    """Each feature of the inputs, over the largest among what was seen."""
    own, bounds = _features(inputs, problem), _features(seen, problem)
    # Of several inputs, the one that is furthest out counts.
    return {
        name: np.max([each / np.max(bound) for each, bound in zip(values, limits, strict=True)], axis=0)
        for name, values, limits in zip(FEATURES, own, bounds, strict=True)
    }


def _features(a: Float[ndarray, "batch m"], problem: Problem) -> list[list[Float[ndarray, " batch"]]]:
    """Each of the features, for each of the problem's inputs."""
    found: list[list[Float[ndarray, " batch"]]] = [[] for _ in FEATURES]
    for name, columns in problem.inputs.slices.items():
        law, values_of = problem.inputs[name], np.asarray(a[:, columns], np.float64)
        intervals = [problem.domain.intervals[i] for i in problem.domain.columns(law.of)]
        each = max(2, round(PLACES ** (1.0 / max(1, len(intervals)))))
        places = (
            points.grid(*(points.uniform(each, interval) for interval in intervals)) if intervals else np.zeros((1, 0))
        )
        values = values_of @ law.matrix(places).T
        slopes = [values_of @ law.matrix(places, (i,)).T for i in range(len(intervals))]
        steepness = np.sqrt(sum(np.mean(slope**2, axis=1) for slope in slopes)) if slopes else np.abs(values[:, 0])
        for feature, value in zip(found, (np.max(np.abs(values), axis=1), _rms(values), steepness), strict=True):
            feature.append(value)
    return found


def _rms(values: Float[ndarray, "batch n"]) -> Float[ndarray, " batch"]:
    return np.sqrt(np.mean(values**2, axis=1))
