"""The controls of the recipe robust: functions that nobody trained."""

from __future__ import annotations

import importlib
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from stablepdenet import make_problem
from stablepdenet.operators import Query

FOLDER = Path(__file__).parents[1] / "benchmarks"


@pytest.fixture
def controls(monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    return importlib.import_module("controls")


def test_fixed_functions_are_periodic_and_vanish_where_time_begins(controls) -> None:
    functions = controls.fixed(3, 4)
    times = jnp.linspace(0.0, 1.0, 5)
    sides = [functions(jnp.stack([jnp.full_like(times, x), times], axis=1)) for x in (0.0, 1.0)]
    assert sides[0].shape == (5, (2 * 3 + 1) * 4)
    np.testing.assert_allclose(sides[0], sides[1], atol=1e-4)
    x = jnp.linspace(0.0, 1.0, 7)
    assert not np.any(functions(jnp.stack([x, jnp.zeros_like(x)], axis=1)))
    inside = jnp.asarray(np.random.default_rng(0).uniform(size=(200, 2)), jnp.float32)
    assert np.linalg.matrix_rank(np.asarray(functions(inside), np.float64)) == 28


@pytest.mark.long
def test_two_operators_together_are_their_sum(controls) -> None:
    problem = make_problem("burgers")
    first = controls.untrained(problem, 0, {"operator.width": 8})
    rng = np.random.default_rng(1)
    second = controls.at_rest(controls.fixed(2, 2), 10, problem, None)
    second = controls.LinearOperator(rng.normal(size=second.matrix.shape), rng.normal(size=10), second.functions, None)
    both = controls.Together(first, second, problem.inputs.size)
    a, points = problem.sample(3, key=jax.random.key(0)), jnp.asarray(rng.uniform(size=(20, 2)), jnp.float32)
    np.testing.assert_allclose(both(a, points), first(a, points) + second(a, points), rtol=1e-4, atol=1e-4)
    query = Query(points, ((0, 0),))
    (fields,), (one,), (other,) = (operator.prepare([query])(a) for operator in (both, first, second))
    np.testing.assert_allclose(fields[0, 0], one[0, 0] + other[0, 0], rtol=1e-3, atol=1e-2)
    assert both.lifted and controls.own_functions(both, problem) == 9 + 10
    np.testing.assert_array_equal(both.coefficients(a)[:, -problem.inputs.size :], a)


def test_a_pod_of_exact_combinations_reproduces_them(controls) -> None:
    """Answers that need four functions of twenty, of which these four are found."""
    problem = make_problem("burgers")
    rng = np.random.default_rng(2)
    matrix = rng.normal(size=(problem.inputs.size, 4)) @ rng.normal(size=(4, 20))
    assert problem.ansatz
    operator = controls.LinearOperator(matrix, np.zeros(20), controls.fixed(2, 4), problem.ansatz.lift)
    answers = np.asarray(operator.coefficients(problem.sample(12, key=jax.random.key(0))), np.float64)[:, :20]
    found = controls.pod(operator, problem, answers, 4)
    a, points = problem.sample(3, key=jax.random.key(1)), jnp.asarray(problem.grid)[::7]
    answers = np.asarray(operator.coefficients(a)[:, :20] @ operator.functions(points).T, np.float64)
    functions = np.asarray(found.functions(points), np.float64)
    assert found.lifted and controls.own_functions(found, problem) == 4
    left = answers.T - functions @ np.linalg.lstsq(functions, answers.T)[0]
    assert np.linalg.norm(left) < 1e-4 * np.linalg.norm(answers)
    # One function fewer does not.
    left = answers.T - functions[:, :3] @ np.linalg.lstsq(functions[:, :3], answers.T)[0]
    assert np.linalg.norm(left) > 1e-3 * np.linalg.norm(answers)


def test_steepest_inputs_come_first(controls) -> None:
    a = np.array([[0.0, 1.0, 0.0], [0.0, -3.0, 0.0], [2.0, 2.0, 2.0]])
    np.testing.assert_array_equal(controls.steepest(a), [1, 0, 2])
