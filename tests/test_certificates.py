"""Certificates against brute force: never below what any search finds, and equal to it where the ball is round."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from stablepdenet import audit, evaluation_inputs, make_problem, solve
from stablepdenet.attacks import PGD, BandLimitedBall
from stablepdenet.auditing.certificates import _dual, certify, error_operator
from stablepdenet.experiments.report.tables import print_audit
from stablepdenet.functions.domain import Box
from stablepdenet.operators import Ansatz, BoxFunctions


def coarse(problem, degree):
    """A linear operator with an error that can be seen."""
    return solve(
        dataclasses.replace(
            problem, ansatz=Ansatz(features=BoxFunctions(Box(x=(0, 1)), (degree,))), refinement_blocks=()
        )
    )


@pytest.mark.parametrize("hard", [False, True])
def test_the_dual_is_the_maximum_over_the_ball(hard):
    rng = np.random.default_rng(0)
    matrix, at = rng.normal(size=(6, 2)), rng.normal(size=(1, 6))
    if hard:  # no slope along the steepest direction
        _, _, right = np.linalg.svd(matrix)
        at = at - (at @ matrix @ right[0]) / np.linalg.norm(matrix @ right[0]) ** 2 * (matrix @ right[0])
    values, vectors = np.linalg.eigh(matrix.T @ matrix)
    found = _dual(values, at @ matrix @ vectors, np.sum(at**2, axis=1), np.array([0.49]))
    angles = np.linspace(0, 2 * np.pi, 20001)
    circle = 0.7 * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    brute = np.max(np.sum((at + circle @ matrix.T) ** 2, axis=1))
    assert found[0] >= brute - 1e-9
    assert found[0] == pytest.approx(brute, rel=1e-6)


def test_the_worst_case_in_l2_is_reached():
    problem = make_problem("helmholtz-3.5pi", {"interior": 200})
    operator = coarse(problem, 16)
    found = audit({"own": operator}, problem, parts=["errors", "attacks", "certificates"], tests=10, eps=[0.1])
    certified, whitebox = (
        found.value("relative_l2", method="own", attack=attack, setting="0.10") for attack in ("certified", "whitebox")
    )
    assert found.value("reached_min", method="own", attack="certified", setting="0.10") > 0.99
    assert whitebox <= certified
    assert found.value("reached_mean", method="own", attack="certified", setting="0.10") <= 1.0
    mean = found.value("relative_l2_mean", method="own", attack="whitebox", setting="0.10")
    assert 0.9 < mean / found.value("ratio_mean", method="own", attack="certified", setting="0.10") <= 1.0


def test_no_corner_of_the_cube_is_worse_than_its_bound():
    problem = make_problem("poisson", {"sensors": 8, "interior": 60})
    operator = coarse(problem, 6)
    error, solution = error_operator(operator, problem)
    a = np.asarray(evaluation_inputs(problem, 5), np.float64)
    found = certify(operator, problem, a, 0.1)
    signs = 1.0 - 2.0 * ((np.arange(256)[:, None] >> np.arange(8)) & 1)
    for row, worst, ratio, least in zip(a, found.error, found.ratio, found.solution, strict=True):
        corner = row + 0.1 * signs
        e, s = np.linalg.norm(error(corner), axis=1), np.linalg.norm(solution(corner), axis=1)
        assert 0.6 * worst < e.max() <= worst
        assert np.max(e / s) <= ratio
        assert np.all(s >= least)


def test_an_input_without_a_solution_has_no_relative_bound():
    problem = make_problem("poisson", {"sensors": 20})
    operator, a = solve(problem), np.asarray(evaluation_inputs(make_problem("poisson", {"sensors": 20}), 3), float)
    alone = certify(operator, problem, a, 0.05)
    beside = certify(operator, problem, np.concatenate([a, 0.0 * a[:1]]), 0.05)
    assert np.allclose(alone.ratio, beside.ratio[:3])
    assert np.isinf(beside.ratio[3])


def test_rounding_is_allowed_for():
    problem = make_problem("helmholtz-3.5pi")
    operator = solve(problem)
    found = audit({"own": operator}, problem, parts=["errors", "attacks", "certificates"], tests=10, eps=[0.05])
    certified, whitebox = (
        found.value("relative_l2", method="own", attack=attack, setting="0.05") for attack in ("certified", "whitebox")
    )
    assert whitebox <= certified < 1e-4
    assert found.value("reached_mean", method="own", attack="certified", setting="0.05") <= 1.0
    exact, rounding = (
        found.value(part, method="own", attack="certified", setting="0.05") for part in ("exact", "rounding")
    )
    assert exact < 0.1 * rounding and max(exact, rounding) <= certified <= exact + rounding
    assert any("rounding bound" in note for note in found.notes)


def test_a_bound_that_says_nothing_is_called_so(capsys):
    problem = make_problem("poisson", {"sensors": 8, "interior": 60})
    found = audit({"own": coarse(problem, 6)}, problem, parts=["errors", "certificates"], tests=10, eps=[0.05, 2.0])
    assert found.value("useless", method="own", attack="certified", setting="2.00") == 1.0
    assert found.value("useless", method="own", attack="certified", setting="0.05") < 1.0
    assert any("2.00: the certificate is no useful bound" in note for note in found.notes)
    assert any("2.00: 10 of 10 inputs have no useful bound" in note for note in found.notes)
    assert not any("0.05: the certificate" in note for note in found.notes)
    print_audit(found.rows, "poisson", ["0.05", "2.00"])
    assert "no useful bound" in capsys.readouterr().out


def test_sensor_values_have_a_round_ball_too():
    problem = make_problem("poisson")
    problem = dataclasses.replace(problem, attack=PGD(BandLimitedBall(0.05, problem.inputs["a"], 10)))
    operator = coarse(problem, 5)
    found = audit({"own": operator}, problem, parts=["errors", "certificates"], tests=5, eps=[0.05])
    assert found.value("reached_min", method="own", attack="certified", setting="0.05") > 0.99
    assert found.value("reached_mean", method="own", attack="certified", setting="0.05") <= 1.0
