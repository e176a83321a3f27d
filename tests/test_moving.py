"""Burgers is Galilean invariant, and so are answers in the moving frame."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from stablepdenet import configure, load_model, make_problem, points, relative_l2
from stablepdenet.auditing import Measurer
from stablepdenet.experiments.range import beyond_training
from stablepdenet.experiments.training import symmetric
from stablepdenet.operators import (
    ConstrainedOperator,
    DeepONet,
    GalileanFrame,
    MovingFrameOperator,
    Query,
    capabilities,
)
from stablepdenet.problems import AbstractReference
from stablepdenet.problems.physics import block_queries
from stablepdenet.refining import refine, warn_unsettled

SMALL = {"interior": 200, "sides": 10}


# What is made once for all of them takes half a minute.
pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def made():
    """A small operator that was not trained, its problem, and inputs of mean zero."""
    problem = make_problem("burgers", SMALL)
    plain = DeepONet(101, 2, width=24, embedding="periodic", key=jax.random.key(0))
    assert problem.ansatz
    operator = symmetric(refine(ConstrainedOperator(plain, problem.ansatz), problem, steps=1), problem)
    return problem, operator, problem.sample(3, key=jax.random.key(1))


def some_points(count):
    return jnp.asarray(points.hammersley(count, [(0, 1), (0, 1)]), jnp.float32)


def test_inputs_of_mean_zero_are_answered_as_without_a_frame(made):
    problem, operator, a = made
    assert isinstance(operator, MovingFrameOperator)
    grid = jnp.asarray(problem.grid)
    assert np.array_equal(problem.ansatz.frame.means(a), [0.0, 0.0, 0.0])
    assert np.allclose(operator(a, grid), operator.operator(a, grid), rtol=0, atol=1e-6)


@pytest.mark.parametrize("mean", [0.3, -1.7])
def test_a_mean_moves_the_answer_and_adds_to_it(made, mean):
    _, operator, a = made
    where = some_points(200)
    moved = where.at[:, 0].set(jnp.mod(where[:, 0] - mean * where[:, 1], 1.0))
    found, wanted = operator(a + mean, where), mean + operator(a, moved)
    # Inputs and points are rounded where the mean is added.
    assert np.allclose(found, wanted, atol=2e-5)


def test_batches_are_mixed_as_one_likes(made):
    _, operator, a = made
    where, mixed = some_points(50), a + jnp.array([[0.0], [0.5], [0.0]])
    one_by_one = jnp.concatenate([operator(row[None], where) for row in mixed])
    assert np.allclose(operator(mixed, where), one_by_one, atol=2e-5)


@pytest.mark.parametrize("mean", [0.0, 0.4])
def test_slopes_in_the_input_are_those_of_differences(made, mean):
    # Also at mean zero, where nothing moves yet: the direction has a mean.
    _, operator, a = made
    where, a = some_points(60), a + mean
    along = 1.0 + jnp.cos(4 * jnp.pi * jnp.asarray(points.uniform(101), jnp.float32))[None] * jnp.ones((3, 1))
    step = 5e-3
    _, slope = jax.jvp(lambda a: operator(a, where), (a,), (along,))
    change = (operator(a + step * along, where) - operator(a - step * along, where)) / (2 * step)
    assert np.linalg.norm(slope - change) < 5e-3 * np.linalg.norm(change)
    weights = jax.random.normal(jax.random.key(2), change.shape)
    backwards = jax.grad(lambda a: jnp.sum(weights * operator(a, where)))(a)
    assert float(jnp.sum(backwards * along)) == pytest.approx(float(jnp.sum(weights * slope)), rel=1e-3)


@pytest.mark.parametrize("mean", [0.0, 0.4])
def test_derivatives_in_the_points_are_those_of_the_moved_answer(made, mean):
    _, operator, a = made
    where = some_points(40)
    words = ((), (0,), (1,), (0, 0))
    moved = where.at[:, 0].set(jnp.mod(where[:, 0] - mean * where[:, 1], 1.0))
    still = operator.operator.prepare([Query(moved, words)])(a)[0]
    found = operator.prepare([Query(where, words)])(a + mean)[0]
    wanted = {**still, (): still[()] + mean, (1,): still[(1,)] - mean * still[(0,)]}
    for word in words:
        assert np.allclose(found[word], wanted[word], atol=1e-3 * np.max(np.abs(wanted[word]))), word


def test_residuals_have_the_gradient_of_the_mean_at_rest(made):
    # The derivative of u_t in the mean is -u_x - t u_xt, which a path that forgets the frame does not have.
    _, operator, a = made
    where, step = some_points(30), 5e-3

    def slope_in_time(a):
        return operator.prepare([Query(where, ((1,),))])(a)[0][(1,)]

    _, found = jax.jvp(slope_in_time, (a,), (jnp.ones_like(a),))
    change = (slope_in_time(a + step) - slope_in_time(a - step)) / (2 * step)
    assert np.linalg.norm(found - change) < 2e-2 * np.linalg.norm(change)


def test_audits_see_an_operator_of_their_own_kind(made, recwarn):
    problem, operator, a = made
    able = capabilities(operator, a, problem.grid, block_queries(problem))
    assert able.inputs and able.points
    asked, grid = jnp.concatenate([a, a + 0.5]), jnp.asarray(problem.grid)
    assert np.allclose(Measurer(problem).solve(operator, np.asarray(asked)), operator(asked, grid), atol=1e-5)
    warn_unsettled(operator, problem)
    inside = [str(found.message) for found in recwarn]
    warn_unsettled(operator.operator, problem)
    assert [str(found.message) for found in recwarn] == 2 * inside


def test_a_symmetry_needs_a_frame_and_changes_no_fingerprint(made):
    problem, operator, _ = made
    bare = dataclasses.replace(problem, ansatz=dataclasses.replace(problem.ansatz, frame=None))
    assert symmetric(operator.operator, bare) is operator.operator
    assert bare.fingerprint == problem.fingerprint


def test_a_mean_alone_is_not_beyond_training(made):
    problem, _, a = made
    for recipe, beyond in (("robust", False), ("paper", True)):
        found = beyond_training(np.asarray(a + 5.0), problem, configure(problem, recipe=recipe))
        assert np.all(found["largest value"] > 1.0) == beyond, recipe


def test_a_period_may_lie_anywhere():
    frame = GalileanFrame(points.trapezoid(points.uniform(5)), (-1.0, 1.0), space=1, time=0)
    where = jnp.array([[0.5, 0.9], [1.0, -0.8]])
    assert np.allclose(frame.inside(frame.moved(where, jnp.asarray(-1.0))), [[0.5, -0.6], [1.0, 0.2]])
    assert np.allclose(frame.means(jnp.array([[1.0, 2.0, 3.0, 2.0, 1.0]])), 2.0)


def test_what_we_recommend_for_burgers_is_as_good_with_a_mean():
    problem, operator = make_problem("burgers"), load_model("burgers", "robust")
    a = problem.sample(50, key=jax.random.key(12))
    axes = (problem.axes[0][::4], problem.axes[1][::4])
    assert isinstance(problem.reference, AbstractReference)
    coarse = dataclasses.replace(problem, axes=axes, reference=problem.reference.on(axes))
    grid = jnp.asarray(coarse.grid)
    solutions = {mean: coarse.require_reference()(np.asarray(a + mean)) for mean in (0.0, 1.0)}
    answers = {mean: np.asarray(operator(a + mean, grid)) for mean in solutions}
    off = {mean: float(np.linalg.norm(answers[mean] - u)) for mean, u in solutions.items()}
    # Not of its own size, to which the mean adds: the error itself is no larger.
    assert off[1.0] < 1.5 * off[0.0]
    assert relative_l2(answers[1.0], solutions[1.0]) < relative_l2(answers[0.0], solutions[0.0]) < 0.01
