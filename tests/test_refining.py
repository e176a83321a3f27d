"""Refining: Gauss-Newton steps at inference, checked against least squares by hand."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from stablepdenet import audit, load_model, make_problem, refine
from stablepdenet.physics import block_residuals, physics_loss, residual_map


def error(operator, problem, a):
    u = problem.reference(np.asarray(a))
    return np.linalg.norm(np.asarray(operator(a, jnp.asarray(problem.grid))) - u) / np.linalg.norm(u)


@pytest.fixture(scope="module")
def poisson():
    problem = make_problem("poisson")
    return problem, load_model("poisson", "pi")


def test_a_plain_operator_becomes_accurate_and_stable(poisson):
    problem, plain = poisson
    refined = refine(plain, problem)
    a = problem.sample(50, key=jax.random.key(4))
    rough = a + 0.05 * jax.random.rademacher(jax.random.key(5), a.shape)
    for inputs in (a, rough):
        assert error(refined, problem, inputs) < 0.05 * error(plain, problem, inputs)
    # Its own worst case is found by gradients through the step.
    found = audit({"pi": plain, "refined": refined}, problem, parts=["errors", "attacks"], tests=10, eps=[0.05])
    worst = [found.value("relative_l2", method=name, attack="whitebox", setting="0.05") for name in ("pi", "refined")]
    assert worst[1] < 0.1 * worst[0]
    assert worst[1] >= found.value("relative_l2", method="refined", attack="common", setting="0.05")


def test_one_step_is_the_least_squares_solution_of_a_linear_problem(poisson):
    problem, plain = poisson
    refined = refine(plain, problem)
    a = problem.sample(20, key=jax.random.key(6))

    def loss(operator):
        return np.asarray(physics_loss(residual_map(operator, problem)(a), problem))

    assert np.all(loss(refined) < loss(plain))
    # A second step finds nothing more, up to rounding.
    assert np.allclose(loss(refine(plain, problem, steps=2)), loss(refined), rtol=1e-2, atol=1e-7)
    # By hand, in float64: no combination of the directions lowers the loss further.
    step = 1e-3 * jax.random.normal(jax.random.key(7), (refined.directions.shape[1],))
    moved = refined.coefficients(a) + refined.directions @ step
    rows = [jnp.sqrt(b.weight / len(b.points)) for b in problem.blocks]
    fields = [{word: moved @ entry for word, entry in f.items()} for f in refined.features]
    found = block_residuals(problem)(fields, a)
    shifted = sum(
        np.sum((np.asarray(found[b.name]) * w) ** 2, axis=1) for b, w in zip(problem.blocks, rows, strict=True)
    )
    assert np.all(shifted > loss(refined))


def test_steps_lower_the_loss_of_a_nonlinear_problem():
    problem = make_problem("burgers")
    plain = load_model("burgers", "pi")
    a = problem.sample(3, key=jax.random.key(8))
    losses = []
    for operator in (plain, refine(plain, problem), refine(plain, problem, steps=3)):
        losses.append(float(jnp.mean(physics_loss(residual_map(operator, problem)(a), problem))))
    assert losses[1] < 0.7 * losses[0]
    assert losses[2] <= losses[1]
