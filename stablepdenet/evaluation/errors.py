"""Relative errors, clean and under the common perturbation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray
from numpy import ndarray

from stablepdenet.attacks import AbstractPGD
from stablepdenet.errors import ConfigError
from stablepdenet.operators import AbstractOperator, Query
from stablepdenet.problems import Problem

# The test inputs are the same for every seed and method, and independent of every training set.
TEST_SEED = 20_260_101
# Inputs evaluated at once: bounds the memory on space-time grids.
CHUNK = 200

EvaluationRow = dict[str, str | float]


def evaluation_inputs(problem: Problem, num: int | None = None) -> Float[Array, "num m"]:
    """The problem's test inputs; fewer than the paper's number are its first ones."""
    return problem.sample(problem.tests, key=jax.random.key(TEST_SEED))[:num]


def relative_l2(prediction: Float[ndarray, "batch n"], reference: Float[ndarray, "batch n"]) -> float:
    """sqrt(sum |u - S|^2 / sum |S|^2), pooled over the test set as the paper's numbers are."""
    difference = np.asarray(prediction, np.float64) - reference
    return float(np.sqrt(np.sum(difference**2) / np.sum(reference**2)))


def predict(operator: AbstractOperator, problem: Problem, a: Float[Array, "batch m"]) -> Float[ndarray, "batch n"]:
    """The operator's solutions on the problem's evaluation grid."""
    # Not compiled: an operator may be any Python function.
    points = jnp.asarray(problem.grid)
    return np.concatenate([np.asarray(operator(part, points)) for part in _chunks(a)])


def common_perturbation(
    operator: AbstractOperator, problem: Problem, a: Float[Array, "batch m"], attack: AbstractPGD, *, key: PRNGKeyArray
) -> Float[Array, "batch m"]:
    """a + delta_com: maximises MSE(G(a + delta) - S(a)) over the attack's set, for the baseline G (eq:test-attack)."""
    evaluate = operator.on([Query(jnp.asarray(problem.grid), ((),))])

    @jax.jit
    def perturb(
        part: Float[Array, "chunk m"], solution: Float[Array, "chunk n"], key: PRNGKeyArray
    ) -> Float[Array, "chunk m"]:
        def objective(a: Float[Array, "chunk m"]) -> Float[Array, " chunk"]:
            return jnp.mean((evaluate(a)[0][()] - solution) ** 2, axis=1)

        return attack(objective, part, key=key).inputs

    parts = []
    for number, part in enumerate(_chunks(a)):
        solution = jnp.asarray(problem.reference(np.asarray(part)), part.dtype)
        parts.append(perturb(part, solution, jax.random.fold_in(key, number)))
    return jnp.concatenate(parts)


def common_attack_errors(
    operators: Mapping[str, AbstractOperator],
    problem: Problem,
    attacks: Sequence[AbstractPGD],
    *,
    source: str = "pi",
    num: int | None = None,
    key: PRNGKeyArray,
) -> list[EvaluationRow]:
    """Relative L2 errors of all operators on clean inputs, and on one perturbation per attack found against `source`.

    The reference is solved again for the perturbed inputs.
    """
    if attacks and source not in operators:
        raise ConfigError(
            f"The common perturbation is found against '{source}', which is not among {', '.join(operators)}."
        )
    clean = evaluation_inputs(problem, num)
    settings = [("none", 0.0, clean)]
    for attack in attacks:
        settings.append(("common", attack.eps, common_perturbation(operators[source], problem, clean, attack, key=key)))
    rows: list[EvaluationRow] = []
    for name, eps, inputs in settings:
        solution = problem.reference(np.asarray(inputs))
        for method, operator in operators.items():
            value = relative_l2(predict(operator, problem, inputs), solution)
            rows.append(
                {
                    "problem": problem.name,
                    "method": method,
                    "attack": name,
                    "eps": eps,
                    "metric": "relative_l2",
                    "value": value,
                }
            )
    return rows


def _chunks(a: Float[Array, "batch m"]) -> Iterator[Float[Array, "chunk m"]]:
    for start in range(0, len(a), CHUNK):
        yield a[start : start + CHUNK]
