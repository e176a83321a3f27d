"""Whether an input is like those that an operator was trained on: an answer to another is a guess."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from numpy import ndarray

from stablepdenet.attacks import white_noise
from stablepdenet.experiments.config import Config
from stablepdenet.experiments.training import SOLVED, make_program
from stablepdenet.problems import Problem
from stablepdenet.spectral.trials import FEATURES, largest, multiples
from stablepdenet.training.state import streams


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
    return multiples(inputs, largest(seen, problem), problem)
