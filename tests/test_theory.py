"""The theorems' constants against closed forms, an independent solver, and cases worked by hand."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from stablepdenet import points
from stablepdenet.attacks import PGD, LinfBall
from stablepdenet.auditing import evaluation_inputs
from stablepdenet.auditing.constants import Outcome, TrialSpace, linear_bound, trial_space, tube_estimate
from stablepdenet.errors import ConfigError
from stablepdenet.experiments.problems import heat, helmholtz, make_problem
from stablepdenet.functions import GaussianField, Inputs, SensorInput
from stablepdenet.functions.domain import Box
from stablepdenet.operators import FunctionOperator
from stablepdenet.problems import Block, Problem, physics


def _toy(residual, *, weight=1.0, num=40):
    """An equation between values of u and a, collocated on the evaluation grid, so that Y and Z norms are the same."""
    x = points.uniform(num)
    return Problem(
        name="toy",
        equation="",
        domain=Box(x=(0, 1)),
        inputs=Inputs(a=SensorInput(GaussianField(length_scale=1.0), x)),
        blocks=(Block("pde", x[:, None], residual, weight),),
        attack=PGD(LinfBall(0.05)),
        reference=lambda a: np.asarray(a, np.float64),
        axes=(x,),
    )


def _constants(inputs, solutions, predictions, num=40):
    """Constant functions as what an operator was tested on."""
    return Outcome(*(np.outer(values, np.ones(num)) for values in (inputs, solutions, predictions)))


def _inverse_norm(problem, *shape):
    return linear_bound(TrialSpace(problem, shape) if shape else trial_space(problem), gamma_r=1.0).inverse_norm


def test_the_basis_is_orthonormal_in_y_and_has_the_polynomials_derivatives():
    space = TrialSpace(make_problem("burgers"), (9, 7))
    x, t = space.problem.grid.T
    c = space.fit((x**5 * t**3)[None])
    assert np.isclose(np.linalg.norm(c), np.sqrt(np.mean((x**5 * t**3) ** 2)))
    assert np.allclose(space.values(c)[0], x**5 * t**3, atol=1e-12)
    x, t = (where := np.random.default_rng(0).random((20, 2))).T
    assert np.allclose(space.basis(where, (0, 0, 1)) @ c[0], 60 * x**3 * t**2, atol=1e-9)


@pytest.mark.parametrize(
    "residual, weight, expected",
    [
        (lambda u, a: 3 * u - a, 1.0, 1 / 3),
        (lambda u, a: 3 * u - a, 4.0, 1 / 6),
        # Squares are summed over channels: ||(u, 2 u)||^2 = 5 ||u||^2.
        (lambda u, a: jnp.stack([u - a, 2 * u], axis=-1), 1.0, 1 / math.sqrt(5)),
    ],
)
def test_a_multiple_of_the_identity_has_its_inverse(residual, weight, expected):
    bound = linear_bound(trial_space(_toy(residual, weight=weight)), gamma_r=2.0)
    assert np.isclose(bound.inverse_norm, expected, rtol=1e-10)
    assert np.isclose(bound.gamma_E, 2 * bound.inverse_norm)


def test_poisson_agrees_with_its_greens_function():
    # u = int G f + u(0) (1 - x) + u(1) x with ||(f, u(0), u(1))||_Z^2 = int f^2 + u(0)^2 + u(1)^2, by midpoints.
    problem, num = make_problem("poisson"), 2000
    x, y = problem.axes[0][:, None], (np.arange(num) + 0.5) / num
    green = np.minimum(x, y) * (1 - np.maximum(x, y))
    response = np.hstack([green / math.sqrt(num), 1 - x, x]) / math.sqrt(len(x))
    assert np.isclose(_inverse_norm(problem), np.linalg.norm(response, 2), rtol=1e-3)


def test_helmholtz_grows_like_one_over_the_gap():
    # The third mode is amplified by 1 / (kappa^2 - 9 pi^2) ~ 1 / (6 pi gap); the weight keeps the boundary's part O(1).
    gaps = np.array([0.01, 0.005, 0.0025])
    norms = np.array([_inverse_norm(helmholtz(kappa=3 * math.pi + gap), 64) for gap in gaps])
    assert np.allclose(norms * gaps * 6 * math.pi, 1, rtol=2e-2)


def test_the_heat_constant_depends_neither_on_the_trial_space_nor_on_the_points():
    norms = [_inverse_norm(heat()), _inverse_norm(heat(), 10, 10), _inverse_norm(heat(), 24, 20)]
    finer = _inverse_norm(heat(interior=4000, sides=400, sensors=301), 12, 12)
    assert np.allclose(norms, finer, rtol=1e-2)


@pytest.mark.parametrize("name, linear", [("heat", True), ("poisson", True), ("helmholtz", True), ("burgers", False)])
def test_linear_equations_are_recognised(name, linear):
    problem = make_problem(name)
    assert TrialSpace(problem, (8,) * len(problem.axes)).linear == linear


def test_an_equation_whose_operator_depends_on_the_input_is_not_linear_in_the_theorems_sense():
    assert not trial_space(_toy(lambda u, a: a * u - 1)).linear


def test_the_jacobian_is_that_of_the_loss():
    # F is quadratic, so F(u + v) - F(u - v) = 2 D_u F(u) v without a remainder.
    problem = make_problem("burgers")
    space = TrialSpace(problem, (8, 8))

    def u(p):
        return p[:, 0] ** 3 - p[:, 0] * p[:, 1] ** 2

    def v(p):
        return p[:, 0] ** 2 * p[:, 1] + 0.3 * p[:, 1] ** 4

    with jax.enable_x64(True):
        a = jnp.asarray(evaluation_inputs(problem, 1), jnp.float64)
        plus, minus = (
            physics.residual_map(FunctionOperator(moved), problem)(a)
            for moved in (lambda a, p: (u(p) + v(p))[None], lambda a, p: (u(p) - v(p))[None])
        )
        difference = {name: (plus[name] - minus[name]) / 2 for name in plus}
        expected = math.sqrt(physics.weighted_sum(physics.block_norms(difference), problem)[0])
    at, direction = space.fit(np.stack([u(problem.grid), v(problem.grid)]))
    product = space.jacobian(at, np.asarray(a[0])) @ direction
    assert np.isclose(np.linalg.norm(product), expected, rtol=1e-9)


def test_the_linear_bound_holds_for_every_sample():
    # G = S + a linear error whose functions are polynomials.
    problem = helmholtz(kappa=3 * math.pi + 0.1, interior=200)
    modes = np.arange(1, 11)
    weights = np.random.default_rng(0).normal(size=(10, 5))

    def error(a, p):
        return a @ jnp.asarray(weights) @ jnp.stack([p[:, 0] ** k for k in range(5)])

    def operator(a, p):
        sines = math.sqrt(2) * jnp.sin(math.pi * modes * p) / ((math.pi * modes) ** 2 - (3 * math.pi + 0.1) ** 2)
        return a @ sines.T + error(a, p)

    with jax.enable_x64(True):
        a = jnp.asarray(evaluation_inputs(problem, 20), jnp.float64)
        delta = jnp.asarray(np.random.default_rng(1).normal(size=a.shape))
        residuals = physics.residual_map(FunctionOperator(operator), problem)
        clean, moved = residuals(a), residuals(a + delta)
        change = {name: moved[name] - clean[name] for name in clean}
        radii = problem.inputs.radius(delta)
        kappa_r = np.asarray(jnp.sqrt(physics.weighted_sum(physics.block_norms(change), problem)) / radii)
        kappa_E = np.asarray(jnp.sqrt(jnp.mean(error(delta, jnp.asarray(problem.grid)) ** 2, axis=1)) / radii)
    bound = linear_bound(trial_space(problem), gamma_r=kappa_r.max())
    assert np.all(kappa_E <= bound.inverse_norm * kappa_r)
    assert kappa_E.max() <= bound.gamma_E


def _quadratic(errors):
    """u + u^2 = a at the constants u = 1, 2 (a = 2, 6), and u = 1.1, 2.1 for perturbed inputs; G = S + an error."""
    clean, moved = np.array([1.0, 2.0]), np.array([1.1, 2.1])
    return (
        _constants(clean + clean**2, clean, clean + errors),
        _constants(moved + moved**2, moved, moved + errors),
    )


def test_the_tube_of_a_quadratic_equation():
    # D_u F = 1 + 2 u: beta = 3 at u = 1, L_u = 2, rho_E = 0.5, margin 2, gamma_E = (0.7 + 0.5 * 2 * 0.4) / 2.
    space = trial_space(_toy(lambda u, a: u + u * u - a))
    result = tube_estimate(space, *_quadratic(np.array([0.1, -0.5])), gamma_r=0.7, C_S=0.4)
    expected = {"beta": 3, "L_u": 2, "L_a": 0, "rho_E": 0.5, "margin": 2, "gamma_E": 0.55, "fit_error": 0}
    assert {key: pytest.approx(value, abs=1e-9) for key, value in expected.items()} == result._asdict()


def test_a_tube_too_wide_gives_no_bound():
    space = trial_space(_toy(lambda u, a: u + u * u - a))
    result = tube_estimate(space, *_quadratic(np.array([0.1, 1.6])), gamma_r=0.7, C_S=0.4)
    assert np.isclose(result.margin, 3 - 2 * 1.6)
    assert math.isnan(result.gamma_E)


def test_all_inputs_count_for_the_error_and_the_first_ones_for_the_linearisation():
    space = trial_space(_toy(lambda u, a: u + u * u - a))
    clean, perturbed = (Outcome(*(array[::-1] for array in tested)) for tested in _quadratic(np.array([-0.5, 0.1])))
    result = tube_estimate(space, clean, perturbed, gamma_r=0.7, C_S=0.4, linearised=1)
    assert np.isclose(result.beta, 5) and np.isclose(result.rho_E, 0.5)


def test_the_dependence_on_the_input_is_measured():
    # a u = 1: D_u F = a, so L_a = 1 and L_u = 0, and beta is the least input.
    space = trial_space(_toy(lambda u, a: a * u - 1))
    clean, perturbed = (_constants(a, 1 / a, 1 / a + 0.2) for a in (np.array([2.0, 4.0]), np.array([1.5, 4.5])))
    result = tube_estimate(space, clean, perturbed, gamma_r=0.1, C_S=0.3)
    assert np.allclose(result[:6], (1.5, 0, 1, 0.2, 1.5, (0.1 + 0.2) / 1.5), atol=1e-9)


def test_on_a_linear_problem_the_tube_is_the_linear_bound():
    problem = make_problem("poisson")
    space, a = trial_space(problem), np.asarray(evaluation_inputs(problem, 2))
    clean, perturbed = (Outcome(b, (u := problem.require_reference()(b)), 1.1 * u) for b in (a, a + np.float32(0.05)))
    result, bound = tube_estimate(space, clean, perturbed, gamma_r=0.3, C_S=0.1), linear_bound(space, gamma_r=0.3)
    assert result.L_u == result.L_a == 0 and np.isclose(result.gamma_E, bound.gamma_E, rtol=1e-9)


def test_burgers_inverse_stability_settles_and_its_jacobians_lipschitz_constant_does_not():
    problem = make_problem("burgers")
    a = np.asarray(evaluation_inputs(problem, 2))
    solution = problem.require_reference()(a)
    tested = Outcome(a, solution, 1.02 * solution)
    coarse, fine = (
        tube_estimate(TrialSpace(problem, shape), tested, tested, gamma_r=0.1, C_S=1.0)
        for shape in ((24, 12), trial_space(problem).shape)
    )
    assert math.isclose(coarse.beta, fine.beta, rel_tol=0.05) and fine.fit_error < 1e-3
    assert coarse.L_a == fine.L_a == 0
    # As many more nodes along x, as many higher wave numbers.
    assert 1.3 < fine.L_u / coarse.L_u < 2.5


def test_what_cannot_be_computed_is_refused():
    with pytest.raises(ConfigError, match="not linear"):
        linear_bound(TrialSpace(make_problem("burgers"), (8, 8)), gamma_r=1.0)
    with pytest.raises(ConfigError, match="too coarse"):
        trial_space(_toy(lambda u, a: u - a, num=6))


def test_more_unknowns_than_equations_have_no_bounded_inverse():
    assert _inverse_norm(helmholtz(interior=10), 16) == math.inf
