"""Searches against worst cases that are known exactly."""

from __future__ import annotations

from functools import partial
from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from attack_cases import KEY, MODAL, SENSOR, SENSORS, modal_inputs, sensor_inputs

from stablepdenet.attacks import (
    PGD,
    BandLimitedBall,
    LinfBall,
    PeriodicEndpoints,
    ValueRange,
    apgd,
    best_of,
    pgd,
    random_search,
    smooth_noise,
    strong_pgd,
    white_noise,
)

SEARCHES = {"pgd": strong_pgd, "apgd": best_of(apgd, 3), "random": random_search, "training": pgd, "single": apgd}
# What the audit promises of its two gradient attacks where the worst case is known.
REACHED = {"pgd": 0.98, "apgd": 0.995}


def run(search, attack, objective, a, key=KEY):
    return jax.jit(lambda a, key: search(attack, objective, a, key=key))(jnp.asarray(a, jnp.float32), key)


def matrix(rows, columns, seed):
    return np.random.default_rng(seed).normal(size=(rows, columns))


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("name", REACHED)
def test_l2_with_a_linear_error_operator_reaches_the_largest_singular_value(name, seed):
    # ||E(a + delta) - E(a)|| = ||E delta|| <= sigma_max(E) eps ||a||.
    # Gaussian matrices have no gap at the top of their spectrum: the hardest case for ascent.
    error = matrix(40, 10, seed)
    a = np.concatenate([modal_inputs(), matrix(50, 10, 100 + seed)])
    attack = PGD(BandLimitedBall(0.1, MODAL, 10))
    found = run(SEARCHES[name], attack, lambda x: jnp.sum(((x - a) @ error.T) ** 2, axis=1), a)
    worst = np.linalg.norm(error, 2) * 0.1 * np.linalg.norm(a, axis=1)
    assert np.all(np.linalg.norm(np.asarray(found.delta) @ error.T, axis=1) >= REACHED[name] * worst)


@pytest.mark.parametrize("name", REACHED)
def test_l2_error_itself_reaches_the_solution_of_the_trust_region_problem(name):
    # max ||E (a + d)|| over ||d|| <= r, by the secular equation: (mu - E'E) d = E'E a with mu >= sigma_max^2.
    error, a = matrix(40, 10, 7), modal_inputs()
    attack = PGD(BandLimitedBall(0.1, MODAL, 10))
    found = run(SEARCHES[name], attack, lambda x: jnp.sum((x @ error.T) ** 2, axis=1), a)
    for clean, perturbed in zip(a, np.asarray(found.inputs), strict=True):
        values, vectors = np.linalg.eigh(error.T @ error)
        push, radius = vectors.T @ (error.T @ error @ clean), 0.1 * np.linalg.norm(clean)
        low, high = values[-1], values[-1] + np.linalg.norm(push) / radius
        for _ in range(200):
            middle = 0.5 * (low + high)
            too_long = np.linalg.norm(push / (middle - values)) > radius
            low, high = (middle, high) if too_long else (low, middle)
        worst = np.linalg.norm(error @ (clean + vectors @ (push / (high - values))))
        assert np.linalg.norm(error @ perturbed) >= REACHED[name] * worst


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("name", REACHED)
def test_linf_with_a_rank_one_error_reaches_the_sum_of_absolute_weights(name, seed):
    # |w . delta| <= eps sum |w_i|.
    weights = matrix(1, 21, seed)[0]
    a = sensor_inputs()
    found = run(SEARCHES[name], PGD(LinfBall(0.05)), lambda x: ((x - a) @ weights) ** 2, a)
    assert np.all(np.abs(np.asarray(found.delta) @ weights) >= REACHED[name] * 0.05 * np.abs(weights).sum())


def test_linf_with_a_full_error_operator_reaches_the_best_corner():
    # ||E delta||^2 is convex, so its maximum over the box is at one of the 2^10 corners.
    error = matrix(30, 10, 3)
    # Which of its local maxima an ascent ends in is luck, so restarts and the search without gradients count here.
    corners = 0.05 * np.array(list(product([-1, 1], repeat=10)))
    worst = np.linalg.norm(corners @ error.T, axis=1).max()
    a = matrix(8, 10, 4)

    def objective(x):
        return jnp.sum(((x - a) @ error.T) ** 2, axis=1)

    for search in (best_of(apgd, 10), partial(random_search, evaluations=2000)):
        found = run(search, PGD(LinfBall(0.05)), objective, a)
        reached = np.linalg.norm(np.asarray(found.delta) @ error.T, axis=1) / worst
        assert reached.mean() > 0.95


def test_without_gradients_a_masked_weakness_is_still_found():
    # Rounded values have no gradient: PGD stays where it started, the search does not.
    weights, a = matrix(1, 21, 0)[0], sensor_inputs()
    worst = 0.05 * np.abs(weights).sum()

    def objective(x):
        return jnp.round(200 * jnp.abs((x - a) @ weights)) / 200

    stuck = run(pgd, PGD(LinfBall(0.05)), objective, a)
    found = run(random_search, PGD(LinfBall(0.05)), objective, a)
    assert np.max(np.abs(np.asarray(stuck.delta) @ weights)) < 0.6 * worst
    assert np.min(np.abs(np.asarray(found.delta) @ weights)) > 0.95 * worst


def test_apgd_ends_nearer_to_a_curved_maximum_than_a_fixed_step():
    # A fixed step circles an inner maximum at its own distance; a halved one closes in.
    goal = 0.03 * np.sin(7 * SENSORS)
    a = sensor_inputs()

    def objective(x):
        return -jnp.sum((x - a - goal) ** 2, axis=1)

    fixed, adapted = (run(search, PGD(LinfBall(0.05)), objective, a).delta - goal for search in (pgd, apgd))
    assert np.linalg.norm(adapted) < 0.2 * np.linalg.norm(fixed)


def test_restarts_never_lose():
    error, a = matrix(30, 21, 3), sensor_inputs()

    def objective(x):
        return jnp.sum(jnp.sin(3 * (x - a) @ error.T) ** 2, axis=1)

    keys = jax.random.split(KEY, 6)
    single = np.stack([objective(run(apgd, PGD(LinfBall(0.05)), objective, a, key).inputs) for key in keys])
    best = objective(run(best_of(apgd, 6), PGD(LinfBall(0.05)), objective, a, KEY).inputs)
    assert np.allclose(best, single.max(axis=0), rtol=1e-5)


SETS = {
    "free": (PGD(LinfBall(0.05)), sensor_inputs()),
    "periodic": (PGD(LinfBall(0.05), admissible=PeriodicEndpoints()), sensor_inputs()),
    "range": (PGD(LinfBall(0.6), admissible=ValueRange(0.4, 1.6)), sensor_inputs()),
    "modal": (PGD(BandLimitedBall(0.1, MODAL, 4)), modal_inputs()),
    "sensor": (PGD(BandLimitedBall(0.1, SENSOR, 5)), sensor_inputs()),
}


@pytest.mark.parametrize("name", SETS)
def test_every_search_stays_in_the_set(name):
    attack, a = SETS[name]
    weights = matrix(1, a.shape[1], 1)[0]
    modes = (MODAL if name == "modal" else SENSOR).modes(3)
    found = [run(search, attack, lambda x: (x @ weights) ** 2, a) for search in SEARCHES.values()]
    found += [white_noise(attack, jnp.asarray(a), key=KEY), smooth_noise(attack, jnp.asarray(a), modes, key=KEY)]
    radius = np.asarray(attack.ball.radius(jnp.asarray(a)))
    for attacked in found:
        x = np.asarray(attacked.inputs)
        length = np.asarray(attack.ball.norm(attack.ball.coordinates(attacked.delta)))
        assert np.all(length <= radius * (1 + 1e-5))
        assert np.allclose(attack.admissible.snap(jnp.asarray(x)), x, atol=1e-6)
        assert np.allclose(x - a, attacked.delta, atol=1e-5)


@pytest.mark.parametrize("name", ["free", "periodic", "modal"])
def test_noise_has_the_norm_of_the_ball(name):
    attack, a = SETS[name]
    radius = np.asarray(attack.ball.radius(jnp.asarray(a)))
    modes = MODAL.modes(3) if name == "modal" else SENSOR.modes(3)
    for attacked in (
        white_noise(attack, jnp.asarray(a), key=KEY),
        smooth_noise(attack, jnp.asarray(a), modes, key=KEY),
    ):
        assert np.allclose(attack.ball.norm(attack.ball.coordinates(attacked.delta)), radius, rtol=1e-4)


def test_smooth_noise_lies_in_its_modes():
    attack, a = SETS["free"]
    delta = np.asarray(smooth_noise(attack, jnp.asarray(a), SENSOR.modes(3), key=KEY).delta)
    assert np.linalg.matrix_rank(np.concatenate([delta, SENSOR.modes(3)]), tol=1e-4) == 3
