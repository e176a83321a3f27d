"""Whether an input is admissible, and like those that an operator was trained on: an answer to another is a guess."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float
from numpy import ndarray

from stablepdenet.attacks import white_noise
from stablepdenet.config import Config
from stablepdenet.problems import Problem
from stablepdenet.training import SOLVED, Program
from stablepdenet.training.state import streams

# Of an input's largest value.
ROUNDING = 1e-5
FEATURES = ("largest value", "root mean square", "roughness")


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
    program = Program(problem, config)
    seen = np.asarray(program.functions)
    if program.method.perturbed:
        key = streams(jax.random.key(config.seed)).evaluation
        seen = np.concatenate([seen, np.asarray(white_noise(program.attack, program.functions, key=key).inputs)])
    most = [np.max(feature) for feature in _features(seen, problem)]
    return {
        name: feature / bound for name, feature, bound in zip(FEATURES, _features(inputs, problem), most, strict=True)
    }


def inadmissible(inputs: Float[ndarray, "batch m"], problem: Problem) -> Bool[ndarray, " batch"]:
    """Which inputs lie outside of the problem's admissible set, by more than rounding: for them it may have no
    solution, and an operator answers another input."""
    inputs = np.asarray(inputs, np.float32)
    off = np.max(np.abs(np.asarray(problem.attack.admissible.snap(jnp.asarray(inputs))) - inputs), axis=1)
    return ~(off <= ROUNDING * np.max(np.abs(inputs), axis=1))


def _features(a: Float[ndarray, "batch m"], problem: Problem) -> list[Float[ndarray, " batch"]]:
    x = problem.axes[0]
    values = np.asarray(a, np.float64) @ problem.input.matrix(x).T
    slopes = np.gradient(values, x, axis=1)
    return [np.max(np.abs(values), axis=1), *(np.sqrt(np.mean(of**2, axis=1)) for of in (values, slopes))]
