"""Problems of a user's own, in several dimensions, with several inputs and components: all of the way."""

from __future__ import annotations

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from pde_cases import CASES, LINEAR

import stablepdenet as sp
from stablepdenet import points
from stablepdenet.errors import ConfigError
from stablepdenet.operators import AbstractOperator, BoxFunctions, LinearOperator, Query
from stablepdenet.problems.physics import block_norms, block_queries, residual_map
from stablepdenet.solving import is_linear

cases = pytest.mark.parametrize("name", CASES)


def network(problem, width):
    """A DeepONet that nobody trained."""
    sizes, components = (problem.inputs.size, problem.domain.dimension), len(problem.solution)
    return sp.DeepONet(*sizes, width=width, components=components, key=jax.random.key(0))


@cases
def test_the_exact_solution_zeroes_every_block(name):
    case = CASES[name]()
    with jax.enable_x64(True):
        a = jnp.asarray(case.a, jnp.float64)
        norms = block_norms(residual_map(case.exact(), case.problem)(a))
        assert set(norms) == {block.name for block in case.problem.blocks}
        for block, norm in norms.items():
            assert float(jnp.sqrt(norm[0])) < 1e-8, block


@cases
def test_taylor_derivatives_are_nested_ones_for_every_component(name):
    problem = CASES[name]().problem
    with jax.enable_x64(True):
        operator = sp.DeepONet(
            problem.inputs.size,
            problem.domain.dimension,
            width=8,
            components=len(problem.solution),
            key=jax.random.key(0),
        )
        a = problem.sample(2, key=jax.random.key(1)).astype(jnp.float64)
        queries = block_queries(problem)
        taylor, nested = operator.prepare(queries)(a), AbstractOperator.prepare(operator, queries)(a)
        for fields, others in zip(taylor, nested, strict=True):
            assert fields.keys() == others.keys()
            for word in fields:
                np.testing.assert_allclose(fields[word], others[word], rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("name", LINEAR)
def test_a_linear_one_is_solved(name):
    case = CASES[name]()
    operator, grid = sp.solve(case.problem), jnp.asarray(points.hammersley(200, case.problem.domain.intervals))
    found, exact = operator(case.a, grid), case.exact()(case.a, grid)
    assert found.shape == exact.shape
    # The exact solutions are polynomials or a few waves: what is left is float32, and waves on polynomials.
    assert np.linalg.norm(found - exact) < 2e-4 * np.linalg.norm(exact)


def test_what_is_not_linear_is_told_apart():
    assert {name for name in CASES if is_linear(CASES[name]().problem)} == set(LINEAR)


@pytest.mark.parametrize("name", ["flux", *(pytest.param(n, marks=pytest.mark.long) for n in ("coefficient", "pair"))])
def test_steps_on_fixed_functions_find_the_solution(name):
    case = CASES[name]()
    counts = (8,) * case.problem.domain.dimension
    functions = BoxFunctions(case.problem.domain, counts, len(case.problem.solution))
    size = 8**case.problem.domain.dimension * len(case.problem.solution)
    operator = LinearOperator(np.zeros((case.problem.inputs.size, size)), np.ones(size), functions, None)
    refined = sp.refine(operator, case.problem, steps=4)
    grid = jnp.asarray(points.hammersley(100, case.problem.domain.intervals))
    exact = case.exact()(case.a, grid)
    errors = [float(jnp.linalg.norm(each(case.a, grid) - exact)) for each in (operator, refined)]
    assert errors[1] < 1e-3 * float(jnp.linalg.norm(exact)) < errors[0]


SLOW = [pytest.param(name, marks=pytest.mark.long) for name in ("poisson_2d", "heat_three_inputs", "wave_system")]


@pytest.mark.parametrize("name", [*SLOW, pytest.param("pair", marks=pytest.mark.long), "flux"])
def test_the_stable_objective_trains_a_few_steps(name):
    problem = dataclasses.replace(CASES[name]().problem, attack=sp.PGD(sp.LinfBall(0.05), steps=2))
    small = {"operator.width": 8, "training.functions": 8, "training.batch": 4, "training.validation": 4}
    changes = {"method.name": "stable", "training.steps": 6, "training.warmup": 2, "training.refresh": 2, **small}
    state = sp.train(problem, sp.configure(problem, changes))
    grid = jnp.asarray(points.hammersley(5, problem.domain.intervals))
    u = state.trained(problem.sample(3, key=jax.random.key(0)), grid)
    components = (len(problem.solution),) if len(problem.solution) > 1 else ()
    assert u.shape == (3, 5, *components) and bool(jnp.all(jnp.isfinite(u)))


@pytest.mark.long
def test_an_audit_measures_each_component_and_all_together():
    case = CASES["wave_system"]()
    axes = (points.uniform(9), points.uniform(11))

    def reference(a):
        x, t = points.grid(*axes).T
        n = np.arange(1, 4)
        sines = np.sqrt(2.0) * np.sin(np.pi * np.outer(x, n))
        u, v = sines * np.cos(np.pi * np.outer(t, n)), -np.pi * n * sines * np.sin(np.pi * np.outer(t, n))
        return np.stack([a @ u.T, a @ v.T], axis=-1)

    problem = dataclasses.replace(case.problem, reference=reference, axes=axes, attack=sp.PGD(sp.LinfBall(0.05)))
    found = sp.audit({"solved": sp.solve(problem)}, problem, parts=["errors"], tests=5)
    for metric in ("relative_l2", "relative_l2.u", "relative_l2.v"):
        assert found.value(metric, method="solved") < 1e-3
        assert found.value(metric, method="solved", attack="common", setting="0.05") < 1e-3
    # Squares of the whole are those of the parts.
    whole = sp.audit(
        {"zero": lambda a, x: jnp.zeros((len(a), len(x), 2))}, problem, parts=["errors"], tests=5, eps=[0.1]
    )
    assert whole.value("relative_l2", method="zero") == pytest.approx(1.0)
    assert whole.value("relative_l2.u", method="zero") == pytest.approx(1.0)


class OwnNetwork(AbstractOperator):
    """A user's network: one multilayer perceptron on input and point."""

    layers: tuple[eqx.nn.Linear, ...]

    def __init__(self, inputs, dimension, *, key):
        keys = jax.random.split(key)
        self.layers = (
            eqx.nn.Linear(inputs + dimension, 16, key=keys[0]),
            eqx.nn.Linear(16, 1, key=keys[1]),
        )

    def __call__(self, a, points):
        def one(row, point):
            return self.layers[1](jnp.tanh(self.layers[0](jnp.concatenate([row, point]))))[0]

        return jax.vmap(lambda row: jax.vmap(lambda point: one(row, point))(points))(a)


def test_a_network_of_ones_own_has_residuals_with_gradients():
    problem = CASES["coefficient"]().problem
    network = OwnNetwork(problem.inputs.size, 1, key=jax.random.key(0))
    a = problem.sample(2, key=jax.random.key(1))

    def loss(network):
        return sum(jnp.sum(norm) for norm in block_norms(residual_map(network, problem)(a)).values())

    gradient = jax.grad(loss)(network)
    assert all(bool(jnp.any(leaf != 0)) for leaf in jax.tree.leaves(gradient.layers[0]))


# ---------------------------------------------------------------------------------------------------------- Refusals


def one(**changes):
    return dataclasses.replace(CASES["coefficient"]().problem, **changes)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"solution": ("k",)}, "two of coordinates"),
        ({"blocks": (sp.Block("pde", np.zeros((1, 1)), lambda w_x: w_x),)}, "w_x"),
        ({"blocks": (sp.Block("pde", np.zeros((1, 1)), lambda u_t: u_t),)}, "u_t"),
        ({"blocks": (sp.Block("pde", np.zeros((1, 1)), lambda x: x),)}, "neither"),
        ({"blocks": (sp.Block("pde", np.full((1, 1), 1.5), lambda u: u),)}, "outside"),
        ({"axes": (points.uniform(3),) * 2}, "axes"),
    ],
)
def test_a_problem_that_makes_no_sense_is_refused(changes, words):
    with pytest.raises(ConfigError, match=words):
        one(**changes)


def test_unsorted_sensors_are_refused():
    with pytest.raises(ConfigError, match="increasing"):
        sp.SensorInput(sp.GaussianField(), np.array([0.0, 1.0, 0.5]))


def test_a_second_derivative_of_sensors_is_refused():
    block = sp.Block("pde", points.hammersley(5), lambda u, k_xx: u - k_xx)
    problem = one(blocks=(block,))
    with pytest.raises(ConfigError, match="second derivative"):
        residual_map(CASES["coefficient"]().exact(), problem)(problem.sample(1, key=jax.random.key(0)))


def test_an_audit_without_a_reference_says_what_is_missing():
    problem = one(attack=sp.PGD(sp.LinfBall(0.1)), axes=(points.uniform(5),))
    with pytest.raises(ConfigError, match="reference"):
        sp.audit(lambda a, x: jnp.zeros((len(a), len(x))), problem, parts=["errors"])


def test_a_reference_in_the_wrong_order_is_refused():
    axes = (points.uniform(9), points.uniform(9))
    n = np.arange(1, 4)
    space, time = np.sqrt(2.0) * np.sin(np.pi * np.outer(n, axes[0])), np.cos(np.pi * np.outer(n, axes[1]))

    def right(a):
        return np.einsum("bn,nx,nt->bxt", a, space, time)

    def turned(a):
        return right(a).transpose(0, 2, 1).reshape(len(a), -1)

    problem = dataclasses.replace(CASES["wave"]().problem, reference=right, axes=axes, attack=sp.PGD(sp.LinfBall(0.1)))
    zero = {"zero": lambda a, x: jnp.zeros((len(a), len(x)))}
    assert sp.audit(zero, problem, parts=["errors"], tests=3, eps=[0.1]).rows
    with pytest.raises(ConfigError, match="slowest"):
        sp.audit(zero, dataclasses.replace(problem, reference=turned), parts=["errors"], tests=3)


def test_a_reference_with_one_axis_for_each_coordinate_is_taken():
    case = CASES["boundary_data"]()
    axes = (points.uniform(7), points.uniform(12))
    problem = dataclasses.replace(
        case.problem,
        reference=lambda a: np.broadcast_to(axes[0][:, None] ** 2 / 2 + axes[1], (len(a), 7, 12)),
        axes=axes,
        attack=sp.PGD(sp.LinfBall(0.1)),
    )
    found = sp.audit(case.exact(), problem, parts=["errors"], tests=3, eps=[0.1])
    assert found.value("relative_l2", method="model") < 1e-6


def test_points_of_another_number_of_columns_are_refused():
    operator = sp.solve(CASES["neumann_robin"]().problem)
    a = jnp.zeros((1, 17))
    with pytest.raises(ConfigError, match="columns"):
        operator(a, jnp.zeros((4, 2)))


def test_queries_keep_their_component():
    problem = CASES["flux"]().problem
    assert [query.component for query in block_queries(problem)] == [0, 1, 1, 0]
    assert all(isinstance(query, Query) for query in block_queries(problem))


def test_a_network_sees_its_domain_not_its_units():
    here, there = sp.Box(x=(0, 1), t=(0, 1)), sp.Box(x=(1000, 1002), t=(-1, 0))
    near, far = (sp.DeepONet(3, 2, width=8, domain=domain, key=jax.random.key(0)) for domain in (here, there))
    a, unit = jnp.ones((2, 3)), jnp.asarray(points.hammersley(7, [(0, 1), (0, 1)]))
    with jax.enable_x64(True):
        near, far = (jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float64), each) for each in (near, far))
        a, unit = jnp.asarray(a, jnp.float64), jnp.asarray(unit, jnp.float64)
        moved = jnp.stack([1000 + 2 * unit[:, 0], unit[:, 1] - 1], axis=1)
        ours, theirs = near.derivatives(a, unit, [(), (0,), (0, 0)]), far.derivatives(a, moved, [(), (0,), (0, 0)])
        for word, scale in {(): 1.0, (0,): 2.0, (0, 0): 4.0}.items():
            np.testing.assert_allclose(ours[word], scale * theirs[word], rtol=1e-8, atol=1e-10)
