"""Attacks never leave their set, and solve problems whose answer is known."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from attack_cases import KEY, MODAL, SENSOR, attack_jitted, modal_inputs, runner, sensor_inputs
from jaxtyping import Array

from stablepdenet.attacks import (
    PGD,
    Attacked,
    BandLimitedBall,
    LinfBall,
    PeriodicEndpoints,
    ValueRange,
)

# ------------------------------------------------------------------------------------------------------- Invariants


def wild(a: Array) -> Array:
    """Rough, with gradients of the order of 10^8."""
    generator = np.random.default_rng(5)
    weights = jnp.asarray(generator.normal(size=(a.shape[1], 6)), a.dtype)
    return 1e6 * jnp.sum(jnp.sin(40 * a @ weights), axis=1) + 1e5 * (a @ weights[:, 0]) ** 3


EPS = 0.3
BOUNDS = (0.45, 1.4)  # closer to the sensor inputs than a perturbation reaches
INVARIANT = {
    "linf": (PGD(LinfBall(EPS)), modal_inputs()),
    "linf-periodic": (PGD(LinfBall(EPS), PeriodicEndpoints()), sensor_inputs()),
    "linf-range": (PGD(LinfBall(EPS), ValueRange(*BOUNDS)), np.clip(sensor_inputs(), *BOUNDS)),
    "l2": (PGD(BandLimitedBall(EPS, MODAL, 4)), modal_inputs()),
    "l2-periodic": (PGD(BandLimitedBall(EPS, SENSOR, 5), admissible=PeriodicEndpoints()), sensor_inputs()),
    "l2-range": (
        PGD(BandLimitedBall(EPS, SENSOR, 5), admissible=ValueRange(*BOUNDS)),
        np.clip(sensor_inputs(), 0.5, 1.3),
    ),
}


def assert_within(attack: PGD, a: np.ndarray, attacked: Attacked) -> None:
    """The ball and the admissible set, in the precision that the attack works in."""
    inputs, delta = np.asarray(attacked.inputs), np.asarray(attacked.delta)
    assert inputs.dtype == delta.dtype == np.float32
    assert np.all(np.isfinite(inputs)) and np.all(np.isfinite(delta))
    a, delta = a.astype(np.float32).astype(np.float64), delta.astype(np.float64)
    # The snap may only remove rounding: a few units in the last place of numbers up to 10.
    np.testing.assert_allclose(inputs, a + delta, rtol=0, atol=2e-6)
    ball = attack.ball
    if isinstance(ball, LinfBall):
        assert np.abs(delta).max() <= np.float32(EPS)
    else:
        assert isinstance(ball, BandLimitedBall)
        modes = ball.input.modes(ball.band)
        beta = np.linalg.lstsq(modes.T, delta.T)[0].T
        np.testing.assert_allclose(beta @ modes, delta, rtol=0, atol=1e-6)  # in the span of the modes
        norm = np.sqrt((a**2).sum(axis=1) if ball.input is MODAL else (a**2).mean(axis=1))
        assert np.all(np.linalg.norm(beta, axis=1) <= EPS * norm * (1 + 1e-6))  # float32 rounding of the norm
    if isinstance(attack.admissible, PeriodicEndpoints):
        assert np.array_equal(inputs[:, 0], inputs[:, -1])
    if isinstance(attack.admissible, ValueRange):
        assert inputs.min() >= np.float32(BOUNDS[0]) and inputs.max() <= np.float32(BOUNDS[1])


@cache
def wild_runner(name: str, random_start: bool) -> Callable[..., Attacked]:
    return runner(replace(INVARIANT[name][0], random_start=random_start), wild)


@pytest.mark.parametrize("random_start", [True, False])
@pytest.mark.parametrize("name", INVARIANT)
def test_no_objective_drives_an_attack_out_of_its_set(name: str, random_start: bool) -> None:
    attack, a = INVARIANT[name]
    for steps in (0, 1, 40):
        attacked = wild_runner(name, random_start)(steps, jnp.asarray(a, jnp.float32), KEY)
        assert_within(attack, a, attacked)
        moved = np.any(np.asarray(attacked.delta) != 0)
        assert moved == (random_start or steps > 0)


def test_sensor_perturbations_are_small_in_l2() -> None:
    a = INVARIANT["l2-periodic"][1]
    delta = np.asarray(wild_runner("l2-periodic", True)(40, jnp.asarray(a, jnp.float32), KEY).delta, np.float64)
    x = (np.arange(20_000) + 0.5) / 20_000
    norms, sizes = (np.sqrt(np.mean((v @ SENSOR.matrix(x).T) ** 2, axis=1)) for v in (a, delta))
    # The mean over m sensors stands for the integral: 1 / m = 5 % is its order of accuracy.
    assert np.all(sizes <= EPS * norms * 1.05)
    assert np.all(sizes >= 0.5 * EPS * norms)


# ---------------------------------------------------------------------------------------------------- Known answers


def test_linf_attack_on_a_linear_objective_finds_the_corner() -> None:
    w = np.random.default_rng(6).normal(size=10)
    a = modal_inputs().astype(np.float32)
    for random_start in (True, False):
        delta = attack_jitted(
            PGD(LinfBall(0.05), random_start=random_start), lambda a: a @ w.astype(np.float32), a
        ).delta
        np.testing.assert_array_equal(delta, np.tile(np.float32(0.05) * np.sign(w).astype(np.float32), (3, 1)))


def test_linf_attack_on_a_linear_objective_respects_the_admissible_set() -> None:
    w = np.random.default_rng(7).normal(size=21)
    w[0], w[-1] = -1.0, 0.3  # the ends pull apart; the first one is stronger
    with jax.enable_x64(True):
        a = sensor_inputs()
        periodic = attack_jitted(PGD(LinfBall(0.05), PeriodicEndpoints()), lambda a: a @ w, a).delta
        ranged = attack_jitted(PGD(LinfBall(0.3), ValueRange(*BOUNDS)), lambda a: a @ w, np.clip(a, *BOUNDS)).inputs
    signs = np.sign(w)
    expected = np.where([i in (0, 20) for i in range(21)], -1.0, signs)
    np.testing.assert_allclose(np.asarray(periodic), np.tile(0.05 * expected, (3, 1)), rtol=1e-14)
    expected = np.clip(np.clip(a, *BOUNDS) + 0.3 * signs, *BOUNDS)
    np.testing.assert_allclose(ranged, expected, rtol=1e-14)


def test_a_step_moves_equal_ends_as_far_as_any_other_sensor() -> None:
    w = np.ones(21)
    w[-1] = 0.0  # the ends move together, so the pull on one is the pull on both
    with jax.enable_x64(True):
        attack = PGD(LinfBall(1.0), PeriodicEndpoints(), steps=1, random_start=False)
        delta = attack_jitted(attack, lambda a: a @ w, sensor_inputs()).delta
    np.testing.assert_allclose(delta, 0.1, rtol=1e-14)


@pytest.mark.parametrize("kind", ["modal", "sensor"])
def test_l2_attack_on_a_linear_objective_goes_along_the_gradient_in_the_band(kind: str) -> None:
    given, a = (MODAL, modal_inputs()) if kind == "modal" else (SENSOR, sensor_inputs() * [[0.1], [1], [10]])
    w = np.random.default_rng(8).normal(size=a.shape[1])
    modes = given.modes(4)
    radius = 0.02 * np.sqrt((a**2).sum(axis=1) if kind == "modal" else (a**2).mean(axis=1))
    best = radius[:, None] * (modes @ w / np.linalg.norm(modes @ w)) @ modes
    with jax.enable_x64(True):
        attack = PGD(BandLimitedBall(0.02, given, 4))
        straight = attack_jitted(replace(attack, random_start=False), lambda a: a @ w, a).delta
        # From a random start the tangent of the angle shrinks by 1.1 per step: 1.1^-300 = 4e-13.
        turned = attack_jitted(replace(attack, steps=300), lambda a: a @ w, a).delta
    np.testing.assert_allclose(straight, best, rtol=0, atol=1e-10 * radius.max())
    np.testing.assert_allclose(turned, best, rtol=0, atol=1e-10 * radius.max())


def test_one_step_has_the_length_step_size_times_radius() -> None:
    w = np.random.default_rng(9).normal(size=10)
    with jax.enable_x64(True):
        a = modal_inputs()
        linf = PGD(LinfBall(0.05), steps=1, step_size=0.25, random_start=False)
        l2 = PGD(BandLimitedBall(0.02, MODAL, 10), steps=1, step_size=0.25, random_start=False)
        sign_step, step = (attack_jitted(attack, lambda a: a @ w, a).delta for attack in (linf, l2))
    np.testing.assert_allclose(sign_step, np.tile(0.0125 * np.sign(w), (3, 1)), rtol=1e-14)
    expected = 0.005 * np.linalg.norm(a, axis=1, keepdims=True) * w / np.linalg.norm(w)
    np.testing.assert_allclose(step, expected, rtol=1e-9)  # eta_pgd = 1e-12 beside the gradient's norm


@pytest.mark.parametrize("random_start", [True, False])
def test_linf_attack_maximises_a_concave_objective_to_within_a_step(random_start: bool) -> None:
    generator, eps = np.random.default_rng(10), 0.1
    with jax.enable_x64(True):
        a = generator.normal(size=(4, 10))
        target, curvature = a + generator.uniform(-3 * eps, 3 * eps, size=(4, 10)), generator.uniform(0.5, 5, size=10)

        def objective(a: Array) -> Array:
            return -jnp.sum(curvature * (a - target) ** 2, axis=1)

        attacked = attack_jitted(PGD(LinfBall(eps), random_start=random_start), objective, a)
    loss, clean = (np.sum(curvature * (np.asarray(b) - target) ** 2, axis=1) for b in (attacked.inputs, a))
    best = np.clip(target - a, -eps, eps)
    np.testing.assert_allclose(attacked.delta, best, rtol=0, atol=0.1 * eps * (1 + 1e-9))
    assert np.all(loss < clean)


@pytest.mark.parametrize("random_start", [True, False])
def test_l2_attack_maximises_a_concave_objective_over_the_ball(random_start: bool) -> None:
    generator = np.random.default_rng(11)
    with jax.enable_x64(True):
        a = modal_inputs()
        target = a + np.linalg.norm(a, axis=1, keepdims=True) * generator.normal(size=(3, 10))  # far outside

        def objective(a: Array) -> Array:
            return -jnp.sum((a - target) ** 2, axis=1)

        run = runner(PGD(BandLimitedBall(0.02, MODAL, 4), random_start=random_start), objective)
        inputs = np.asarray(run(40, jnp.asarray(a), KEY).inputs)
        delta = np.asarray(run(300, jnp.asarray(a), KEY).delta)
    loss, clean = (np.sum((b - target) ** 2, axis=1) for b in (inputs, a))
    pull = np.where(np.arange(10) < 4, target - a, 0.0)
    radius = 0.02 * np.linalg.norm(a, axis=1, keepdims=True)
    best = radius * pull / np.linalg.norm(pull, axis=1, keepdims=True)
    np.testing.assert_allclose(delta / radius, best / radius, rtol=0, atol=1e-9)
    assert np.all(loss < clean)


@pytest.mark.parametrize("kind", ["linf", "l2"])
def test_attack_increases_a_quadratic_that_is_zero_at_the_clean_input(kind: str) -> None:
    """A residual that the clean input satisfies: the attack must end above its random start."""
    orthogonal = np.linalg.qr(np.random.default_rng(12).normal(size=(10, 10)))[0]
    matrix = orthogonal * 0.5 ** np.arange(10)  # largest singular value 1, the next one 1/2
    a = modal_inputs()

    def objective(b: Array) -> Array:
        return jnp.sum(((b - a) @ matrix) ** 2, axis=1)

    with jax.enable_x64(True):
        run = runner(PGD(LinfBall(0.05)) if kind == "linf" else PGD(BandLimitedBall(0.05, MODAL, 10)), objective)
        start, middle, end = (
            np.sum((np.asarray(run(steps, jnp.asarray(a), KEY).delta) @ matrix) ** 2, axis=1) for steps in (0, 40, 400)
        )
    assert np.all(start > 0) and np.all(start < middle) and np.all(middle <= end * (1 + 1e-12))
    if kind == "l2":
        # Normalised ascent is a power iteration: the second mode's share shrinks by (1 + 0.1 / 4) / 1.1 per step.
        np.testing.assert_allclose(end, (0.05 * np.linalg.norm(a, axis=1)) ** 2, rtol=1e-9)


# ---------------------------------------------------------------------------------------------------------- Starts


@pytest.mark.parametrize("name", ["linf", "l2"])
def test_random_starts_follow_the_key(name: str) -> None:
    a = jnp.asarray(INVARIANT[name][1], jnp.float32)
    first, same, other = (np.asarray(wild_runner(name, True)(0, a, jax.random.key(i)).delta) for i in (1, 1, 2))
    assert first.tobytes() == same.tobytes()
    assert np.all(np.any(first != other, axis=1))
    assert not np.allclose(first[0] / np.linalg.norm(first[0]), first[1] / np.linalg.norm(first[1]), atol=0.01)


def test_linf_start_fills_the_box_uniformly() -> None:
    a = np.zeros((200, 100), np.float32)
    delta = np.asarray(attack_jitted(PGD(LinfBall(0.3), steps=0), wild, a).delta, np.float64) / 0.3
    # Five standard errors for the moments 0 and 1/3 of the uniform law on (-1, 1): variances 1/3 and 4/45.
    assert abs(delta.mean()) <= 5 * np.sqrt(1 / 3 / delta.size)
    assert abs((delta**2).mean() - 1 / 3) <= 5 * np.sqrt(4 / 45 / delta.size)


# ------------------------------------------------------------------------------------------------------- Edge cases


@pytest.mark.parametrize("name", ["linf", "l2"])
def test_zero_budget_means_no_perturbation(name: str) -> None:
    attack, a = INVARIANT[name]
    a = a.astype(np.float32)
    attacked = attack_jitted(attack.with_eps(0.0), wild, a)
    assert np.all(np.asarray(attacked.delta) == 0)
    np.testing.assert_array_equal(attacked.inputs, a)


def test_zero_input_has_no_relative_budget() -> None:
    a = np.where(np.arange(3)[:, None] == 1, 0.0, modal_inputs()).astype(np.float32)
    delta = np.asarray(wild_runner("l2", True)(40, jnp.asarray(a), KEY).delta)
    assert np.all(delta[1] == 0) and np.all(np.any(delta[[0, 2]] != 0, axis=1))


def test_stationary_objective_leaves_the_start_alone() -> None:
    a = modal_inputs().astype(np.float32)
    for attack in (PGD(LinfBall(EPS), random_start=False), PGD(BandLimitedBall(EPS, MODAL, 4), random_start=False)):
        assert np.all(np.asarray(attack_jitted(attack, lambda a: 0.0 * a.sum(axis=1), a).delta) == 0)


def test_jit_changes_nothing() -> None:
    attack = PGD(BandLimitedBall(0.05, MODAL, 4))
    with jax.enable_x64(True):
        a = jnp.asarray(modal_inputs())
        eager = attack(lambda a: jnp.sum(jnp.sin(a), axis=1), a, key=KEY)
        jitted = attack_jitted(attack, lambda a: jnp.sum(jnp.sin(a), axis=1), a)
    np.testing.assert_allclose(eager.delta, jitted.delta, rtol=0, atol=1e-12)
    np.testing.assert_allclose(eager.inputs, jitted.inputs, rtol=0, atol=1e-12)
    assert np.any(np.asarray(eager.delta) != 0)


@pytest.mark.parametrize("random_start", [True, False])
@pytest.mark.parametrize("name", ["linf", "l2"])
def test_inputs_of_a_batch_are_attacked_independently(name: str, random_start: bool) -> None:
    a = jnp.asarray(modal_inputs(), jnp.float32)
    others = a.at[0].mul(-2.0).at[2].add(0.5)
    first, second = (np.asarray(wild_runner(name, random_start)(40, b, KEY).delta) for b in (a, others))
    np.testing.assert_array_equal(first[1], second[1])
    assert np.any(first[0] != second[0]) and np.any(first[2] != second[2])
