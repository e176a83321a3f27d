"""Measures and metrics against cases worked by hand."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from audit_cases import ERRORS, SYMBOL, Modal, exact_operator, modal_case

from stablepdenet.auditing import (
    Measurer,
    Perturber,
    dense_lipschitz,
    evaluation_inputs,
    exact_lipschitz,
    local_lipschitz,
    metrics,
    relative_l2,
    setting_of,
)
from stablepdenet.auditing.inputs import Case, clean_case, finer, thinner
from stablepdenet.auditing.misfit import DirectMisfit, FactoredMisfit, misfit
from stablepdenet.auditing.unseen import coarsened, field_case
from stablepdenet.experiments.problems import PROBLEMS, make_problem
from stablepdenet.experiments.report import paper
from stablepdenet.experiments.solvers.helmholtz import lipschitz_constant
from stablepdenet.operators import DeepONet, FunctionOperator
from stablepdenet.problems import LinearReference


def measured(operator, problem, case):
    return Measurer(problem).measure({"model": operator}, case, residuals={"model": True})["model"]


def test_the_error_is_pooled():
    # A mean of per-sample ratios would give (1 + 0.1) / 2.
    reference = np.array([[1.0], [10.0]])
    prediction = np.array([[2.0], [11.0]])
    assert np.isclose(relative_l2(prediction, reference), np.sqrt(2 / 101))


def test_an_operator_asked_again_answers_as_at_first():
    problem, case = modal_case()
    measurer, exact, wrong = Measurer(problem), Modal(0 * ERRORS), Modal(ERRORS)
    first = [measurer.solve(operator, case.inputs) for operator in (exact, wrong)]
    again = [measurer.solve(operator, case.inputs) for operator in (exact, exact, wrong)]
    assert np.array_equal(again, [first[0], first[0], first[1]])
    assert (
        relative_l2(first[0], problem.require_reference()(case.inputs)) < 1e-5 < 0.01 < relative_l2(first[1], first[0])
    )


def test_every_metric_of_a_diagonal_error_is_known():
    # u = sum_n (1 + e_n) c_n phi_n / s_n against S = sum_n c_n phi_n / s_n with s_n = (n pi)^2 - kappa^2: by Parseval
    # all norms are norms of coefficients; means over the 257 grid points, both ends included, carry a factor 256/257.
    problem, case = modal_case()
    found = metrics(measured(Modal(ERRORS), problem, case))
    c, delta = case.inputs.astype(float), (case.inputs - case.base).astype(float)
    size, ends = np.linalg.norm(delta, axis=1), np.sqrt(256 / 257)
    error, true = np.linalg.norm(ERRORS * c / SYMBOL, axis=1), np.linalg.norm(c / SYMBOL, axis=1)
    gains = {
        "kappa_S": ends * np.linalg.norm(delta / SYMBOL, axis=1) / size,
        "kappa_G": ends * np.linalg.norm((1 + ERRORS) * delta / SYMBOL, axis=1) / size,
        "kappa_E": ends * np.linalg.norm(ERRORS * delta / SYMBOL, axis=1) / size,
        # The PDE residual is sum_n e_n c_n phi_n, its mean square at midpoints is exact; the ends contribute nothing.
        "kappa_r": np.linalg.norm(ERRORS * delta, axis=1) / size,
    }
    expected = {"relative_l2": np.sqrt(np.sum(error**2) / np.sum(true**2))}
    for name, gain in gains.items():
        expected[name] = np.sqrt(np.sum((gain * size) ** 2) / np.sum(size**2))
    inner = np.sum((1 + ERRORS) * (delta / SYMBOL) ** 2, axis=1)
    lengths = [(gains[name] * size / ends) ** 2 for name in ("kappa_G", "kappa_S")]
    angle = np.degrees(np.arccos(inner / np.sqrt(lengths[0] * lengths[1])))
    expected["angle"] = np.degrees(np.arccos(inner.sum() / np.sqrt(lengths[0].sum() * lengths[1].sum())))
    for name, values in {"relative_l2": error / true, **gains, "angle": angle}.items():
        expected |= {f"{name}_mean": values.mean(), f"{name}_median": np.median(values)}
        expected |= {f"{name}_p95": np.percentile(values, 95), f"{name}_p99": np.percentile(values, 99)}
        expected[f"{name}_max"] = max(values)
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        assert np.isclose(found[name], value, rtol=2e-4), (name, found[name], value)


def test_equal_gains_do_not_hide_an_opposite_response():
    problem, case = modal_case()
    found = metrics(measured(Modal(np.full(10, -2.0)), problem, case))
    assert np.isclose(found["kappa_G"], found["kappa_S"], rtol=1e-5)
    assert np.isclose(found["kappa_E"], 2 * found["kappa_S"], rtol=1e-5)
    assert np.isclose(found["angle"], 180, atol=0.1)


def test_an_operator_that_does_not_respond_is_at_a_right_angle():
    problem, case = modal_case()
    found = metrics(measured(Modal(np.full(10, -1.0)), problem, case))
    assert found["kappa_G"] == 0 and found["angle"] == 90


@pytest.mark.parametrize("kappa", [3.5 * np.pi, 3 * np.pi + 0.5, 3 * np.pi + 0.1])
def test_lipschitz_constants_of_a_diagonal_operator_are_its_largest_gain(kappa):
    problem = make_problem("helmholtz", {"kappa": kappa})
    symbol = (np.pi * np.arange(1, 11)) ** 2 - kappa**2
    a = np.asarray(evaluation_inputs(problem, 5))
    operator = Modal(ERRORS, kappa=kappa)
    assert np.allclose(local_lipschitz(operator, problem, a), np.abs((1 + ERRORS) / symbol).max(), rtol=1e-5)
    exact = exact_lipschitz(problem, a)
    assert exact is not None and np.allclose(exact, lipschitz_constant(kappa, 10), rtol=1e-12)


@pytest.mark.parametrize("name", ["poisson", "heat", "burgers", "helmholtz"])
def test_structured_and_dense_lipschitz_constants_agree(name):
    problem = make_problem(name)
    a = np.asarray(evaluation_inputs(problem, 3))
    operator = DeepONet(problem.inputs.size, problem.domain.dimension, key=jax.random.key(1))
    dense = dense_lipschitz(operator, problem, a)
    assert np.allclose(local_lipschitz(operator, problem, a), dense, rtol=1e-5)
    # An operator of unknown structure takes the dense way.
    assert np.allclose(local_lipschitz(FunctionOperator(operator.__call__), problem, a), dense, rtol=1e-6)


def test_sensor_inputs_are_measured_in_their_normalised_norm():
    # S = (a_0 + ... + a_99) / 100 everywhere: the mean of a has at most the root mean square of a.
    problem = make_problem("poisson")
    operator = FunctionOperator(lambda a, p: jnp.mean(a, axis=1, keepdims=True) * jnp.ones(len(p)))
    assert np.allclose(local_lipschitz(operator, problem, np.zeros((2, 100), np.float32)), 1.0, rtol=1e-5)


def test_the_exact_burgers_constant_is_the_largest_response_to_a_small_perturbation():
    problem = make_problem("burgers")
    a = np.asarray(evaluation_inputs(problem, 1), np.float64)
    exact = exact_lipschitz(problem, a)
    assert exact is not None
    constant = exact[0]
    rng, step = np.random.default_rng(0), 1e-5
    for _ in range(5):
        delta = rng.normal(size=(1, 101)).cumsum(axis=1)
        delta = step * (delta - np.linspace(delta[0, 0], delta[0, -1], 101))
        change = (problem.require_reference()(a + delta) - problem.require_reference()(a)).reshape(101, 101)
        weights = np.full(101, 0.01) * np.where(np.isin(np.arange(101), [0, 100]), 0.5, 1.0)
        response = np.sqrt(weights @ change**2 @ weights)
        assert response <= constant * np.sqrt(np.mean(delta**2))


@pytest.mark.parametrize("name", ["poisson", "helmholtz"])
def test_the_factored_misfit_is_the_direct_one(name):
    problem = make_problem(name)
    operator = DeepONet(problem.inputs.size, 1, key=jax.random.key(1))
    factored = misfit(operator, problem)
    assert isinstance(problem.reference, LinearReference)
    direct = DirectMisfit(operator, jnp.asarray(problem.grid), problem.reference)
    assert isinstance(factored, FactoredMisfit)
    a, b = jnp.split(evaluation_inputs(problem, 6), 2)
    solution = jnp.asarray(problem.require_reference()(np.asarray(b)), jnp.float32)
    assert np.allclose(factored.fixed(a, factored.target(b, solution)), direct.fixed(a, solution), rtol=1e-4)
    assert np.allclose(factored.moving(a), direct.moving(a), rtol=1e-4)


def test_the_common_perturbation_maximises_the_clean_reference_discrepancy():
    # For G = 2 S it is ||S(a) + 2 S(delta)||. Green's function is positive, so for a > 0 the best is delta = eps.
    problem = make_problem("poisson")
    reference = problem.reference
    assert isinstance(reference, LinearReference)
    doubled = FunctionOperator(lambda a, p: 2 * reference.traced(a))
    perturbed = Perturber(problem).common(doubled, np.ones((3, 100), np.float32), 0.05, key=jax.random.key(0))
    # The end sensors barely matter to u, but their gradient has a sign as well.
    assert np.allclose(perturbed, 1.05, atol=1e-6)


def test_measuring_in_chunks_is_measuring_at_once():
    problem = make_problem("poisson")
    a = np.asarray(evaluation_inputs(problem, 450))
    everything = measured(exact_operator(problem, 1.2), problem, clean_case(jnp.asarray(a)))
    assert everything.error.shape == (450,)
    assert np.allclose(np.sqrt(everything.error / everything.solution), 0.2, rtol=1e-4)


def test_truth_may_be_finer_than_what_an_operator_sees():
    # The operator solves exactly what it is given: its error is that of the data.
    problem = make_problem("poisson")
    fine = np.asarray(evaluation_inputs(problem, 20))
    coarse = coarsened(fine, problem.inputs)
    assert coarse is not None
    found = metrics(measured(exact_operator(problem), problem, Case("none", "coarse", coarse, fine)))
    expected = relative_l2(problem.require_reference()(coarse), problem.require_reference()(fine))
    assert 1e-6 < expected < 1e-2
    assert np.isclose(found["relative_l2"], expected, rtol=0.05)


@pytest.mark.parametrize("name", PROBLEMS)
def test_rougher_fields_vary_faster_and_keep_their_size(name):
    problem = make_problem(name)
    x = np.linspace(0, 1, 200)
    variation, size = {}, {}
    for kind in ("rough", "smooth"):
        values = field_case(problem, kind, 500).inputs @ problem.inputs["a"].matrix(x).T
        size[kind] = np.sqrt(np.mean(values**2))
        variation[kind] = np.sqrt(np.mean(np.diff(values, axis=1) ** 2)) / size[kind]
    assert variation["rough"] > 1.2 * variation["smooth"]
    assert 0.5 < size["rough"] / size["smooth"] < 2


@pytest.mark.parametrize("name", ["poisson", "heat", "burgers"])
def test_other_grids_hold_the_same_solution(name):
    problem = make_problem(name)
    a = np.asarray(evaluation_inputs(problem, 2))
    whole = problem.require_reference()(a).reshape(2, *map(len, problem.axes))
    refined, thinned = finer(problem), thinner(problem)
    assert refined
    every_other = (slice(None), *(slice(None, None, 2) for _ in problem.axes))
    assert np.allclose(
        refined.require_reference()(a).reshape(2, *map(len, refined.axes))[every_other], whole, atol=1e-12
    )
    assert all(10 < len(axis) <= 33 for axis in thinned.axes)
    kept = np.ix_(np.arange(2), *(np.searchsorted(*pair) for pair in zip(problem.axes, thinned.axes, strict=True)))
    assert np.allclose(thinned.require_reference()(a).reshape(2, *map(len, thinned.axes)), whole[kept], atol=1e-12)


def test_a_plain_reference_knows_one_grid():
    problem = dataclasses.replace(make_problem("poisson"), reference=lambda a: a)
    assert finer(problem) is None
    assert thinner(problem) is problem


def test_evaluation_inputs_are_fixed_and_nested():
    problem = make_problem("burgers")
    assert len(evaluation_inputs(problem)) == 1000
    assert np.array_equal(evaluation_inputs(problem, 5), evaluation_inputs(problem)[:5])


def test_settings_read_like_the_papers():
    assert [setting_of(eps) for eps in (0.05, 0.1, 0.125, 0.2, 1e-5)] == ["0.05", "0.10", "0.125", "0.20", "1e-05"]


def test_the_papers_numbers_are_at_hand():
    assert paper.printed("poisson", "stable", "none", "clean", "relative_l2") == 0.014940
    assert paper.printed("heat", "pi", "common", "0.10", "relative_l2") == 1.063989
    assert paper.printed("helmholtz", "pi", "none", "clean", "relative_l2") is None
    assert paper.printed("poisson", "pi", "common", "0.20", "relative_l2") is None
