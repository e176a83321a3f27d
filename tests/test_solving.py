"""Solving instead of training: right to rounding, on inputs that the problem's space holds and on rough ones."""

from __future__ import annotations

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from stablepdenet import Block, Box, LinearReference, make_problem, periodic_residual, points, solve
from stablepdenet.errors import ConfigError
from stablepdenet.operators import BoxFunctions, component, nested_derivatives
from stablepdenet.problems.physics import physics_loss, residual_map
from stablepdenet.solving import is_linear

SETTINGS: dict[str, dict[str, float]] = {"poisson": {}, "helmholtz-3.5pi": {}, "helmholtz-3pi+0.1": {}, "heat": {}}
# Clean and rough. Heat has five corner functions a side, which follow a rough boundary value less well.
BOUNDS = {"heat": (1e-5, 5e-4)}


def error(operator, problem, a):
    u = problem.require_reference()(np.asarray(a))
    return np.linalg.norm(np.asarray(operator(a, jnp.asarray(problem.grid))) - u) / np.linalg.norm(u)


@pytest.mark.parametrize("name", SETTINGS)
def test_a_linear_problem_is_solved_to_rounding(name):
    problem = make_problem(name, SETTINGS[name])
    operator = solve(problem)
    a = problem.sample(50, key=jax.random.key(1))
    clean, attacked = BOUNDS.get(name, (1e-6, 1e-4))
    assert error(operator, problem, a) < clean
    # Signs at random sensors, or coefficients: nothing that training would have shown it.
    rough = a + 0.1 * jax.random.rademacher(jax.random.key(2), a.shape).astype(a.dtype)
    assert error(operator, problem, rough) < attacked


def test_it_is_the_smallest_physics_loss():
    problem = dataclasses.replace(make_problem("poisson"), refinement_blocks=())
    operator = solve(problem)
    a = jax.random.normal(jax.random.key(0), (500, problem.inputs.size))

    def loss(matrix):
        changed = dataclasses.replace(operator, matrix=matrix)
        return float(jnp.mean(physics_loss(residual_map(changed, problem)(a), problem)))

    best = loss(operator.matrix)
    for seed in range(3):
        step = 1e-3 * jax.random.normal(jax.random.key(seed), operator.matrix.shape)
        assert loss(operator.matrix + step) > best


def test_a_source_of_its_own_is_kept():
    # -u_xx = a + 2, u = 0 at the ends: x (1 - x) is there without any input.
    x = points.uniform(50)
    problem = make_problem("poisson", {"interior": 200})
    pde = Block("pde", problem.blocks[0].points, lambda u_xx, a: -u_xx - a - 2.0)
    problem = dataclasses.replace(problem, blocks=(pde, problem.blocks[1]), refinement_blocks=())
    found = solve(problem)(jnp.zeros((1, problem.inputs.size)), jnp.asarray(x[:, None]))
    assert np.allclose(found[0], x * (1 - x), atol=1e-6)


def test_what_is_not_linear_is_refused():
    with pytest.raises(ConfigError, match="'burgers' is not linear"):
        solve(make_problem("burgers", {"interior": 50, "sides": 10}))
    product = Block("pde", points.hammersley(50), lambda u, u_xx, a: -u_xx - a * u)
    with pytest.raises(ConfigError, match="not linear"):
        problem = make_problem("poisson")
        solve(dataclasses.replace(problem, blocks=(product, problem.blocks[1])))


@pytest.mark.parametrize(
    "pde",
    [
        lambda u, u_xx, a: -u_xx + 5.67e-8 * u**4 - 1e6 - a,
        lambda u, u_xx, a: -u_xx + 10.0 * jnp.maximum(u - 100.0, 0.0) - a,
        lambda u, u_x, u_xx, a: -(1.0 + 1e-10 * u) * u_xx - 1e-10 * u_x**2 - a,
        lambda u, u_xx, a: -u_xx + jnp.clip(u, -0.01, 0.01) - a,
        lambda u, u_xx, a: -u_xx + jnp.exp(u) - a,
    ],
)
def test_nonlinearity_is_seen_whatever_the_unit(pde):
    problem = make_problem("poisson")
    assert not is_linear(
        dataclasses.replace(problem, blocks=(Block("pde", problem.blocks[0].points, pde),), refinement_blocks=())
    )


def test_a_large_source_and_small_units_are_linear():
    problem = make_problem("poisson")
    for pde in (lambda u_xx, a: -u_xx - 1e6 - a, lambda u, u_xx, a: 1e-9 * (-u_xx + 3.0 * u - a)):
        assert is_linear(
            dataclasses.replace(problem, blocks=(Block("pde", problem.blocks[0].points, pde),), refinement_blocks=())
        )


def transport(initial=64, times=(0.0, 0.5, 1.0)):
    """u_t + u_x / 2 = 0, u(x, 0) = a(x), on the characteristics' side: smooth, so that polynomials follow it."""
    poisson = make_problem("poisson")
    x = points.uniform(21)
    return dataclasses.replace(
        poisson,
        name="transport",
        domain=Box(x=(0, 1), t=(0, 1)),
        blocks=(
            Block("pde", points.hammersley(500, [(0.0, 1.0), (0.0, 1.0)]), lambda u_t, u_x: u_t + 0.5 * u_x),
            Block("ic", points.initial(points.uniform(initial)), lambda u, a: u - a),
        ),
        axes=(x, np.asarray(times)),
        refinement_blocks=(),
    )


def test_many_points_on_a_side_do_not_raise_the_degree():
    few, many = (solve(transport(initial)).matrix.shape for initial in (64, 5_000))
    assert few == many


def test_the_box_is_that_of_all_points():
    # Asked at the end only, the operator is the same.
    whole, end = (solve(transport(times=times)) for times in ((0.0, 1.0), (1.0,)))
    assert np.allclose(whole.matrix, end.matrix)


def test_what_polynomials_cannot_follow_is_said():
    heat = dataclasses.replace(make_problem("heat"), ansatz=None)
    with pytest.warns(UserWarning, match="of its residual is left"):
        solve(heat)


def test_legendre_products_are_orthonormal_on_their_box():
    nodes, weights = np.polynomial.legendre.leggauss(12)
    x, t = 2 + 1.5 * (nodes + 1), 0.5 * (nodes + 1)
    grid = np.stack([np.repeat(x, 12), np.tile(t, 12)], axis=1)
    with jax.enable_x64(True):
        values = np.asarray(BoxFunctions(Box(x=(2, 5), t=(0, 1)), (6, 5))(jnp.asarray(grid)))
    gram = values.T @ ((np.repeat(weights, 12) * np.tile(weights, 12) / 4)[:, None] * values)
    assert values.shape == (144, 30)
    assert np.allclose(gram, np.eye(30), atol=1e-12)


@pytest.mark.parametrize("index", [(), (0,), (0, 0), (1, 1, 1), (0, 1)])
def test_derivatives_of_box_functions_are_those_of_their_values(index):
    functions = BoxFunctions(Box(x=(2, 5), t=(0, 1), periodic="x"), (6, 5), components=2)
    where = points.hammersley(20, [(2, 5), (0, 1)])
    with jax.enable_x64(True):
        nested = nested_derivatives(component(functions, 1), jnp.asarray(where), [index])[index]
    assert np.allclose(functions.derivative(where, index, 1), nested, rtol=1e-10, atol=1e-9)


def test_a_lift_carries_the_initial_value():
    problem = make_problem("heat")
    assert isinstance(problem.reference, LinearReference)
    a = jax.random.normal(jax.random.key(5), (3, problem.inputs.size))
    start = jnp.asarray(points.initial(points.uniform(101)))
    assert np.allclose(solve(problem)(a, start), a, atol=2e-4)


def test_a_compiled_program_answers_the_same():
    # The corner functions jump: what a compiler reorders must not move a point over the jump.
    problem = make_problem("heat")
    operator, a = solve(problem), problem.sample(5, key=jax.random.key(6))
    u = problem.require_reference()(np.asarray(a))
    found = np.asarray(eqx.filter_jit(lambda o, a, points: o(a, points))(operator, a, jnp.asarray(problem.grid)))
    assert np.linalg.norm(found - u) < 1e-5 * np.linalg.norm(u)


def test_a_residual_may_use_numpy_on_its_coordinates():
    problem = make_problem("poisson", {"interior": 200})
    pde = Block("pde", problem.blocks[0].points, lambda u_xx, a, x: -u_xx - a - np.pi**2 * np.sin(np.pi * x))
    own = dataclasses.replace(problem, blocks=(pde, problem.blocks[1]), refinement_blocks=())
    x = points.uniform(50)
    found = solve(own)(jnp.zeros((1, problem.inputs.size)), jnp.asarray(x[:, None]))
    assert np.allclose(found[0], np.sin(np.pi * x), atol=1e-6)


def test_paired_points_count_once():
    # Too many conditions, so that weights matter. The physics loss has half as many periodic residuals as points:
    # whoever counts them twice minimises another loss, and one of these weights does better than the problem's own.
    problem = make_problem("poisson", {"sensors": 41, "interior": 30})
    pde = Block("pde", problem.blocks[0].points, lambda u, u_xx, a: u - u_xx - a)

    def weighted(weight):
        periodic = Block("periodic", points.boundary(), periodic_residual, weight=weight)
        return dataclasses.replace(problem, blocks=(pde, problem.blocks[1], periodic), refinement_blocks=())

    own, a = weighted(1.0), jnp.eye(41)
    losses = [float(jnp.mean(physics_loss(residual_map(solve(weighted(w)), own)(a), own))) for w in (0.5, 1.0, 2.0)]
    assert losses[1] < min(losses[0], losses[2])
