"""Whether an input is like those that an operator was trained on: an answer to another one is a guess."""

from __future__ import annotations

import jax
import numpy as np
from jaxtyping import Float
from numpy import ndarray

from stablepdenet.attacks import white_noise
from stablepdenet.config import Config
from stablepdenet.problems import Problem
from stablepdenet.training import SOLVED, Program
from stablepdenet.training.state import streams

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
    program = Program(problem, config)
    seen = np.asarray(program.functions)
    if program.method.perturbed:
        key = streams(jax.random.key(config.seed)).evaluation
        seen = np.concatenate([seen, np.asarray(white_noise(program.attack, program.functions, key=key).inputs)])
    most = [np.max(feature) for feature in _features(seen, problem)]
    return {
        name: feature / bound for name, feature, bound in zip(FEATURES, _features(inputs, problem), most, strict=True)
    }


def _features(a: Float[ndarray, "batch m"], problem: Problem) -> list[Float[ndarray, " batch"]]:
    x = problem.axes[0]
    values = np.asarray(a, np.float64) @ problem.input.matrix(x).T
    slopes = np.gradient(values, x, axis=1)
    return [np.max(np.abs(values), axis=1), *(np.sqrt(np.mean(of**2, axis=1)) for of in (values, slopes))]
