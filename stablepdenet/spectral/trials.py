"""Inputs that plans are tried on, and others that are unlike them."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from functools import lru_cache

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PRNGKeyArray
from numpy import ndarray

from stablepdenet.attacks import LinfBall
from stablepdenet.functions import SensorInput, points
from stablepdenet.problems import Problem

# Inputs that are tried: as drawn, with rough noise, and twice as large.
DRAWN, NOISY, DOUBLED = 6, 6, 4
# The noise on the values at sensors, of their mean square over inputs.
NOISE = 0.05
# Of an input's largest value.
ROUNDING = 1e-5
FEATURES = ("largest value", "root mean square", "roughness")
# Where an input is looked at, about.
PLACES = 101
# An input whose features are so many times the largest that were tried is far from them.
FAR = 2.0
# Inputs that a warning names.
NAMED = 5


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


def inadmissible(inputs: Float[ndarray, "batch m"], problem: Problem) -> Bool[ndarray, " batch"]:
    """Which inputs lie outside of the problem's admissible set, by more than rounding: for them it may have no
    solution, and an operator answers another input."""
    inputs = np.asarray(inputs, jnp.result_type(float))
    off = np.max(np.abs(np.asarray(problem.admissible.snap(jnp.asarray(inputs))) - inputs), axis=1)
    return ~(off <= ROUNDING * np.max(np.abs(inputs), axis=1))


def beyond_trials(inputs: Float[ndarray, "batch m"], problem: Problem) -> dict[str, Float[ndarray, " batch"]]:
    """How large each input's largest value, root mean square and slope's root mean square are, as multiples of the
    largest among inputs of the kind that `robust` tries. Above 1, what estimates errors was not tried on such an
    input."""
    return multiples(inputs, _tried(problem), problem)


def multiples(
    inputs: Float[ndarray, "batch m"], seen: Sequence[Float[ndarray, features]], problem: Problem
) -> dict[str, Float[ndarray, " batch"]]:
    """Each feature of the inputs, over the largest that was seen of each of the problem's inputs; of several inputs,
    the one that is furthest out counts."""
    own = [found / bound[:, None] for found, bound in zip(_features(inputs, problem), seen, strict=True)]
    return dict(zip(FEATURES, np.max(own, axis=0), strict=True))


def largest(seen: Float[ndarray, "seen m"], problem: Problem) -> list[Float[ndarray, features]]:
    """The largest of each feature, for each of the problem's inputs."""
    return [np.max(found, axis=1) for found in _features(seen, problem)]


@lru_cache(maxsize=8)
def _tried(problem: Problem) -> list[Float[ndarray, features]]:
    return largest(np.asarray(trial_inputs(problem, key=jax.random.key(2))), problem)


def warn_of_strangers(inputs: Float[Array, "batch m"], problem: Problem, *, linear: bool) -> None:
    """Says which of some inputs are not admissible, or far from all that were tried; where all is linear, a large input
    has the answer to a small one. Inputs of a program that is being traced are not looked at."""
    if isinstance(inputs, jax.core.Tracer):
        return
    a = np.asarray(inputs)
    # The inputs may be known while a program of other arrays is traced.
    with jax.ensure_compile_time_eval():
        foreign = np.flatnonzero(inadmissible(a, problem))
        beyond = {} if linear else beyond_trials(a, problem)
    if len(foreign):
        warnings.warn(
            f"{_rows(foreign, problem)} not admissible: admissible are inputs whose {problem.admissible.condition}. "
            "For others there may be no solution.",
            stacklevel=3,
        )
    far = np.flatnonzero(np.max([np.zeros(len(a)), *beyond.values()], axis=0) > FAR)
    if len(far):
        warnings.warn(
            f"{_rows(far, problem)} more than {FAR:g} times as large, or as rough, as all that were tried: ask "
            "operator.answer for the estimated errors.",
            stacklevel=3,
        )


def _rows(numbers: ndarray, problem: Problem) -> str:
    named = ", ".join(map(str, numbers[:NAMED].tolist())) + (", …" if len(numbers) > NAMED else "")
    one = len(numbers) == 1
    return f"{'Input' if one else 'Inputs'} {named} of '{problem.name}' {'is' if one else 'are'}"


def _features(a: Float[ndarray, "batch m"], problem: Problem) -> list[Float[ndarray, "features batch"]]:
    """The features, for each of the problem's inputs."""
    found = []
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
        found.append(np.stack([np.max(np.abs(values), axis=1), np.sqrt(np.mean(values**2, axis=1)), steepness]))
    return found
