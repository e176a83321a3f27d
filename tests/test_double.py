"""float64 for all of it, where JAX is set to it."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import stablepdenet as sp
from stablepdenet.auditing import evaluation_inputs
from stablepdenet.operators import BoxFunctions, ConstrainedOperator, LinearOperator
from stablepdenet.spectral import spectral_operator
from stablepdenet.spectral.choose import first_plan
from stablepdenet.spectral.setting import read_setting


@pytest.fixture(autouse=True)
def _double():
    with jax.enable_x64(True):
        yield


def error(operator, problem, count=5):
    a = evaluation_inputs(problem, count)
    u = operator(a, jnp.asarray(problem.grid))
    assert a.dtype == u.dtype == jnp.float64
    return sp.relative_l2(np.asarray(u), problem.reference(np.asarray(a)))


def test_a_solved_operator_is_right_beyond_float32():
    problem = sp.make_problem("poisson")
    # 63 polynomials leave this; float32 rounds at 6e-8.
    assert error(sp.solve(problem), problem) < 1e-8


def test_a_refined_operator_is_right_beyond_float32():
    problem = sp.make_problem("helmholtz-3.5pi")
    functions = BoxFunctions(problem.domain, (41,))
    zero = LinearOperator(np.zeros((10, 41)), np.zeros(41), functions, None)
    assert error(sp.refine(zero, problem, steps=2), problem) < 1e-8


def test_a_spectral_operator_answers_in_float64():
    problem = sp.make_problem("poisson")
    assert error(spectral_operator(first_plan(read_setting(problem))), problem) < 1e-3


def test_training_under_attack_with_an_envelope_stays_in_float64():
    problem = sp.make_problem("poisson", {"interior": 10})
    attack = dataclasses.replace(problem.require_attack(), steps=2)
    ansatz = sp.Ansatz(envelope=lambda points: points * (1.0 - points))
    network = ConstrainedOperator(sp.DeepONet(100, 1, width=8, key=jax.random.key(0)), ansatz)
    sizes: dict[str, Any] = {"functions": 4, "batch": 4, "validation": 2, "validate_every": 4, "refresh": 2}
    found = sp.fit(problem, network, sp.Stable(attack), steps=4, warmup=2, key=jax.random.key(1), **sizes)
    leaves = [leaf for leaf in jax.tree.leaves(found) if isinstance(leaf, jax.Array)]
    assert {leaf.dtype for leaf in leaves} == {np.dtype(np.float64)}
    assert np.isfinite(error(found, problem, 2))


def test_an_audit_sees_more_digits():
    problem = sp.make_problem("helmholtz-3.5pi")
    found = sp.audit({"solved": sp.solve(problem)}, problem, parts=["errors", "lipschitz"], tests=4, eps=[0.05])
    assert found.value("relative_l2", method="solved") < 1e-10
    assert found.value("relative_l2", method="solved", attack="common", setting="0.05") < 1e-10
