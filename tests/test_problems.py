"""Exact solutions zero every block, gradients agree with differences, references solve what they claim."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from stablepdenet import points
from stablepdenet.errors import ConfigError
from stablepdenet.experiments.problems import PROBLEMS, make_problem
from stablepdenet.operators import DeepONet, FunctionOperator, ModifiedDeepONet
from stablepdenet.problems import Block, Problem
from stablepdenet.problems.physics import block_norms, physics_loss, residual_map, weighted_sum

NU = 0.01


def _cole_hopf(c, x, t, nu=NU):
    """u = -2 nu phi_x / phi with phi = 1 + c exp(-4 pi^2 nu t) cos 2 pi x."""
    decay = c * jnp.exp(-4 * jnp.pi**2 * nu * t)
    return 4 * jnp.pi * nu * decay * jnp.sin(2 * jnp.pi * x) / (1 + decay * jnp.cos(2 * jnp.pi * x))


def _heat(a, xt):
    """a sampled from s sin(pi x) decays with its eigenvalue; s is read off the middle sensor."""
    return a[:, 50:51] * jnp.sin(jnp.pi * xt[:, 0]) * jnp.exp(-0.01 * jnp.pi**2 * xt[:, 1])


def _poisson(a, x):
    """-u'' = p + q x, u(0) = u(1) = 0."""
    p, q, x = a[:, :1], a[:, -1:] - a[:, :1], x[:, 0]
    return p * x * (1 - x) / 2 + q * x * (1 - x**2) / 6


def _helmholtz(kappa):
    def solution(a, x):
        n = jnp.arange(1, 11) * jnp.pi
        return (a / (n**2 - kappa**2)) @ (jnp.sqrt(2.0) * jnp.sin(n[:, None] * x[:, 0]))

    return solution


def _exact(name):
    """An analytic solution and inputs that the sensors represent exactly."""
    x101 = np.linspace(0, 1, 101)
    amplitudes = np.array([[1.0], [-0.7], [2.5]])
    if name == "heat":
        return _heat, amplitudes * np.sin(np.pi * x101)
    if name == "poisson":
        return _poisson, np.array([[1.0], [-2.0], [0.3]]) + np.array([[0.5], [1.0], [-4.0]]) * np.linspace(0, 1, 100)
    if name == "burgers":
        c = np.array([[0.5], [-0.3], [0.8]])
        # The operator recovers c from the input itself: a(1/4) = 4 pi nu c, as cos(pi/2) = 0.
        return (
            lambda a, xt: _cole_hopf(a[:, 25:26] / (4 * jnp.pi * NU), xt[:, 0], xt[:, 1]),
            np.asarray(_cole_hopf(c, x101, 0.0)),
        )
    kappa = {"3.5pi": 3.5 * np.pi, "3pi+0.5": 3 * np.pi + 0.5, "3pi+0.1": 3 * np.pi + 0.1}[name.split("-")[1]]
    return _helmholtz(kappa), np.random.default_rng(0).normal(size=(3, 10))


NAMES = [name for name in PROBLEMS if name != "helmholtz"]


@pytest.mark.parametrize("name", NAMES)
def test_exact_solutions_zero_every_residual_block(name):
    with jax.enable_x64(True):
        problem = make_problem(name)
        solution, inputs = _exact(name)
        residuals = residual_map(FunctionOperator(solution), problem)(jnp.asarray(inputs, jnp.float64))
        assert set(residuals) == {block.name for block in problem.blocks}
        for block, residual in residuals.items():
            assert float(jnp.max(jnp.abs(residual))) < 1e-8, block


@pytest.mark.parametrize("name", NAMES)
def test_a_wrong_solution_does_not_zero_the_blocks(name):
    # Guards the test above: each block must be able to see an error.
    with jax.enable_x64(True):
        problem = make_problem(name)
        solution, inputs = _exact(name)

        def wrong(a, p):
            return solution(a, p) + 0.1 * jnp.exp(p[:, 0]) * (1 + p[:, -1])

        norms = block_norms(residual_map(FunctionOperator(wrong), problem)(jnp.asarray(inputs, jnp.float64)))
        assert all(float(jnp.min(norm)) > 1e-6 for norm in norms.values())


@pytest.mark.parametrize("name", NAMES)
def test_references_agree_with_the_analytic_solutions(name):
    problem = make_problem(name)
    solution, inputs = _exact(name)
    with jax.enable_x64(True):
        expected = np.asarray(solution(jnp.asarray(inputs), jnp.asarray(problem.grid)))
    # Heat and Burgers inputs are smooth, the references solve for their interpolant: h^2 max|a''| / 8.
    curvature = np.max(np.abs(np.diff(inputs, 2, axis=1))) / 8 if name in ("heat", "burgers") else 0.0
    assert np.max(np.abs(problem.require_reference()(inputs) - expected)) < 1e-12 + 1.5 * curvature


@pytest.mark.parametrize("name", ["heat", "poisson", "burgers", "helmholtz"])
@pytest.mark.parametrize("kind", [DeepONet, ModifiedDeepONet])
def test_gradient_of_the_loss_in_the_input_agrees_with_central_differences(name, kind):
    with jax.enable_x64(True):
        problem = make_problem(name, {"interior": 40})
        operator = kind(problem.inputs.size, problem.domain.dimension, width=16, key=jax.random.key(0))
        residuals = residual_map(operator, problem)

        def loss(a):
            return jnp.sum(physics_loss(residuals(a), problem))

        a = problem.sample(2, key=jax.random.key(1)).astype(jnp.float64)
        direction = jax.random.normal(jax.random.key(2), a.shape, jnp.float64)
        slope = float(jnp.vdot(jax.grad(loss)(a), direction))
        h = 1e-5
        difference = float(loss(a + h * direction) - loss(a - h * direction)) / (2 * h)
        assert abs(slope - difference) < 1e-6 * abs(difference)


def test_taylor_and_fallback_give_the_same_residuals():
    with jax.enable_x64(True):
        problem = make_problem("burgers", {"interior": 50})
        operator = DeepONet(101, 2, width=16, key=jax.random.key(0))
        a = problem.sample(3, key=jax.random.key(1)).astype(jnp.float64)
        taylor = residual_map(operator, problem)(a)
        nested = residual_map(FunctionOperator(operator.__call__), problem)(a)
        assert all(float(jnp.max(jnp.abs(taylor[k] - nested[k]))) < 1e-10 for k in taylor)


def test_physics_loss_is_the_weighted_sum_of_mean_squares():
    problem = make_problem("poisson")
    residuals = {"pde": jnp.array([[1.0, 3.0], [0.0, 2.0]]), "bc": jnp.array([[1.0, 0.0], [2.0, 2.0]])}
    # The boundary block of Poisson is the sum over the ends: weight 2 on the mean.
    assert np.allclose(physics_loss(residuals, problem), [5.0 + 1.0, 2.0 + 8.0])


def test_channels_are_summed_and_points_averaged():
    residual = jnp.array([[[1.0, 2.0], [0.0, 1.0], [3.0, 0.0]]])
    assert np.allclose(block_norms({"bc": residual})["bc"], [(5 + 1 + 9) / 3])


@pytest.mark.parametrize("name", NAMES)
def test_the_perturbation_enters_every_block_that_contains_the_input(name):
    with jax.enable_x64(True):
        problem = make_problem(name)
        zero = FunctionOperator(lambda a, p: jnp.zeros((len(a), len(p))))
        residuals = residual_map(zero, problem)
        a = problem.sample(2, key=jax.random.key(0))
        delta = 0.01 * problem.sample(2, key=jax.random.key(1))
        for block in problem.blocks:
            change = residuals(a + delta)[block.name] - residuals(a)[block.name]
            if "a" in block.parameters:
                assert np.allclose(
                    change, -delta @ problem.inputs["a"].matrix(block.points[:, 0]).T, rtol=0, atol=1e-13
                )
            else:
                assert float(jnp.max(jnp.abs(change))) == 0.0


def test_paper_sizes_are_the_defaults():
    sizes = {
        name: (p.inputs.size, {b.name: len(b.points) for b in p.blocks}, p.functions, p.batch, p.tests, len(p.grid))
        for name, p in ((name, make_problem(name)) for name in ("heat", "poisson", "burgers", "helmholtz"))
    }
    assert sizes == {
        "heat": (101, {"pde": 1000, "bc": 40, "ic": 101}, 1000, 100, 2000, 101 * 100),
        "poisson": (100, {"pde": 100, "bc": 2}, 100, 100, 2000, 100),
        "burgers": (101, {"pde": 1000, "bc": 200, "ic": 101}, 1000, 50, 1000, 101 * 101),
        "helmholtz": (10, {"pde": 1000, "bc": 2}, 1000, 50, 2000, 257),
    }


def test_helmholtz_boundary_weight_follows_the_resonance_rule():
    for name, eta in (("3.5pi", 0.5 * np.pi), ("3pi+0.5", 0.5), ("3pi+0.1", 0.1)):
        weights = {b.name: b.weight for b in make_problem(f"helmholtz-{name}").blocks}
        assert np.isclose(weights["bc"], 2 / np.sin(eta) ** 2)


def test_sizes_of_the_solutions_match_the_papers():
    # rms(u) that the paper's tables imply, and the sampling error of 1,000 functions.
    for name, rms, tolerance in (("heat", 0.909, 0.05), ("poisson", 0.0628, 0.03), ("burgers", 0.160, 0.06)):
        problem = make_problem(name)
        u = problem.require_reference()(np.asarray(problem.sample(1000, key=jax.random.key(5))))
        assert abs(np.sqrt(np.mean(u**2)) / rms - 1) < tolerance, name


def test_a_coordinate_can_enter_a_residual():
    problem = make_problem("poisson")
    block = Block("pde", points.hammersley(7), lambda u, x: u * np.sqrt(x**2))
    only = Problem(**{**vars(problem), "blocks": (block,), "refinement_blocks": ()})
    one = FunctionOperator(lambda a, p: jnp.ones((len(a), len(p))))
    residual = residual_map(one, only)(jnp.zeros((2, 100)))["pde"]
    assert np.allclose(residual, np.tile(block.points[:, 0], (2, 1)))
    assert weighted_sum(block_norms({"pde": residual}), only).shape == (2,)


@pytest.mark.parametrize("residual", [lambda u: u.mean(1), lambda u: 0.0, lambda u: u.T])
def test_a_residual_of_the_wrong_shape_is_refused_by_its_block(residual):
    problem = make_problem("poisson")
    wrong = Problem(
        **{**vars(problem), "blocks": (Block("pde", points.hammersley(7), residual),), "refinement_blocks": ()}
    )
    one = FunctionOperator(lambda a, p: jnp.ones((len(a), len(p))))
    with pytest.raises(ConfigError, match="block 'pde'"):
        residual_map(one, wrong)(jnp.zeros((2, 100)))


def test_the_fingerprint_follows_the_physics_and_nothing_else():
    first = make_problem("heat").fingerprint
    assert make_problem("heat").fingerprint == first
    others = [make_problem("heat", o) for o in ({"alpha": 0.02}, {"interior": 999}, {"sensors": 51}, {"sides": 20})]
    assert len({first, *(problem.fingerprint for problem in others)}) == 5


@pytest.mark.parametrize(
    "block, word",
    [
        (Block("pde", np.zeros((3, 1)), lambda u_tt: u_tt), "u_tt"),
        (Block("pde", np.zeros((3, 1)), lambda v: v), "'v'"),
        (Block("pde", np.zeros((3, 2)), lambda u: u), "shape"),
        (Block("pde", np.zeros((3, 1)), lambda u: u, weight=0.0), "weight"),
    ],
)
def test_a_block_that_cannot_be_evaluated_is_refused_by_name(block, word):
    own = {
        **vars(make_problem("poisson")),
        "blocks": (Block("pde", np.zeros((3, 1)), lambda u: u),),
        "refinement_blocks": (),
    }
    Problem(**own)
    for field in ("blocks", "refinement_blocks"):
        with pytest.raises(ConfigError, match=word):
            Problem(**{**own, field: (block,)})


def test_fine_blocks_are_the_problems_own():
    problem = make_problem("poisson")
    with pytest.raises(ConfigError, match="refinement_blocks must have the blocks pde, bc"):
        dataclasses.replace(problem, refinement_blocks=problem.refinement_blocks[:1])


@pytest.mark.parametrize(
    "name, options, word",
    [
        ("poison", {}, "Did you mean 'poisson'"),
        ("heat", {"beta": 1.0}, "problem.beta"),
        ("heat", {"alpha": -1.0}, "problem.alpha"),
        ("heat", {"interior": 10.5}, "problem.interior"),
        ("heat", {"alpha": float("nan")}, "problem.alpha"),
        ("helmholtz", {"kappa": 3 * np.pi}, "problem.kappa"),
        ("helmholtz", {"kappa": 11 * np.pi}, "problem.kappa"),
        ("burgers", {"interior": True}, "problem.interior"),
        ("helmholtz-3.5pi", {"kappa": 2.0}, "problem.kappa"),
    ],
)
def test_impossible_problems_are_refused_by_name(name, options, word):
    with pytest.raises(ConfigError, match=word):
        make_problem(name, options)
