"""Balls: projections and directions against brute force, and products of them on a problem of two inputs."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import partial
from itertools import combinations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from attack_cases import KEY, MODAL, SENSOR, attack_jitted, modal_inputs, sensor_inputs
from jaxtyping import Array
from pde_cases import CASES
from scipy.optimize import minimize

import stablepdenet as sp
from stablepdenet.attacks import AbstractBall, Search, apgd, pgd, random_search, white_noise
from stablepdenet.errors import ConfigError
from stablepdenet.problems.physics import physics_loss, residual_map

EPS = 0.3
BALLS: dict[str, AbstractBall] = {
    "linf": sp.LinfBall(EPS),
    "l1": sp.L1Ball(EPS),
    "sparse": sp.SparseBall(EPS, count=2),
    "band": sp.BandLimitedBall(EPS, MODAL, band=6),
}
SEARCHES: dict[str, Search] = {"pgd": pgd, "apgd": apgd, "random": partial(random_search, evaluations=50)}


def rows(width: int) -> np.ndarray:
    """From inside of the balls to far outside, with zeros and ties."""
    z = np.random.default_rng(0).normal(size=(30, width)) * np.geomspace(0.01, 3, 30)[:, None]
    z[::4, 1] = 0.0
    z[-1, :2] = z[-1, 2]
    return z


# ------------------------------------------------------------------------------------------------------ Brute force


def nearest_l1(z: np.ndarray) -> np.ndarray:
    """As the difference of two parts that are not negative: a quadratic program."""
    m = len(z)
    found = minimize(
        lambda p: np.sum((p[:m] - p[m:] - z) ** 2),
        np.zeros(2 * m),
        jac=lambda p: 2 * np.concatenate([p[:m] - p[m:] - z, z - p[:m] + p[m:]]),
        bounds=[(0, None)] * (2 * m),
        constraints=[{"type": "ineq", "fun": lambda p: EPS - p.sum(), "jac": lambda p: -np.ones(2 * m)}],
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 500},
    )
    return found.x[:m] - found.x[m:]


def nearest_sparse(z: np.ndarray) -> np.ndarray:
    """Over all choices of two entries."""
    candidates = []
    for chosen in combinations(range(len(z)), 2):
        candidate = np.zeros_like(z)
        candidate[list(chosen)] = np.clip(z[list(chosen)], -EPS, EPS)
        candidates.append(candidate)
    return min(candidates, key=lambda candidate: float(np.sum((candidate - z) ** 2)))


@pytest.mark.parametrize(("name", "nearest"), [("l1", nearest_l1), ("sparse", nearest_sparse)])
def test_a_projection_is_the_nearest_point(name: str, nearest: Callable[[np.ndarray], np.ndarray]) -> None:
    z = rows(5)
    with jax.enable_x64(True):
        projected = np.asarray(BALLS[name].project(jnp.asarray(z), jnp.zeros_like(z)))
        again = np.asarray(BALLS[name].project(jnp.asarray(projected), jnp.zeros_like(z)))
    for row, found in zip(z, projected, strict=True):
        expected = nearest(row)
        # Where entries tie, several points are nearest: distances decide.
        assert np.isclose(np.linalg.norm(found - row), np.linalg.norm(expected - row), rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(again, projected, rtol=0, atol=1e-15)
    assert np.any(projected != z) and np.any(np.all(projected == z, axis=1)) == (name == "l1")


@pytest.mark.parametrize("name", BALLS)
def test_no_direction_of_norm_one_ascends_faster(name: str) -> None:
    ball, gradient = BALLS[name], rows(6)
    a = np.ones((len(gradient), 10 if name == "band" else 6))
    with jax.enable_x64(True):
        direction = np.asarray(ball.normalise(jnp.asarray(gradient)))
        np.testing.assert_allclose(ball.norm(jnp.asarray(direction)), 1.0, rtol=1e-9)
        radius = np.asarray(ball.radius(jnp.asarray(a)))
        ascent = np.sum(direction * gradient, axis=1)
        for key in jax.random.split(KEY, 50):
            z = jnp.asarray(np.asarray(jax.random.normal(key, gradient.shape)) * 10)
            other = np.asarray(ball.project(z, jnp.asarray(a))) / radius
            assert np.all(np.sum(other * gradient, axis=1) <= ascent * (1 + 1e-9))


@pytest.mark.parametrize("name", BALLS)
def test_starts_lie_in_the_ball_and_follow_the_key(name: str) -> None:
    ball = BALLS[name]
    a = jnp.asarray(modal_inputs(), jnp.float32)
    first, same, other = (ball.project(ball.start(a, key=jax.random.key(i)), a) for i in (1, 1, 2))
    assert np.array_equal(first, same) and np.all(np.any(np.asarray(first != other), axis=1))
    assert np.all(np.asarray(ball.norm(first) <= ball.radius(a) * (1 + 1e-6)))


# ---------------------------------------------------------------------------------------- Any ball, set and search

PRODUCT = sp.Inputs(k=SENSOR, c=MODAL, g=SENSOR)
FAMILY = {
    "l1": (sp.L1Ball(EPS), sensor_inputs()),
    "sparse": (sp.SparseBall(EPS, count=3), sensor_inputs()),
    "product": (
        sp.ProductBall(PRODUCT, {"c": sp.BandLimitedBall(0.1, MODAL, band=4), "k": sp.SparseBall(0.2, count=2)}),
        np.concatenate([sensor_inputs(), modal_inputs(), sensor_inputs()], axis=1),
    ),
}
SETS = {"free": sp.Unrestricted(), "range": sp.ValueRange(0.5, 1.5), "periodic": sp.PeriodicEndpoints()}


def admissible(kind: str, name: str) -> sp.AbstractAdmissibleSet:
    return sp.ProductSet(PRODUCT, {"k": SETS[kind]}) if name == "product" else SETS[kind]


@pytest.mark.parametrize("kind", SETS)
@pytest.mark.parametrize("name", FAMILY)
def test_every_ball_goes_with_every_set(name: str, kind: str) -> None:
    """Whatever a search proposes is projected: from anywhere, into both."""
    ball, clean = FAMILY[name]
    attack, a = sp.PGD(ball, admissible(kind, name)), jnp.asarray(np.tile(clean, (10, 1)), jnp.float32)
    z = jax.random.normal(KEY, (len(a), ball.size(a.shape[1]))) * jnp.geomspace(0.01, 10, len(a))[:, None]
    check(attack, a, *jax.jit(lambda z, a: attack.attacked(attack.project(z, a), a))(z, a))


@pytest.mark.parametrize("search", SEARCHES)
def test_every_search_stays_in_ball_and_set(search: str) -> None:
    ball, clean = FAMILY["product"]
    attack, a = sp.PGD(ball, admissible("periodic", "product"), steps=5), jnp.asarray(clean, jnp.float32)
    weights = np.random.default_rng(1).normal(size=(a.shape[1], 3))

    def objective(x: Array) -> Array:
        return jnp.sum(jnp.sin(3 * x @ weights), axis=1)

    found = jax.jit(lambda a, key: SEARCHES[search](attack, objective, a, key=key))(a, KEY)
    check(attack, a, *found)


def check(attack: sp.PGD, a: Array, inputs: Array, delta: Array) -> None:
    assert_in(attack.ball, np.asarray(a), np.asarray(delta))
    np.testing.assert_allclose(attack.admissible.snap(inputs), inputs, atol=1e-6)
    np.testing.assert_allclose(inputs, a + delta, atol=3e-6)


def assert_in(ball: AbstractBall, a: np.ndarray, delta: np.ndarray) -> None:
    """By the balls' definitions."""
    match ball:
        case sp.L1Ball():
            assert np.all(np.abs(delta).sum(axis=1) <= ball.eps * (1 + 1e-5))
        case sp.SparseBall():
            assert np.abs(delta).max() <= np.float32(ball.eps) and np.all(np.sum(delta != 0, axis=1) <= ball.count)
        case sp.BandLimitedBall():
            assert np.all(np.linalg.norm(delta, axis=1) <= ball.eps * np.linalg.norm(a, axis=1) * (1 + 1e-5))
            assert np.all(delta[:, ball.band :] == 0)
        case sp.ProductBall():
            for name, columns in ball.inputs.slices.items():
                if name in ball.balls:
                    assert_in(ball.balls[name], a[:, columns], delta[:, columns])
                else:
                    assert np.all(delta[:, columns] == 0)


@pytest.mark.parametrize("search", ["pgd", "apgd"])
def test_a_sparse_attack_finds_the_sensors_that_matter_most(search: str) -> None:
    weights = np.random.default_rng(2).normal(size=21)
    attack = sp.PGD(sp.SparseBall(0.1, count=3), step_size=1.5)
    a = jnp.asarray(sensor_inputs(), jnp.float32)
    found = jax.jit(lambda a, key: SEARCHES[search](attack, lambda x: x @ weights, a, key=key))(a, KEY)
    chosen = np.argsort(-np.abs(weights))[:3]
    expected = np.zeros(21)
    expected[chosen] = 0.1 * np.sign(weights[chosen])
    np.testing.assert_allclose(found.delta, np.tile(expected, (3, 1)), atol=1e-7)


def test_an_l1_attack_spends_all_on_the_largest_weight() -> None:
    weights = np.random.default_rng(3).normal(size=21)
    delta = attack_jitted(sp.PGD(sp.L1Ball(0.1)), lambda x: x @ weights, sensor_inputs().astype(np.float32)).delta
    best = int(np.argmax(np.abs(weights)))
    np.testing.assert_allclose(delta[:, best], 0.1 * np.sign(weights[best]), rtol=1e-5)
    np.testing.assert_allclose(np.delete(np.asarray(delta), best, axis=1), 0.0, atol=1e-7)


# ---------------------------------------------------------------------------------------------------------- Products


def test_a_product_of_balls_does_to_each_input_what_its_ball_does() -> None:
    inputs = sp.Inputs(c=MODAL, k=SENSOR)
    balls = {"k": sp.LinfBall(0.05), "c": sp.BandLimitedBall(0.02, MODAL, band=4)}
    parts = {"c": modal_inputs(), "k": sensor_inputs()}
    weights = {name: np.random.default_rng(4).normal(size=part.shape[1]) for name, part in parts.items()}
    joint, a = np.concatenate(list(weights.values())), np.concatenate(list(parts.values()), axis=1)
    with jax.enable_x64(True):
        attack = sp.PGD(sp.ProductBall(inputs, balls), random_start=False)
        half = attack_jitted(attack.with_eps(0.5), lambda x: x @ joint, a).delta
        delta = attack_jitted(attack, lambda x: x @ joint, a).delta
        for name, columns in inputs.slices.items():
            alone = sp.PGD(balls[name], random_start=False)
            expected = attack_jitted(alone, partial(jnp.dot, b=weights[name]), parts[name]).delta
            np.testing.assert_allclose(delta[:, columns], expected, rtol=1e-10, atol=1e-14)
            np.testing.assert_allclose(half[:, columns], 0.5 * expected, rtol=1e-10, atol=1e-14)


def test_a_product_attack_raises_the_loss_of_a_problem_with_two_inputs() -> None:
    case = CASES["coefficient"]()
    problem, operator = case.problem, case.exact()
    ball = sp.ProductBall(problem.inputs, {"k": sp.LinfBall(0.05), "f": sp.SparseBall(0.4, count=2)})
    positive = sp.ProductSet(problem.inputs, {"k": sp.ValueRange(1.0)})  # k = 1 + x touches it at x = 0
    residuals = residual_map(operator, problem)

    def loss(a: Array) -> Array:
        return physics_loss(residuals(a), problem)

    a = jnp.asarray(case.a, jnp.float32)
    attack = sp.PGD(ball, positive, step_size=1.5, steps=10)
    noise = jnp.mean(jnp.stack([loss(white_noise(attack, a, key=key).inputs) for key in jax.random.split(KEY, 5)]))
    found = attack_jitted(attack, loss, a)
    assert float(loss(found.inputs)[0]) > 1.3 * float(noise) > float(loss(a)[0])
    k, f = (
        np.asarray(found.delta)[:, problem.inputs.slices["k"]],
        np.asarray(found.delta)[:, problem.inputs.slices["f"]],
    )
    assert np.abs(k).max() <= np.float32(0.05) and np.all(np.asarray(found.inputs)[:, :17] >= 1.0)
    assert np.sum(f != 0) == 2 and np.abs(f).max() == np.float32(0.4)


def test_a_product_attack_has_the_gradient_of_the_objective() -> None:
    ball, clean = FAMILY["product"]
    with jax.enable_x64(True):
        a = jnp.asarray(clean)
        attack = sp.PGD(ball, admissible("periodic", "product"))
        z = 0.01 * jnp.ones((3, ball.size(a.shape[1])))

        def objective(z: Array) -> Array:
            return jnp.sum(jnp.sin(3 * attack.attacked(z, a).inputs))

        direction = jax.random.normal(KEY, z.shape)
        slope = (objective(z + 1e-5 * direction) - objective(z - 1e-5 * direction)) / 2e-5
        np.testing.assert_allclose(jnp.sum(jax.grad(objective)(z) * direction), slope, rtol=1e-7)


@pytest.mark.long
def test_a_product_trains() -> None:
    problem = CASES["coefficient"]().problem
    ball = sp.ProductBall(problem.inputs, {"f": sp.LinfBall(0.1), "k": sp.LinfBall(0.02)})
    assert ball.describe() == "k: linf, |delta| <= 0.02; f: linf, |delta| <= 0.1"
    problem = dataclasses.replace(problem, attack=sp.PGD(ball, steps=2))
    small = {"operator.width": 8, "training.functions": 8, "training.batch": 4, "training.validation": 4}
    changes = {"method.name": "stable", "training.steps": 4, "training.warmup": 2, "training.refresh": 2, **small}
    config = sp.configure(problem, changes)
    assert config.attack.eps == 1.0
    cache = sp.train(problem, config).cache
    delta = np.abs(np.asarray(cache.attacked - cache.clean))
    for name, most in {"k": 0.02, "f": 0.1}.items():
        # Inputs of the order of 1 to a few: their rounding is what the difference has.
        assert 0 < delta[:, problem.inputs.slices[name]].max() <= most + 1e-6


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: sp.ProductBall(PRODUCT, {"x": sp.LinfBall(0.1)}), "'x' is none"),
        (lambda: sp.ProductBall(PRODUCT, {}), "at least one of them"),
        (lambda: sp.ProductSet(PRODUCT, {"x": sp.ValueRange(0.0)}), "'x' is none"),
        (lambda: sp.SparseBall(0.1, count=0), "at least one entry"),
    ],
)
def test_what_makes_no_sense_is_refused(make: Callable[[], object], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        make()
