"""Time steps whose stages are solved apart from each other, and iterations that begin at a guess."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pde_cases
import pytest
from test_spectral import exact_logistic, relative, small

import stablepdenet as sp
from stablepdenet import points
from stablepdenet.spectral import read_setting, spectral_operator
from stablepdenet.spectral.choose import first_plan
from stablepdenet.spectral.functions import Clock, radau
from stablepdenet.spectral.march import make_march
from stablepdenet.spectral.stepping import rescaled


@pytest.mark.parametrize("order", [1, 2, 3])
def test_derivatives_in_time_are_powers_of_one_matrix(order):
    """What stages are taken apart by: T_n = B^n T_0 at Radau's points, for the free functions."""
    theta, clock = radau(3), Clock(order, 3)
    values = [clock.values(theta, n)[:, order:] for n in range(order + 1)]
    matrix = Clock(1, 3).values(theta, 1)[:, 1:] @ np.linalg.inv(Clock(1, 3).values(theta)[:, 1:])
    for n in range(order + 1):
        assert np.allclose(values[n], np.linalg.matrix_power(matrix, n) @ values[0], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", ["wave", "pair"])
def test_stages_apart_find_what_all_at_once_do(name):
    """The first step by both ways, from what the problem starts from."""
    case = pde_cases.CASES[name]()
    march = make_march(small(case.problem, 21, 8))
    with jax.enable_x64(True):
        march, a = jax.tree.map(jnp.asarray, march), jnp.asarray(case.a[0], jnp.float64)
        equations, first = march.step, jax.tree.map(lambda each: each[0], march.moments)
        start = tuple(rescaled(each, first.length) for each in march._begin(a)[0])
        found = []
        for factorise in (equations.factorise, equations.factorise_whole):
            at = start
            for _ in range(6):
                change = equations.solve(factorise(at, a, first), equations.residual(at, a, first))
                at = equations.moved(at, change)
            found.append(jnp.concatenate([each.ravel() for each in at]))
    assert relative(*found) < 1e-4
    assert relative(found[0], jnp.concatenate([each.ravel() for each in start])) > 1e-2


def test_an_equation_in_time_alone():
    """u' = a u (1 - u): no coordinate but time."""
    problem = sp.Problem(
        name="growth",
        domain=sp.Box(t=(0, 2)),
        inputs=sp.Inputs(a=sp.Scalar(1.0, 3.0)),
        blocks=(
            sp.Block("pde", points.hammersley(100, [(0, 2)]), lambda u, u_t, a: u_t - a * u * (1 - u)),
            sp.Block("ic", np.zeros((1, 1)), lambda u: u - 0.25),
        ),
    )
    where = np.linspace(0, 2, 5)[:, None]
    u = spectral_operator(first_plan(read_setting(problem)))(jnp.full((1, 1), 2.0), where)
    assert relative(u[0], exact_logistic(2.0, where[:, 0])) < 1e-5


def test_a_judge_begins_at_the_answer():
    """-u_xx = 3 exp(u) has two solutions: from near the upper one, iterations go to it, not to the lower one."""
    problem = sp.Problem(
        name="Bratu",
        domain=sp.Box(x=(0, 1)),
        inputs=sp.Inputs(a=sp.Scalar(2.0, 4.0)),
        blocks=(
            sp.Block("pde", points.hammersley(100, [(0, 1)]), lambda u, u_xx, a: u_xx + a * jnp.exp(u)),
            sp.Block("bc", points.boundary(), lambda u: u),
        ),
    )
    plan = first_plan(read_setting(problem))
    march, x = make_march(plan), np.linspace(0, 1, 200)
    space = plan.space.values(x[:, None])
    # u = 2 log(cosh(s) / cosh(s (1 - 2 x))) with 8 s^2 = 3 cosh(s)^2, by bisection on the upper branch.
    low, high = 1.2, 6.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if 8 * middle**2 > 3 * np.cosh(middle) ** 2 else (low, middle)
    upper = 2.0 * np.log(np.cosh(low) / np.cosh(low * (1 - 2 * x)))
    guess = (np.linalg.lstsq(space, 1.01 * upper, rcond=None)[0][None, None],)
    with jax.enable_x64(True):
        march = jax.tree.map(jnp.asarray, march)
        found, nearest = (march.answer(jnp.asarray([3.0]), own) for own in (None, jax.tree.map(jnp.asarray, guess)))
    assert found.arrived and nearest.arrived
    assert relative(space @ np.asarray(nearest.coefficients[0][0, 0]), upper) < 1e-5
    assert np.max(space @ np.asarray(found.coefficients[0][0, 0])) < 0.6 * np.max(upper)
