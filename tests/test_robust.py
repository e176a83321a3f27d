"""What robust says of itself: met where it is met, said where it is not, and kept in a file."""

from __future__ import annotations

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from pde_cases import FIELD, UNIT

import stablepdenet as sp
from stablepdenet import points
from stablepdenet.errors import ConfigError
from stablepdenet.progress import Report, silent


def cubic():
    return sp.Problem(
        name="cubic",
        domain=sp.Box(x=(0, 1)),
        inputs=sp.Inputs(f=sp.SensorInput(FIELD, points.uniform(9))),
        blocks=(
            sp.Block("pde", points.hammersley(100), lambda u, u_xx, f, x: -u_xx + u**3 - f - x**3),
            sp.Block("bc", points.boundary(), lambda u, x: u - x),
        ),
    )


def test_a_problem_of_ones_own_is_solved_to_the_tolerance(tmp_path):
    """-u_xx + u^3 = f + x^3, u(0) = 0, u(1) = 1: not linear, without ansatz, attack or reference; u = x for f = 0."""
    problem, said = cubic(), list[Report]()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        operator = sp.robust(problem, tolerance=1e-3, progress=said.append)
    assert said[-1].note.startswith("estimated errors of 16 inputs")
    a, grid = jnp.zeros((1, 9)), points.uniform(21)[:, None]
    found = operator.answer(a, grid)
    assert np.allclose(found.u, grid.T, atol=1e-5)
    assert float(found.estimate[0]) < 1e-3
    sp.save(operator, tmp_path / "operator.safetensors", problem)
    again = sp.load(tmp_path / "operator.safetensors", problem)
    assert np.array_equal(again(a, grid), found.u)
    assert np.array_equal(again.answer(a, grid).estimate, found.estimate)


@pytest.mark.long
def test_what_is_not_met_is_said():
    """Waves that travel without damping, and noise in them: too few functions for what the budget allows."""
    x = points.uniform(41)
    problem = sp.Problem(
        name="advection",
        domain=sp.Box(x=(0, 1), t=(0, 1)),
        inputs=sp.Inputs(a=sp.SensorInput(FIELD, x)),
        blocks=(
            sp.Block("pde", points.hammersley(200, UNIT), lambda u_t, u_x, u: u_t + u_x + u**3),
            sp.Block("left", points.grid(np.zeros(1), x), lambda u: u),
            sp.Block("ic", points.initial(x), lambda u, a: u - a),
        ),
    )
    with pytest.warns(UserWarning, match="tolerance 1e-06 is not met on .* inputs of 'advection'"):
        operator = sp.robust(problem, tolerance=1e-6, budget=0.001, progress=silent)
    a = problem.sample(2, key=jax.random.key(0))
    assert np.all(operator.answer(a, points.grid(x, x)).estimate > 1e-6)


@pytest.mark.parametrize(
    ("wrong", "words"), [({"tolerance": 0.0}, "tolerance=0.0"), ({"budget": -1.0}, "a positive number of seconds")]
)
def test_bad_arguments_are_refused(wrong, words):
    with pytest.raises(ConfigError, match=words):
        sp.robust(cubic(), **wrong)
