"""Errors against cases worked by hand."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

from stablepdenet.evaluation import common_attack_errors, common_perturbation, evaluation_inputs, predict, relative_l2
from stablepdenet.operators import FunctionOperator
from stablepdenet.problems import make_problem
from stablepdenet.report import paper


def _scaled(problem, factor):
    """factor * S, from the response matrix; points are the evaluation grid."""
    matrix = jnp.asarray(problem.reference.matrix)
    return FunctionOperator(lambda a, p: factor * a @ matrix.T)


def test_the_error_is_pooled():
    # A mean of per-sample ratios would give (1 + 0.1) / 2.
    reference = np.array([[1.0], [10.0]])
    prediction = np.array([[2.0], [11.0]])
    assert np.isclose(relative_l2(prediction, reference), np.sqrt(2 / 101))


def test_a_scaled_exact_operator_has_its_scale_as_error_under_every_perturbation():
    problem = make_problem("poisson")
    operators = {"pi": _scaled(problem, 1.2), "stable": _scaled(problem, 0.9)}
    attack = dataclasses.replace(problem.attack, eps=0.1)
    rows = common_attack_errors(operators, problem, [attack], num=300, key=jax.random.key(0))
    assert {(r["method"], r["attack"], r["eps"]) for r in rows} == {
        (m, a, e) for m in ("pi", "stable") for a, e in (("none", 0.0), ("common", 0.1))
    }
    # The reference is solved again at a + delta: otherwise the perturbed rows could not be the scale again.
    for row in rows:
        assert np.isclose(row["value"], {"pi": 0.2, "stable": 0.1}[row["method"]], rtol=1e-4)


def test_the_common_perturbation_maximises_the_clean_reference_discrepancy():
    # For G = 2 S it is ||S(a) + 2 S(delta)||. Green's function is positive, so for a > 0 the best is delta = eps.
    problem = make_problem("poisson")
    a = jnp.ones((3, 100))
    perturbed = common_perturbation(_scaled(problem, 2.0), problem, a, problem.attack, key=jax.random.key(0))
    # The end sensors barely matter to u, but their gradient has a sign as well.
    assert np.allclose(perturbed, 1.05, atol=1e-6)


def test_a_classical_solver_in_numpy_is_an_operator():
    problem = make_problem("poisson")
    solver = FunctionOperator(lambda a, p: problem.reference(np.asarray(a)))
    rows = common_attack_errors({"pi": solver}, problem, [], num=10, key=jax.random.key(0))
    # float32 rounding of an operator's output.
    assert rows[0]["value"] < 1e-6


def test_evaluation_inputs_are_fixed_and_nested():
    problem = make_problem("burgers")
    assert len(evaluation_inputs(problem)) == 1000
    assert np.array_equal(evaluation_inputs(problem, 5), evaluation_inputs(problem)[:5])


def test_prediction_in_chunks_is_prediction_at_once():
    problem = make_problem("poisson")
    a = evaluation_inputs(problem, 450)
    assert np.allclose(predict(_scaled(problem, 1.0), problem, a), problem.reference(np.asarray(a)), atol=1e-6)


def test_the_papers_numbers_are_at_hand():
    assert paper.relative_l2("poisson", "stable", 0.0) == 0.014940
    assert paper.relative_l2("heat", "pi", 0.10) == 1.063989
    assert paper.relative_l2("helmholtz", "pi", 0.0) is None
    assert paper.relative_l2("poisson", "pi", 0.2) is None
