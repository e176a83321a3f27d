"""The defences that StablePDENet is compared with, against cases worked by hand."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from training_cases import setup

from stablepdenet import PGD, LinfBall, train
from stablepdenet.errors import ConfigError
from stablepdenet.experiments.problems import make_problem
from stablepdenet.experiments.training import initial_state, make_program
from stablepdenet.operators import DeepONet, FunctionOperator
from stablepdenet.problems.physics import physics_loss, residual_map
from stablepdenet.training.objectives import (
    OTHERS,
    Batch,
    Clean,
    Increment,
    Jacobian,
    OneStep,
    Spectral,
    Stable,
    Tangent,
    Trades,
)
from stablepdenet.training.objectives.spectral import spectral_norm

ZERO = jnp.zeros(())
ATTACK = PGD(LinfBall(0.05))


@pytest.fixture
def case():
    problem = make_problem("poisson", {"interior": 20})
    operator = DeepONet(100, 1, width=16, key=jax.random.key(0))
    clean = problem.sample(5, key=jax.random.key(1))
    return problem, operator, Batch(clean, clean + 0.05 * jnp.sign(jax.random.normal(jax.random.key(2), clean.shape)))


def follower(gain):
    """u = gain a(0) everywhere: an increment of `gain d` for a constant perturbation d."""
    return FunctionOperator(lambda a, p: gain * a[:, :1] * jnp.ones(len(p)))


@pytest.mark.parametrize("kind", [Increment, Jacobian])
def test_gains_of_the_prediction(case, kind):
    (problem, _, batch), method = case, kind(ATTACK, tau=0.0)
    moved = Batch(batch.clean, batch.clean + 0.05)
    assert np.isclose(method.terms(follower(3.0), problem, moved, ZERO).sensitivity, 9.0, rtol=1e-4)


def test_trades_matches_outputs_and_trains_on_clean_inputs(case):
    problem, operator, batch = case
    moved = Batch(batch.clean, batch.clean + 0.05)
    assert np.isclose(Trades(ATTACK).terms(follower(3.0), problem, moved, ZERO).sensitivity, 9.0 * 0.05**2, rtol=1e-4)
    clean = Clean().terms(operator, problem, batch, ZERO)
    for method in (Trades(ATTACK), Jacobian(ATTACK), Spectral(ATTACK)):
        assert np.isclose(method.terms(operator, problem, batch, ZERO).loss, clean.loss, rtol=1e-6)


def test_the_attack_of_trades_moves_outputs_and_that_of_others_the_residual(case):
    problem, operator, batch = case
    target = Trades(ATTACK).target(operator, problem, batch.clean)
    assert np.allclose(target(batch.clean), 0.0)
    points = jnp.concatenate([jnp.asarray(block.points, jnp.float32) for block in problem.blocks])
    change = operator(batch.attacked, points) - operator(batch.clean, points)
    assert np.allclose(target(batch.attacked), jnp.mean(change**2, axis=1), rtol=1e-4)
    loss = physics_loss(residual_map(operator, problem)(batch.attacked), problem)
    assert np.allclose(Stable(ATTACK).target(operator, problem, batch.clean)(batch.attacked), loss, rtol=1e-5)


def test_the_tangent_is_the_limit_of_the_quotient(case):
    problem, operator, batch = case
    with jax.enable_x64(True):
        operator = jax.tree.map(lambda leaf: leaf.astype(jnp.float64), operator)
        attacked, delta = (leaf.astype(jnp.float64) for leaf in (batch.attacked, batch.attacked - batch.clean))
        near = Batch(attacked - 1e-5 * delta, attacked)
        difference = Stable(ATTACK, tau=0.0).terms(operator, problem, near, ZERO).sensitivity
        derivative = Tangent(ATTACK, tau=0.0).terms(operator, problem, near, ZERO).sensitivity
        far = Tangent(ATTACK, tau=0.0).terms(operator, problem, Batch(attacked - delta, attacked), ZERO)
        assert np.isclose(difference, derivative, rtol=1e-4)
        # A direction has no length.
        assert np.isclose(far.sensitivity, derivative, rtol=1e-9)


def test_spectral_norms_and_their_derivative():
    # A gap in the spectrum, as the power method needs one.
    left, right = (np.linalg.qr(np.random.default_rng(s).normal(size=(12, 12)))[0] for s in (0, 1))
    matrix = (left * np.array([3.0, *np.linspace(1.5, 0.1, 11)])) @ right
    assert np.isclose(spectral_norm(jnp.asarray(matrix)), 3.0, rtol=1e-5)
    assert np.allclose(jax.grad(spectral_norm)(jnp.asarray(matrix)), np.outer(left[:, 0], right[0]), atol=1e-3)


def test_spectral_counts_the_branch_alone(case):
    problem, operator, batch = case
    found = Spectral(ATTACK).terms(operator, problem, batch, ZERO).sensitivity
    exact = sum(np.linalg.norm(layer.weight, 2) ** 2 for layer in operator.branch.layers)
    # Ten iterations come close from below.
    assert 0.9 * exact < float(found) <= exact * (1 + 1e-5)
    with pytest.raises(ConfigError, match="branch"):
        Spectral(ATTACK).terms(follower(1.0), problem, batch, ZERO)


def test_random_perturbations_are_not_searched_for():
    problem, config = setup(method__name="noise", training__warmup=0)
    program = make_program(problem, config)
    state, _ = program.advance(initial_state(problem, config), 10)
    delta = state.cache.attacked - state.cache.clean
    assert program.objective.attack is not None
    assert program.objective.attack.steps == 3
    # Uniform in the ball; a search would push nearly all to its surface.
    assert np.max(np.abs(delta)) <= 0.05 * (1 + 1e-5)
    assert np.mean(np.abs(delta) < 0.045) > 0.8


def test_one_step_goes_to_the_surface_at_once(case):
    problem, operator, batch = case
    objective = OneStep(problem.attack)
    target = objective.target(operator, problem, batch.clean)
    delta = objective.search()(target, batch.clean, key=jax.random.key(0)).inputs - batch.clean
    slope = jax.grad(lambda a: jnp.sum(target(a)))(batch.clean)
    assert np.allclose(delta, 0.05 * jnp.sign(slope), atol=1e-6)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.long if i else ()) for i, name in enumerate(OTHERS)]
)
def test_every_defence_trains_and_has_its_share(name):
    problem, config = setup(method__name=name, method__rho=0.2)
    rows: list[Any] = []
    state = train(problem, config, progress=lambda report: rows.append(report.numbers))
    first = next(row for row in rows if row["step"] > 20)
    assert int(state.step) == 60 and rows[-1]["validation_attacked"] < rows[0]["loss"] * 100
    assert (0.05 < first["share"] < 0.5) == (name not in ("noise", "fgsm"))
