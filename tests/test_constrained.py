"""Hard constraints: Leibniz' rule against automatic differentiation, and constraints that hold whatever is learned."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from stablepdenet import make_problem, points
from stablepdenet.experiments.problems.lifts import evolved_hats, periodic_hats
from stablepdenet.operators import SUM, Ansatz, ConstrainedOperator, DeepONet, Query, nested_derivatives
from stablepdenet.problems.physics import block_norms, residual_map

WORDS = ((), (0,), (1,), (0, 0), (0, 1))


def lift(points):
    return jnp.sin(points[:, :1] * jnp.arange(1, 6)) * jnp.exp(-points[:, 1:])


def envelope(points):
    return points[:, 1:] * points[:, :1] ** 2


ANSATZE = {"both": Ansatz(lift, envelope), "lift": Ansatz(lift), "envelope": Ansatz(None, envelope), "none": Ansatz()}


@pytest.fixture(params=ANSATZE)
def operator(request):
    inner = DeepONet(5, 2, width=8, depth=3, key=jax.random.key(0))
    return ConstrainedOperator(inner, ANSATZE[request.param])


@pytest.mark.parametrize("known", [True, False])
def test_derivatives_are_those_of_the_product(operator, known):
    where = np.random.default_rng(0).uniform(0.1, 1.0, (7, 2))
    a = jax.random.normal(jax.random.key(1), (3, 5))
    expected = nested_derivatives(lambda points: operator(a, points).T, jnp.asarray(where), WORDS)

    def answers(where):
        query = Query(where, ((), (0,)), {(1,): 1.0, (0, 0): -0.5, (): 2.0})
        c, features = operator.coefficients(a), operator.features(query)
        return operator.prepare([query])(a)[0], {word: c @ entry for word, entry in features.items()}

    for found in answers(where) if known else jax.jit(answers)(jnp.asarray(where)):
        assert found.keys() == {(), (0,), SUM}
        combined = expected[(1,)] - 0.5 * expected[(0, 0)] + 2.0 * expected[()]
        for word, want in ((), expected[()]), ((0,), expected[(0,)]), (SUM, combined):
            assert np.allclose(found[word], want.T, atol=2e-5)
    mixed = operator.derivatives(a, jnp.asarray(where), [(0, 1)])[(0, 1)]
    assert np.allclose(mixed, expected[(0, 1)].T, atol=2e-5)


def test_constraints_hold_whatever_the_network_says():
    problem = make_problem("burgers", {"interior": 50, "sides": 20})
    inner = DeepONet(101, 2, width=16, embedding="periodic", key=jax.random.key(2))
    assert problem.ansatz
    operator = ConstrainedOperator(inner, problem.ansatz)
    norms = block_norms(residual_map(operator, problem)(problem.sample(4, key=jax.random.key(3))))
    assert np.all(norms["ic"] < 1e-10)
    assert np.all(norms["bc"] < 1e-8)
    assert np.all(norms["pde"] > 1e-3)


@pytest.mark.parametrize("period", [False, True])
@pytest.mark.long
def test_hats_solve_the_heat_equation(period):
    x = points.uniform(11)
    hats = periodic_hats(0.01, x, until=1.0) if period else evolved_hats(0.01, x)
    where = np.random.default_rng(1).uniform(0.05, 0.95, (40, 2))
    where[:9, 0] = x[1:-1]  # at the kinks too
    with jax.enable_x64(True):
        found = nested_derivatives(hats, jnp.asarray(where), ((1,), (0, 0)))
        assert np.allclose(found[(1,)], 0.01 * found[(0, 0)], atol=1e-10)
        fine = np.linspace(0, 1, 41)
        a = np.random.default_rng(2).normal(size=11)
        a[-1] = a[0]
        start = np.stack([fine, np.zeros(41)], axis=1)
        assert np.allclose(hats(jnp.asarray(start)) @ a, np.interp(fine, x, a), atol=1e-9)
        ends = jnp.asarray([[0.0, 0.7], [1.0, 0.7]])
        if period:
            for word, value in nested_derivatives(hats, ends, ((), (0,))).items():
                left, right = np.asarray(value) @ a
                assert np.allclose(left, right, atol=1e-8), word
