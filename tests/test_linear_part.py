"""The linear part of a residual: found where it is there, and never where it is not."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from stablepdenet.operators import FunctionOperator
from stablepdenet.physics import block_queries, residual_map
from stablepdenet.problems import Block, make_problem

POINTS = np.random.default_rng(0).uniform(size=(7, 2))
X, T = POINTS.T


def found(residual) -> dict:
    return Block("pde", POINTS, residual).linear_part(("x", "t"))


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
    result = found(residual)
    assert result.keys() == expected.keys()
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


def test_asked_in_pieces_or_in_one_the_residual_is_the_same() -> None:
    """Of a problem with a varying coefficient and a nonlinear term, against the residual written out."""
    problem = make_problem("heat")
    points = problem.blocks[0].points

    def residual(u_t, u_xx, u, u_x, a, x):
        return x * u_t - (1.0 + x) * u_xx + u * u_x - a + 3.0

    changed = Block("pde", points, residual)
    problem = type(problem)(**{**vars(problem), "blocks": (changed,)})
    assert block_queries(problem)[0].combination.keys() == {(1,), (0, 0)}
    with jax.enable_x64(True):
        a = problem.sample(2, key=jax.random.key(0)).astype(jnp.float64)
        solution = FunctionOperator(lambda a, p: a[:, :1] * jnp.sin(3 * p[:, 0]) * jnp.exp(-p[:, 1]))
        s, x, t = np.asarray(a)[:, :1], points[:, 0], points[:, 1]
        u, c = s * np.sin(3 * x) * np.exp(-t), s * 3 * np.cos(3 * x) * np.exp(-t)
        value = np.asarray(a) @ problem.input.matrix(x).T
        expected = -x * u + (1 + x) * 9 * u + u * c - value + 3
        np.testing.assert_allclose(residual_map(solution, problem)(a)["pde"], expected, rtol=0, atol=1e-11)
