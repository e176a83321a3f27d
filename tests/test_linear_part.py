"""The linear part of a residual: found where it is there, and never where it is not."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from stablepdenet.errors import ConfigError
from stablepdenet.experiments.problems import make_problem
from stablepdenet.functions import Inputs, Scalar
from stablepdenet.functions.domain import Box
from stablepdenet.operators import DeepONet
from stablepdenet.problems import Block
from stablepdenet.problems.physics import block_queries, residual_map
from stablepdenet.problems.terms import terms_of

POINTS = np.random.default_rng(0).uniform(size=(7, 2))
X, T = POINTS.T


def found(residual) -> dict:
    domain, inputs = Box(x=(0, 1), t=(0, 1)), Inputs(a=Scalar(0, 1))
    block = Block("pde", POINTS, residual)
    return block.linear_part(terms_of("pde", residual, domain, ("u",), inputs), domain)


@pytest.mark.parametrize(
    "residual, expected",
    [
        (lambda u_t, u_xx: u_t - 0.01 * u_xx, {"u_t": 1.0, "u_xx": -0.01}),
        (lambda u, u_xx, a: -u_xx - 9.0 * u - a, {"u_xx": -1.0, "u": -9.0}),
        (lambda u, u_x, u_t, u_xx: u_t + u * u_x - 0.1 * u_xx, {"u_t": 1.0, "u_xx": -0.1}),
        (lambda u_xx, u: u + (u_xx - 3 * u) / 2 - u_xx, {"u": -0.5, "u_xx": -0.5}),
        (lambda u, a: 2.0 - (u - a), {"u": -1.0}),
        (lambda u_xx, x: jnp.sin(x) * u_xx, {"u_xx": np.sin(X)}),
        (lambda u_xx, x, t: u_xx / (1.0 + x) + np.cos(t), {"u_xx": 1.0 / (1.0 + X)}),
        (lambda u_t, u_xx, u, x: x * (u_t - x * u_xx) + u**3, {"u_t": X, "u_xx": -(X**2)}),
    ],
)
def test_the_linear_part_has_its_coefficients(residual, expected) -> None:
    with jax.enable_x64(True):
        result = found(residual)
    assert result.keys() == expected.keys() == found(residual).keys()
    for name, coefficient in expected.items():
        np.testing.assert_allclose(result[name], coefficient, rtol=1e-14)


@pytest.mark.parametrize(
    "residual",
    [
        lambda u: u**2,
        lambda u, u_x: u * u_x,
        lambda u_xx, a: a * u_xx,  # its coefficient is an input
        lambda u: jnp.abs(u),
        lambda u: u + jnp.sin(u),
        lambda u: 1.0 / u,
        lambda u: u - jnp.roll(u, 1, axis=1),  # linear, but not point by point
        lambda u: u - jnp.mean(u),
        lambda u: jnp.where(u > 0, u, 2 * u),
        lambda u: jnp.stack([u, 2 * u], axis=-1),
        lambda u: u[:, :3] - u[:, 3:6],
        lambda u: jnp.cumsum(u, axis=1),
        lambda x: x[None] * 0.0,
    ],
)
def test_what_is_not_a_sum_at_each_point_has_no_linear_part(residual) -> None:
    assert found(residual) == {}


def test_a_term_that_is_both_linear_and_not_counts_as_not() -> None:
    assert found(lambda u, u_x: u - 2 * u_x + u**2).keys() == {"u_x"}


@jax.custom_jvp
def ramp(x):
    return jnp.maximum(x, 0.0)


ramp.defjvp(lambda primals, tangents: (ramp(*primals), tangents[0] * (primals[0] > 0)))

# Residuals that are not what their program for one input says, and others that are hard to read.
HARD: dict[str, Callable[..., Any]] = {
    "both orders of a mixed derivative": lambda u_xt, u_tx: u_xt + u_tx,
    "their difference": lambda u_xt, u_tx, u: u_xt - u_tx + u,
    "number of inputs": lambda u: u / len(u),
    "size": lambda u, u_x: u_x + u / u.size,
    "precision": lambda u, u_x: u_x + u * (2.0 if u.dtype == np.float64 else 1.0),
    "coordinate with a rule of its own": lambda u_t, u_xx, x: u_t - (0.01 + jax.nn.relu(x - 0.5)) * u_xx,
    "another": lambda u_t, u_xx, x: u_t - ramp(x) * u_xx,
    "single precision only": lambda u_t, u, u_xx: u_t - jax.lax.select(u > 0, u_xx, jnp.zeros(u.shape, jnp.float32)),
    "jitted": jax.jit(lambda u_t, u_xx: u_t - 0.01 * u_xx),
    "varying and nonlinear": lambda u_t, u_xx, u, u_x, a, x: x * u_t - (1.0 + x) * u_xx + u * u_x - a + 3.0,
    "logarithm of the rest": lambda u_t, u, a: u_t - jnp.log(2.0 + u**2) - a,
    "division": lambda u_t, u, x: u_t / (1.0 + x) + 1.0 / (2.0 + u),
    "zero": lambda u_t, x: u_t - u_t + x,
    "pairs of points": lambda u: u[:, ::2] - u[:, 1::2],
}


@pytest.mark.parametrize("name", HARD)
def test_the_residual_is_what_its_function_says(name) -> None:
    """In single precision for three inputs: asked for in one piece or in many, and called directly."""
    residual, heat = HARD[name], make_problem("heat")
    block = Block("pde", heat.blocks[0].points[:300], residual)
    problem = dataclasses.replace(heat, blocks=(block,))
    operator = DeepONet(problem.inputs.size, 2, width=16, key=jax.random.key(1))
    a = problem.sample(3, key=jax.random.key(0))
    words = {name: word for name, (_, word) in problem.terms(block).solution.items()}
    u = operator.derivatives(a, jnp.asarray(block.points), tuple(dict.fromkeys(words.values())))
    known = {"a": a @ problem.inputs["a"].matrix(block.points[:, 0]).T.astype(np.float32), "x": block.points[:, 0]}
    given = {key: u[words[key]] if key in words else known[key] for key in block.parameters}
    expected = np.asarray(residual(**given))
    found = np.asarray(residual_map(operator, problem)(a)["pde"])
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=0, atol=3e-5 * max(1.0, np.abs(expected).max()))


@pytest.mark.parametrize("residual", [lambda u, a: (u - a)[:1], lambda u, a: (u - a).reshape(1, -1)])
def test_a_wrong_shape_is_still_named(residual) -> None:
    heat = make_problem("heat")
    problem = dataclasses.replace(heat, blocks=(Block("pde", heat.blocks[0].points[:5], residual),))
    operator = DeepONet(problem.inputs.size, 2, width=8, key=jax.random.key(1))
    with pytest.raises(ConfigError, match="must return"):
        residual_map(operator, problem)(problem.sample(3, key=jax.random.key(0)))


def test_the_heat_and_burgers_equations_are_asked_for_in_one_piece() -> None:
    with jax.enable_x64(True):
        heat, burgers = (block_queries(make_problem(name))[0] for name in ("heat", "burgers"))
    assert heat.combination == burgers.combination == {(1,): 1.0, (0, 0): -0.01}
    assert not heat.wanted and set(burgers.wanted) == {(), (0,)}
