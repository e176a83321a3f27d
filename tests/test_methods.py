"""The three objectives against cases worked by hand."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from stablepdenet.attacks import PGD, LinfBall
from stablepdenet.experiments.problems import make_problem
from stablepdenet.operators import AbstractOperator, DeepONet, FunctionOperator
from stablepdenet.problems.physics import physics_loss, residual_map
from stablepdenet.training.objectives import Adversarial, Batch, Clean, Stable, sensitivity_quotient

ZERO = jnp.zeros(())
ATTACK = PGD(LinfBall(0.05))


@pytest.fixture
def case():
    """A Poisson DeepONet, and a batch with a real perturbation."""
    problem = make_problem("poisson")
    operator = DeepONet(100, 1, width=16, key=jax.random.key(0))
    clean = problem.sample(5, key=jax.random.key(1))
    attacked = clean + 0.05 * jnp.sign(jax.random.normal(jax.random.key(2), clean.shape))
    return problem, operator, Batch(clean, attacked)


def test_clean_and_adversarial_average_the_physics_loss_of_their_inputs(case):
    problem, operator, batch = case
    residuals = residual_map(operator, problem)
    for method, inputs in ((Clean(), batch.clean), (Adversarial(ATTACK), batch.attacked)):
        terms = method.terms(operator, problem, batch, ZERO)
        assert np.isclose(terms.loss, jnp.mean(physics_loss(residuals(inputs), problem)), rtol=1e-6)
        assert float(terms.sensitivity) == float(terms.share) == 0.0
        weighted = sum(block.weight * terms.blocks[block.name] for block in problem.blocks)
        assert np.isclose(terms.loss, weighted, rtol=1e-6)


def test_q_of_an_operator_that_ignores_its_input_is_the_gain_of_the_source():
    # u does not move, so the PDE residual -u_xx - a moves by -delta at the points and the boundary not at all. For a
    # constant delta = d, Q = d^2 / (d^2 + tau).
    problem = make_problem("poisson")
    operator = FunctionOperator(lambda a, p: jnp.zeros((len(a), len(p))))
    residuals = residual_map(operator, problem)
    clean = problem.sample(3, key=jax.random.key(0))
    for d, tau in ((0.05, 1e-6), (0.05, 1e-2)):
        delta = jnp.full_like(clean, d)
        q = sensitivity_quotient(residuals(clean), residuals(clean + delta), delta, problem, tau=tau)
        assert np.allclose(q, d**2 / (d**2 + tau), rtol=1e-5)


def test_q_weights_the_blocks():
    # u = a(0) everywhere: u_xx = 0, so a constant delta = d moves the PDE residual by -d and both ends by d. With
    # Poisson's boundary weight 2, the numerator is d^2 + 2 d^2.
    problem = make_problem("poisson")
    operator = FunctionOperator(lambda a, p: a[:, :1] * jnp.ones(len(p)))
    residuals = residual_map(operator, problem)
    clean = problem.sample(3, key=jax.random.key(0))
    delta = jnp.full_like(clean, 0.05)
    q = sensitivity_quotient(residuals(clean), residuals(clean + delta), delta, problem, tau=1e-6)
    assert np.allclose(q, 3 * 0.05**2 / (0.05**2 + 1e-6), rtol=1e-4)


def test_an_exact_operator_has_no_residual_sensitivity():
    # The physical response is not penalised: for u = S(a), Q vanishes although u moves.
    problem = make_problem("helmholtz")
    n = np.arange(1, 11) * np.pi
    gains = jnp.asarray(1 / (n**2 - (3.5 * np.pi) ** 2))
    with jax.enable_x64(True):
        operator = FunctionOperator(lambda a, p: (a * gains) @ (jnp.sqrt(2.0) * jnp.sin(n[:, None] * p[:, 0])))
        residuals = residual_map(operator, problem)
        clean = problem.sample(3, key=jax.random.key(0)).astype(jnp.float64)
        delta = 0.1 * problem.sample(3, key=jax.random.key(1)).astype(jnp.float64)
        change = operator(clean + delta, jnp.asarray(problem.grid)) - operator(clean, jnp.asarray(problem.grid))
        q = sensitivity_quotient(residuals(clean), residuals(clean + delta), delta, problem, tau=1e-6)
        assert float(jnp.min(jnp.max(jnp.abs(change), axis=1))) > 1e-4
        assert float(jnp.max(q)) < 1e-10


def test_stable_adds_lambda_q_to_the_attacked_loss(case):
    problem, operator, batch = case
    adversarial = Adversarial(ATTACK).terms(operator, problem, batch, ZERO)
    for weight in (0.0, 0.3):
        terms = Stable(ATTACK).terms(operator, problem, batch, jnp.asarray(weight))
        assert np.isclose(terms.loss, adversarial.loss + weight * terms.sensitivity, rtol=1e-5)
        assert np.isclose(terms.share, weight * terms.sensitivity / terms.loss, rtol=1e-5)


@pytest.mark.parametrize("rho", [0.1, 0.5])
def test_calibration_gives_q_its_share(case, rho):
    problem, operator, batch = case
    method = Stable(ATTACK, rho=rho)
    before = method.terms(operator, problem, batch, ZERO)
    after = method.terms(operator, problem, batch, method.calibrate(before.loss, before.sensitivity))
    assert np.isclose(after.share, rho, rtol=1e-5)


def test_stable_evaluates_the_trunk_once(case):
    problem, _, batch = case
    passes = []

    class Counting(AbstractOperator):
        operator: DeepONet

        def __call__(self, a, points):
            return self.operator(a, points)

        def prepare(self, queries):
            passes.append(len(queries))
            return self.operator.prepare(queries)

    operator = DeepONet(100, 1, width=16, key=jax.random.key(0))
    Stable(ATTACK).terms(Counting(operator), problem, batch, ZERO)
    assert passes == [len(problem.blocks)]
