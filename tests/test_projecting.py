"""Refining what has no basis: its answers in the problem's functions, and Gauss-Newton steps from there."""

from __future__ import annotations

import dataclasses
import runpy
import warnings
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from pde_cases import CASES
from test_fit import Network

import stablepdenet as sp
from stablepdenet.errors import ConfigError
from stablepdenet.operators import HostOperator
from stablepdenet.projecting import project

KEY = jax.random.key(3)


def error(operator, problem, a):
    u = problem.reference(np.asarray(a))
    return np.linalg.norm(np.asarray(operator(a, jnp.asarray(problem.grid))) - u) / np.linalg.norm(u)


def guess(a, x):
    """A smooth answer that is wrong."""
    return jnp.mean(a, axis=1)[:, None] * x[:, 0] * (1.3 - x[:, 0])


def on_host(a, x):
    """The same, where JAX cannot look."""
    return np.mean(np.asarray(a), axis=1)[:, None] * np.asarray(x)[:, 0] * (1.3 - np.asarray(x)[:, 0])


@pytest.fixture(scope="module")
def poisson():
    return sp.make_problem("poisson")


@pytest.fixture(scope="module")
def reaction():
    """-u_xx + 100 u^3 = a, and Newton's method for it."""
    return runpy.run_path(str(Path(__file__).parent.parent / "examples" / "own_nonlinear.py"))["reaction"]


@pytest.mark.parametrize("wrong", [guess, on_host, lambda a, x: 0.0 * a[:, :1] + jnp.abs(x[:, 0] - 0.3)])
def test_a_wrong_function_becomes_right_and_stable(poisson, wrong):
    a = poisson.sample(20, key=KEY)
    attacked = a + 0.05 * jax.random.rademacher(jax.random.key(4), a.shape)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        refined = sp.refine(wrong, poisson)
    assert error(project(wrong, poisson).operator, poisson, a) > 0.3
    assert error(refined, poisson, a) < 3e-5
    assert error(refined, poisson, attacked) < 1e-4


@pytest.mark.long
def test_without_mixing_the_functions_steps_lead_nowhere(poisson):
    # Second derivatives of 63 polynomials differ by six powers of ten: float32 loses the smooth directions.
    a, projected = poisson.sample(5, key=KEY), project(guess, poisson)
    solved = sp.solve(poisson)
    plain = sp.BasisOperator(lambda a: jnp.zeros((len(a), 63)), solved.functions)
    assert error(sp.refine(plain, poisson), poisson, a) > 0.9
    assert error(sp.refine(projected, poisson), poisson, a) < 1e-5


@pytest.mark.long
def test_a_wrong_function_becomes_right_on_a_nonlinear_problem(reaction):
    a = reaction.sample(10, key=KEY)
    refined = sp.refine(guess, reaction, steps=8)
    attacked = a + jax.random.rademacher(jax.random.key(4), a.shape)
    assert error(refined.operator, reaction, a) > 0.5
    assert error(refined, reaction, a) < 1e-3
    assert error(refined, reaction, attacked) < 1e-3


@pytest.mark.long
def test_what_does_not_arrive_is_said(reaction):
    with pytest.warns(UserWarning, match=r"One more step still changes \d+ of 20 refined answers of 'reaction-diff"):
        sp.refine(guess, reaction, steps=1)
    with pytest.warns(UserWarning, match=r"leave \d+% of the residual of 'reaction-diffusion', and may be wrong"):
        sp.refine(guess, reaction, steps=8, basis=lambda x: jnp.cos(x * jnp.arange(4)))


@pytest.mark.long
def test_several_components_are_refined():
    case = CASES["flux"]()
    refined = sp.refine(lambda a, x: jnp.stack([guess(a, x)] * 2, axis=-1), case.problem)
    points = jnp.asarray(case.problem.blocks[0].points)
    assert np.allclose(refined(case.a, points), case.exact()(case.a, points), atol=1e-5)


def test_an_ansatz_holds_for_what_is_projected():
    small = dataclasses.replace(sp.make_problem("burgers", {"interior": 100, "sides": 10}), refinement_blocks=())
    projected = project(guess, small)
    a = small.sample(3, key=KEY)
    start = jnp.asarray(sp.points.initial(sp.points.uniform(101)))
    assert projected.lifted
    assert np.allclose(projected(a, start), a, atol=1e-5)


def test_exact_answers_stay_exact(poisson):
    def cubic(a, x):
        return a[:, :1] * x[:, 0] + a[:, 1:2] * x[:, 0] ** 3 - 0.5

    a = poisson.sample(4, key=KEY)
    grid, columns = jnp.asarray(poisson.grid), [(), (0,), (0, 0)]
    projected = project(cubic, poisson)
    assert np.allclose(projected(a, grid), cubic(a, grid), atol=2e-6)
    with jax.enable_x64(True):
        projected, a, grid = project(cubic, poisson), jnp.asarray(a, float), jnp.asarray(grid, float)
        found = projected.derivatives(a, grid, columns)
        slope = a[:, :1] + 3 * a[:, 1:2] * grid[:, 0] ** 2
        assert np.allclose(found[()], cubic(a, grid), atol=1e-12)
        assert np.allclose(found[(0,)], slope, atol=1e-9)
        assert np.allclose(found[(0, 0)], 6 * a[:, 1:2] * grid[:, 0], atol=1e-6)


def test_derivatives_at_known_points_are_those_at_any(poisson):
    projected, points = project(guess, poisson), jnp.linspace(0.1, 0.9, 7)[:, None]
    (query,) = [sp.operators.Query(points, ((), (0,)))]
    known, traced = projected.features(query), jax.jit(lambda x: projected.features(query._replace(points=x)))(points)
    for word in query.wanted:
        assert np.allclose(known[word], traced[word], atol=1e-4 * np.abs(known[word]).max())


def test_gradients_are_those_of_the_answer(reaction):
    with jax.enable_x64(True):
        a = 0.1 * jnp.asarray(reaction.sample(1, key=KEY), float)
        points, along = jnp.linspace(0, 1, 11)[:, None], jnp.cos(jnp.linspace(0.0, 9.0, a.shape[1]))[None]
        # One step does not arrive: so the gradient of where it starts counts.
        refined = sp.refine(project(guess, reaction), reaction)

        def answer(size):
            return refined(a + size * along, points)

        _, slope = jax.jvp(answer, (0.0,), (1.0,))
        change = (answer(1e-4) - answer(-1e-4)) / 2e-4
        assert np.linalg.norm(change) > 1e-2
        assert np.linalg.norm(slope - change) < 1e-6 * np.linalg.norm(change)
        reverse = jax.grad(lambda a: jnp.sum(refined(a, points) ** 2))(a)
        assert np.allclose(jnp.sum(reverse * along), 2 * jnp.sum(answer(0.0) * slope), rtol=1e-8)


def test_what_has_no_gradients_has_those_of_the_steps(poisson):
    a, points = poisson.sample(2, key=KEY), jnp.asarray(poisson.grid)
    slopes = []
    for wrong in (guess, HostOperator(on_host)):
        refined = sp.refine(project(wrong, poisson), poisson)
        slopes.append(jax.jit(jax.grad(lambda a, refined=refined: jnp.sum(refined(a, points) ** 2)))(a))
    assert np.allclose(slopes[0], slopes[1], atol=1e-3 * np.abs(slopes[0]).max())


# Sines vanish at the ends, where sources do not.
@pytest.mark.filterwarnings("ignore:Refined answers leave")
def test_a_basis_may_be_given(poisson):
    a, modes = poisson.sample(5, key=KEY), jnp.pi * jnp.arange(1, 41)
    sines = sp.BasisOperator(lambda a: a[:, :40], lambda x: jnp.sin(x * modes))
    bases: list[Any] = [lambda x: jnp.sin(x * modes), sines, sp.load_model("poisson", "stable")]
    for basis in bases:
        refined = sp.refine(guess, poisson, basis=basis)
        assert error(refined, poisson, a) < 2e-2
        # What has a basis of its own leaves it for the one given.
        again = sp.refine(sines, poisson, basis=basis)
        assert error(again, poisson, a) < 2e-2


def test_what_is_no_operator_is_refused(poisson):
    with pytest.raises(ConfigError, match="int is not callable"):
        sp.refine(3, poisson)
    with pytest.raises(ConfigError, match="derivatives that are not finite"):
        sp.refine(guess, poisson, basis=lambda x: jnp.sqrt(x))
    with pytest.raises(ConfigError, match=r"returned the shape \(2, 100\): it must be \(2, 5\)"):
        sp.refine(lambda a, x: a, poisson)


def test_what_is_projected_is_kept_or_refused(tmp_path):
    problem, path = CASES["coefficient"]().problem, tmp_path / "operator"
    a, points = problem.sample(3, key=KEY), jnp.asarray(problem.blocks[0].points)
    network, fresh = (Network(problem.inputs.size, 1, key=jax.random.key(seed)) for seed in (1, 2))
    gated = sp.ModifiedDeepONet(problem.inputs.size, 1, width=4, depth=3, key=KEY)
    for inner, like in ((network, fresh), (gated, None)):
        refined = sp.refine(project(inner, problem), problem)
        sp.save(refined, path, problem)
        assert np.array_equal(sp.load(path, problem, like=like)(a, points), refined(a, points))
    with pytest.raises(ConfigError, match="FunctionOperator cannot be kept in a file"):
        sp.save(project(guess, problem), path, problem)
    with pytest.raises(ConfigError, match="not made of the functions"):
        sp.save(project(network, problem, lambda x: jnp.cos(x * jnp.arange(12))), path, problem)
    with pytest.raises(ConfigError, match="BasisOperator of plain functions"):
        sp.save(sp.BasisOperator(lambda a: a, lambda x: x ** jnp.arange(34)), path, problem)
