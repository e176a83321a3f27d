"""Slopes: Jacobians of refined answers from their modes, beside those that are taken as they are."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from stablepdenet import Block, Box, GaussianField, Inputs, LogNormal, Problem, SensorInput, faster, points, refine
from stablepdenet.operators import AbstractBasisOperator
from stablepdenet.problems import periodic_residual
from stablepdenet.problems.physics import block_queries
from stablepdenet.refining.operator import SURE
from stablepdenet.refining.residuals import Part, all_tests, fields_of, jacobian
from stablepdenet.refining.slopes import States, _Assembly, derivatives, make_slopes

FUNCTIONS, SENSORS = 8, 6


class Sines(AbstractBasisOperator):
    """Sines, and no idea of their coefficients."""

    def coefficients(self, a):
        return 0.0 * a[:, :1] * jnp.ones(FUNCTIONS, a.dtype)

    def basis(self, points):
        return jnp.sin(jnp.pi * points * jnp.arange(1, FUNCTIONS + 1))


RESIDUALS = {
    "transport": lambda u, u_x, u_xx, k: u * u_x - u_xx - k,
    "cubic": lambda u, u_xx, k: u**3 - u_xx - k,
    "exponential": lambda u, u_xx, k: jnp.exp(u) - u_xx - k,
    "diffusion": lambda u_x, u_xx, k, k_x: -k * u_xx - k_x * u_x - 1.0,
    "a coordinate": lambda u, u_xx, k, x: jnp.sin(x) * u * u - (1 + x) * u_xx - k,
    "channels": lambda u, u_xx, k: jnp.stack([u * u - k, u_xx + k], axis=-1),
}
OTHERS = {
    "pairs": lambda u: u[:, :20] * u[:, 20:],
    "sums": lambda u, u_xx, k: u * jnp.sum(u, axis=1, keepdims=True) - u_xx - k,
}


def posed(residual, count=40):
    """A problem of one block; its input is positive."""
    inputs = Inputs(k=SensorInput(LogNormal(GaussianField(0.4, 0.2)), points.uniform(SENSORS)))
    return Problem("own", Box(x=(0, 1)), inputs, (Block("pde", points.hammersley(count), residual),))


def prepared(residual, states=30):
    """What slopes are made of, for random coefficients, with every function a direction."""
    problem, operator = posed(residual), Sines()
    a = problem.sample(states, key=jax.random.key(0))
    c = 0.5 * jax.random.normal(jax.random.key(1), (states, FUNCTIONS)) / jnp.arange(1, FUNCTIONS + 1) ** 2
    bases = [operator.features(query) for query in block_queries(problem)]
    parts = [Part(base, {index: entry[FUNCTIONS:] for index, entry in base.items()}, base) for base in bases]
    return problem, all_tests(operator, problem, parts, c[:1], a[:1]), parts, States(c, a)


def exact(problem, tests, parts, states):
    return np.stack(
        [
            jacobian(problem, tests, parts, fields_of(parts, c[None])[1], a[None])
            for c, a in zip(states.c, states.a, strict=True)
        ]
    )


@pytest.fixture
def wide():
    with jax.enable_x64(True):
        yield


@pytest.mark.parametrize("name", RESIDUALS)
def test_jacobians_are_linear_in_the_slopes_at_the_points(name, wide):
    problem, tests, parts, states = prepared(RESIDUALS[name], states=3)
    fields = fields_of(parts, states.c)[1]
    own = derivatives(problem, fields, states.a, [tuple(part.own) for part in parts])
    assembled = _Assembly(problem, tests, parts)
    for number, columns in enumerate(exact(problem, tests, parts, states)):
        found = assembled([{index: values[number] for index, values in each.items()} for each in own])
        assert np.allclose(found, columns, rtol=0, atol=1e-10 * np.abs(columns).max())


@pytest.mark.parametrize("name", RESIDUALS)
def test_modes_have_all_of_a_jacobian_but_what_lies_across_them(name, wide):
    problem, tests, parts, states = prepared(RESIDUALS[name])
    slopes = make_slopes(problem, tests, parts, states, alone=True)
    assert slopes is not None
    columns = exact(problem, tests, parts, states)
    found = np.asarray(slopes(problem, fields_of(parts, states.c)[1], states.a))
    modes = np.asarray(slopes.modes[1:])
    size = np.abs(columns).max()
    assert np.allclose(np.einsum("mpt,npt->mn", modes, modes), np.eye(len(modes)), atol=1e-8)
    assert np.allclose(np.einsum("spt,mpt->sm", found - columns, modes), 0.0, atol=1e-9 * size)
    assert np.max(np.abs(found - columns)) < 1e-2 * size


def test_an_equation_of_degree_two_has_as_many_modes_as_numbers(wide):
    problem, tests, parts, states = prepared(RESIDUALS["diffusion"], states=60)
    slopes = make_slopes(problem, tests, parts, states, alone=True)
    assert slopes is not None and len(slopes.modes) <= 1 + SENSORS
    linear = make_slopes(*prepared(lambda u, u_xx, k: u - u_xx - k), alone=True)
    assert linear is not None and len(linear.modes) == 1 and linear.inverse is not None


@pytest.mark.parametrize("name", OTHERS)
def test_residuals_of_other_points_than_their_own_have_none(name, wide):
    assert make_slopes(*prepared(OTHERS[name]), alone=False) is None


def test_pairs_that_are_linear_have_them(wide):
    slopes = make_slopes(*prepared(periodic_residual), alone=False)
    assert slopes is not None and slopes.inverse is not None


@pytest.mark.parametrize(("name", "steps"), [("transport", 3), ("cubic", 3), ("exponential", 3), ("diffusion", 1)])
def test_answers_are_those_without_modes(name, steps):
    problem = posed(RESIDUALS[name])
    refined = faster(refine(Sines(), problem, steps=steps, further=8))
    assert refined.slopes is not None
    slow = dataclasses.replace(refined, slopes=None)
    a = problem.sample(150, key=jax.random.key(7))
    rough = a * (1 + 0.2 * jax.random.rademacher(jax.random.key(8), a.shape, a.dtype))
    for inputs in (a, rough):
        one, other = (np.asarray(each.coefficients(inputs)) for each in (refined, slow))
        apart = np.linalg.norm(one - other, axis=1) / np.linalg.norm(other, axis=1)
        assert np.max(apart) < 1e-3
        assert np.median(apart) < 1e-5


def test_inputs_that_the_modes_do_not_know_are_answered_without_them():
    problem = posed(RESIDUALS["cubic"])
    refined = faster(refine(Sines(), problem, steps=2))
    far = 300.0 * problem.sample(5, key=jax.random.key(9))
    assert np.any(~(np.asarray(refined.by_slopes(refined.operator.coefficients(far), far).unsure) <= SURE))
    near = problem.sample(5, key=jax.random.key(10))
    a = jnp.concatenate([far, near])
    slow = dataclasses.replace(refined, slopes=None)
    assert np.allclose(refined.coefficients(a), slow.coefficients(a), rtol=2e-3, atol=1e-5)


@pytest.mark.parametrize("name", ["transport", "exponential", "diffusion"])
def test_gradients_are_those_of_the_answers(name, wide):
    problem = posed(RESIDUALS[name])
    refined = faster(refine(Sines(), problem, steps=3))
    assert refined.slopes is not None
    a = problem.sample(3, key=jax.random.key(11))
    along = jax.random.normal(jax.random.key(12), a.shape)
    weights = jax.random.normal(jax.random.key(13), (3, FUNCTIONS))

    @jax.jit
    def value(a):
        return jnp.sum(weights * refined.coefficients(a))

    slope = jnp.sum(jax.grad(value)(a) * along)
    forward = jax.jvp(value, (a,), (along,))[1]
    differences = (value(a + 1e-4 * along) - value(a - 1e-4 * along)) / 2e-4
    assert np.allclose([slope, forward], differences, rtol=1e-4)
