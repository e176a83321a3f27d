"""Projections, shrinkage and snapping against brute force."""

from __future__ import annotations

import dataclasses
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from attack_cases import MODAL, modal_inputs
from scipy.optimize import minimize

from stablepdenet.attacks import (
    PGD,
    AbstractAdmissibleSet,
    BandLimitedBall,
    LinfBall,
    PeriodicEndpoints,
    Unrestricted,
    ValueRange,
)
from stablepdenet.experiments.problems import make_problem
from stablepdenet.spectral import inadmissible
from stablepdenet.spectral.trials import warn_of_strangers


def nearest(
    target: np.ndarray, start: np.ndarray, bounds: list[tuple[float, float]] | None, constraints: list
) -> np.ndarray:
    """min ||d - target||^2 by sequential quadratic programming."""
    result = minimize(
        lambda d: np.sum((d - target) ** 2),
        start,
        jac=lambda d: 2 * (d - target),
        bounds=bounds,
        constraints=constraints,
        method="SLSQP",
        options={"ftol": 1e-13, "maxiter": 500},
    )
    assert result.status in (0, 8), result.message  # 8: rounding leaves no descent
    return result.x


ADMISSIBLE = [Unrestricted(), PeriodicEndpoints(), ValueRange(0.2), ValueRange(0.2, 0.9)]


@pytest.mark.parametrize("admissible", ADMISSIBLE, ids=repr)
def test_projection_is_the_nearest_admissible_perturbation(admissible: AbstractAdmissibleSet) -> None:
    generator, eps = np.random.default_rng(1), 0.3
    a = generator.uniform(0.2, 0.9, size=(8, 5))
    a[:, -1] = a[:, 0]
    a[0, 1] = 0.2  # on the boundary of the range
    delta = generator.normal(size=(8, 5)) * np.geomspace(0.05, 2, 8)[:, None]  # from inside to far outside
    with jax.enable_x64(True):
        attack = PGD(LinfBall(eps), admissible)
        projected = np.asarray(attack.project(jnp.asarray(delta), jnp.asarray(a)))
        again = np.asarray(attack.project(jnp.asarray(projected), jnp.asarray(a)))
    equal_ends = [{"type": "eq", "fun": lambda d: d[0] - d[-1], "jac": lambda d: np.array([1.0, 0, 0, 0, -1])}]
    for row, clean, actual in zip(delta, a, projected, strict=True):
        lower, upper = np.full(5, -eps), np.full(5, eps)
        if isinstance(admissible, ValueRange):
            lower, upper = np.maximum(lower, admissible.lower - clean), np.minimum(upper, admissible.upper - clean)
        constraints = equal_ends if isinstance(admissible, PeriodicEndpoints) else []
        expected = nearest(row, np.zeros(5), list(zip(lower, upper, strict=True)), constraints)
        np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-6)  # the optimiser's accuracy
    assert np.any(projected != delta)
    np.testing.assert_array_equal(again, projected)


def test_ball_projection_is_the_nearest_point_of_the_ball() -> None:
    generator = np.random.default_rng(2)
    attack = PGD(BandLimitedBall(0.2, MODAL, 4))
    a = np.concatenate([modal_inputs(), modal_inputs()])
    radius = 0.2 * np.linalg.norm(a, axis=1)
    z = generator.normal(size=(6, 4))
    z *= (radius * np.array([0.5, 3, 1.2, 20, 0.9, 2]) / np.linalg.norm(z, axis=1))[:, None]
    with jax.enable_x64(True):
        projected = np.asarray(attack.project(jnp.asarray(z), jnp.asarray(a)))
        again = np.asarray(attack.project(jnp.asarray(projected), jnp.asarray(a)))
    unit_ball = [{"type": "ineq", "fun": lambda d: 1 - d @ d, "jac": lambda d: -2 * d}]
    for row, r, actual in zip(z, radius, projected, strict=True):
        np.testing.assert_allclose(actual / r, nearest(row / r, np.zeros(4), None, unit_ball), rtol=0, atol=1e-6)
    np.testing.assert_allclose(projected[[0, 4]], z[[0, 4]], rtol=1e-15)  # inside, nothing moves
    np.testing.assert_allclose(again, projected, rtol=1e-15)


@pytest.mark.parametrize("admissible", [ValueRange(0.2), ValueRange(0.2, 0.9)], ids=repr)
def test_shrinkage_is_the_largest_feasible_scale(admissible: ValueRange) -> None:
    generator = np.random.default_rng(3)
    a = generator.uniform(0.25, 0.85, size=(40, 6))
    delta = generator.normal(size=(40, 6)) * np.geomspace(0.02, 20, 40)[:, None]
    delta[::3, 2] = 0.0
    delta[-1] = 0.0
    a[5, 0], delta[5, 0] = 0.2, -1.0  # on the boundary and pushed out: nothing is feasible
    a[6, 0], delta[6, 0] = 0.2, 0.1  # on the boundary and pushed in: it does not bind
    with jax.enable_x64(True):
        actual = np.asarray(admissible.shrinkage(jnp.asarray(delta), jnp.asarray(a)))[:, 0]

    def feasible(s: float, i: int) -> bool:
        return bool(np.all((admissible.lower <= a[i] + s * delta[i]) & (a[i] + s * delta[i] <= admissible.upper)))

    for i in range(40):
        low, high = 0.0, 1.0
        if feasible(1.0, i):
            low = 1.0
        else:
            for _ in range(60):
                middle = (low + high) / 2
                low, high = (middle, high) if feasible(middle, i) else (low, middle)
        np.testing.assert_allclose(actual[i], low, rtol=0, atol=1e-14)
    assert actual[5] == 0 and actual[-1] == 1 and 0 < np.sum(actual < 1) < 40


def test_shrinkage_in_a_subspace_is_all_or_nothing() -> None:
    delta = jnp.asarray([[1.0, 5.0, 1.0], [1.0, 5.0, 1.1], [0.0, 0.0, 0.0]])
    np.testing.assert_array_equal(PeriodicEndpoints().shrinkage(delta, jnp.zeros((3, 3))), [[1], [0], [1]])
    np.testing.assert_array_equal(Unrestricted().shrinkage(delta, jnp.zeros((3, 3))), [[1], [1], [1]])


def test_snapping_lands_in_the_set_and_leaves_its_members_alone() -> None:
    a = jnp.asarray(np.random.default_rng(4).normal(size=(5, 6)), jnp.float32)
    np.testing.assert_array_equal(Unrestricted().snap(a), a)
    periodic = np.asarray(PeriodicEndpoints().snap(a))
    assert np.all(periodic[:, 0] == periodic[:, -1]) and np.array_equal(periodic[:, 1:-1], a[:, 1:-1])
    np.testing.assert_array_equal(PeriodicEndpoints().snap(jnp.asarray(periodic)), periodic)
    ranged = np.asarray(ValueRange(-0.5, 0.7).snap(a))
    np.testing.assert_array_equal(ranged, np.minimum(np.maximum(a, np.float32(-0.5)), np.float32(0.7)))
    np.testing.assert_array_equal(ValueRange(-0.5).snap(a), np.maximum(a, np.float32(-0.5)))


def test_inputs_outside_of_a_set_are_found_but_not_those_that_rounding_moved():
    problem = make_problem("burgers")
    a = np.array(problem.sample(4, key=jax.random.key(0)))
    a[1, 0] *= 1 + 1e-6
    a[2, -1] += 1e-3
    a[3, 5] = np.nan
    assert list(inadmissible(a, problem)) == [False, False, True, True]
    positive = dataclasses.replace(problem, attack=PGD(LinfBall(0.05), admissible=ValueRange(0.0)))
    assert list(inadmissible(np.abs(a[:3]), positive)) == [False] * 3
    assert list(inadmissible(-1.0 - np.abs(a[:3]), positive)) == [True] * 3
    assert positive.admissible.condition == "values lie in [0, inf]"


def test_operators_say_which_inputs_are_strange():
    problem = make_problem("burgers")
    a = problem.sample(3, key=jax.random.key(0))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_of_strangers(a, problem, linear=False)
        warn_of_strangers(9.0 * a, problem, linear=True)
    with pytest.warns(UserWarning, match="Inputs 0, 1 of 'burgers' are more than 2 times as large"):
        warn_of_strangers(9.0 * a, problem, linear=False)
    with pytest.warns(UserWarning, match=r"Input 1 of 'burgers' is not admissible: .* first and last value agree"):
        warn_of_strangers(a.at[1, 0].add(0.5), problem, linear=False)
    # Where a program is traced there is nothing to look at.
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        jax.jit(lambda a: warn_of_strangers(a, problem, linear=False))(9.0 * a)
