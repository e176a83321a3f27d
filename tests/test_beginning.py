"""Values at the start are those that the conditions there say, not what smooth functions make of them."""

from __future__ import annotations

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import stablepdenet as sp
from stablepdenet import points
from stablepdenet.operators import Query
from stablepdenet.spectral import Plan, read_setting, spectral_operator
from stablepdenet.spectral.beginning import beginnings
from stablepdenet.spectral.choose import with_estimate

SENSORS = points.uniform(21)
WHERE = points.grid(points.uniform(33), np.array([0.0, 0.5, 1.0]))
AT_START = WHERE[:, 1] == 0.0


def diffusion(initial, decay=lambda u: u):
    """u_t = 0.05 u_xx - decay(u) on a period, with a condition of one's own at the start."""
    inside = points.hammersley(300, [(0, 1), (0, 1)])
    return sp.Problem(
        name="diffusion",
        domain=sp.Box(x=(0, 1), t=(0, 1), periodic="x"),
        inputs=sp.Inputs(a=sp.SensorInput(sp.GaussianField(0.3), SENSORS)),
        blocks=(
            sp.Block("pde", inside, lambda u, u_t, u_xx: u_t - 0.05 * u_xx + decay(u)),
            sp.Block("start", np.stack([points.uniform(80), np.zeros(80)], axis=1), initial),
        ),
    )


def plan_of(problem, count=9, steps=3):
    return Plan(read_setting(problem), (count,), (count,), tuple(np.linspace(0.0, 1.0, steps + 1).tolist()), 3)


@pytest.fixture(scope="module")
def rough():
    values = np.random.default_rng(0).normal(size=(2, len(SENSORS))).astype(np.float32)
    values[:, -1] = values[:, 0]
    return jnp.asarray(values)


@pytest.mark.parametrize("decay", [lambda u: u, lambda u: u**3])
def test_answers_begin_with_the_input(rough, decay):
    """2 u - a = x where the input is rough for the nine functions."""
    operator = spectral_operator(plan_of(diffusion(lambda u, a, x: 2.0 * u - a - x, decay)))
    expected = [0.5 * (np.interp(WHERE[AT_START, 0], SENSORS, row) + WHERE[AT_START, 0]) for row in np.asarray(rough)]
    assert np.allclose(np.asarray(operator(rough, WHERE))[:, AT_START], expected, atol=1e-6)
    # Where a query asks, too, and in slopes.
    some = np.array([[0.37, 0.0], [0.37, 0.2]])
    (values,) = operator.prepare([Query(some, ((), (1,)), {}, 0)])(rough)
    assert np.allclose(values[()], operator(rough, some), atol=1e-6)
    hats = np.stack([np.interp(WHERE[AT_START, 0], SENSORS, row) for row in np.eye(len(SENSORS))], axis=1)
    jacobian = operator.jacobian(rough, jnp.asarray(WHERE))
    assert np.allclose(np.asarray(jacobian)[:, AT_START], 0.5 * hats, atol=1e-6)
    weights = np.random.default_rng(1).normal(size=len(WHERE))
    slope = jax.grad(lambda a: jnp.sum(operator(a, WHERE) * weights))(rough)
    assert np.allclose(slope, np.einsum("bnm,n->bm", jacobian, weights), atol=1e-4)


def test_what_is_known_has_no_error(rough):
    found = with_estimate(plan_of(diffusion(lambda u, a: u - a))).answer(rough, WHERE)
    # What is left there is rounding of the answer, which the bound of such a problem sees too.
    largest = np.max(np.abs(np.asarray(found.errors)[:, AT_START]))
    assert largest <= np.finfo(np.float32).eps * np.max(np.abs(np.asarray(found.u)[:, AT_START]))
    assert np.max(np.abs(np.asarray(found.errors)[:, ~AT_START])) > 100 * largest


def test_other_conditions_are_left_to_the_functions():
    """Conditions not linear in the input, or on a derivative, say no value; a part of the side says its own."""
    for residual in (lambda u, a: u - a**2, lambda u_x, a: u_x - a):
        assert beginnings(read_setting(diffusion(residual)), WHERE) == (None,)
    problem = diffusion(lambda u, a: u - a)
    half = np.stack([0.6 * points.uniform(80), np.zeros(80)], axis=1)
    part = replace(problem, blocks=(problem.blocks[0], replace(problem.blocks[1], points=half)))
    (known,) = beginnings(read_setting(part), WHERE)
    assert known is not None
    assert np.array_equal(known.where, np.flatnonzero(AT_START & (WHERE[:, 0] <= 0.6)))
