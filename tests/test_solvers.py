"""Every solver against something derived independently of it: closed forms, quadrature, or the other solver."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from numpy.polynomial import chebyshev
from scipy.integrate import quad
from scipy.special import erfc

from stablepdenet.errors import ConfigError
from stablepdenet.experiments.solvers import heat, helmholtz, poisson
from stablepdenet.functions import piecewise_linear


def uneven_sensors(count: int, seed: int = 0) -> np.ndarray:
    return np.concatenate([[0.0], np.sort(np.random.default_rng(seed).uniform(size=count - 2)), [1.0]])


def observed_orders(errors: list[float]) -> np.ndarray:
    """log₂ of the error ratios under successive halving."""
    return np.log2(np.divide(errors[:-1], errors[1:]))


# ---------------------------------------------------------------------------------------------------------- Poisson


@pytest.mark.parametrize("sensors", [np.linspace(0, 1, 101), uneven_sensors(12), np.array([0.0, 1.0])])
def test_poisson_affine_source(sensors: np.ndarray) -> None:
    x = np.linspace(0, 1, 57)
    matrix = poisson.response_matrix(sensors, x)
    np.testing.assert_allclose(matrix @ np.ones(len(sensors)), x * (1 - x) / 2, atol=1e-14)
    # −u'' = α + βx: u = αx(1 − x)/2 + βx(1 − x²)/6
    expected = 1.7 * x * (1 - x) / 2 - 2.3 * x * (1 - x**2) / 6
    np.testing.assert_allclose(matrix @ (1.7 - 2.3 * sensors), expected, atol=1e-14)


@pytest.mark.parametrize("sensors", [np.linspace(0, 1, 9), uneven_sensors(9)])
def test_poisson_against_quadrature(sensors: np.ndarray) -> None:
    a = np.random.default_rng(1).normal(size=len(sensors))
    points = np.array([0.0, 0.03, 0.31, sensors[4], 0.77, 1.0])

    def integrand(s: float, x: float) -> float:
        return min(x, s) * (1 - max(x, s)) * np.interp(s, sensors, a)

    def green(x: float) -> float:
        breaks = np.sort([*sensors, x])
        return sum(quad(integrand, *ends, args=(x,))[0] for ends in pairwise(breaks))

    np.testing.assert_allclose(
        poisson.response_matrix(sensors, points) @ a, [green(x) for x in points], rtol=0, atol=1e-14
    )


def test_poisson_finite_difference_is_second_order() -> None:
    sensors = np.linspace(0, 1, 11)
    a = np.random.default_rng(2).normal(size=(3, 11))  # a kinked source: where u is one cubic the scheme is exact
    errors = []
    for intervals in (40, 80, 160):
        x = np.linspace(0, 1, intervals + 1)
        exact = a @ poisson.response_matrix(sensors, x).T
        errors.append(np.abs(poisson.finite_difference(a @ piecewise_linear.values(sensors, x).T) - exact).max())
    np.testing.assert_allclose(observed_orders(errors), 2, atol=0.1)


# -------------------------------------------------------------------------------------------------------- Helmholtz


@pytest.mark.parametrize("kappa", [3.5 * np.pi, 3 * np.pi + 0.1])
def test_helmholtz_satisfies_the_equation(kappa: float) -> None:
    c = np.random.default_rng(3).normal(size=10)
    nodes = (1 + chebyshev.chebpts2(81)) / 2
    u = helmholtz.response_matrix(kappa, 10, nodes) @ c
    fitted = chebyshev.Chebyshev.fit(nodes, u, 80, domain=[0, 1])
    x = np.linspace(0.05, 0.95, 41)
    source = sum(c[n - 1] * np.sqrt(2) * np.sin(n * np.pi * x) for n in range(1, 11))
    np.testing.assert_allclose(-fitted.deriv(2)(x) - kappa**2 * fitted(x), source, atol=1e-8)
    np.testing.assert_allclose(u[[0, -1]], 0, atol=1e-14)


@pytest.mark.parametrize(
    "kappa, constant", [(3.5 * np.pi, 0.031176), (3 * np.pi + 0.5, 0.103362), (3 * np.pi + 0.1, 0.527717)]
)
def test_helmholtz_lipschitz_constant(kappa: float, constant: float) -> None:
    assert round(helmholtz.lipschitz_constant(kappa, 10), 6) == constant


# ------------------------------------------------------------------------------------------------------------- Heat


def tensor_points(x: np.ndarray, t: np.ndarray) -> np.ndarray:
    return np.stack(np.meshgrid(x, t), axis=-1).reshape(-1, 2)


def test_sine_coefficients_against_quadrature() -> None:
    sensors = uneven_sensors(6)

    def integrand(s: float, unit: np.ndarray, n: int) -> float:
        return 2 * np.interp(s, sensors, unit) * np.sin(n * np.pi * s)

    def coefficient(unit: np.ndarray, n: int) -> float:
        return sum(quad(integrand, *ends, args=(unit, n))[0] for ends in pairwise(sensors))

    expected = [[coefficient(unit, n) for unit in np.eye(6)] for n in (1, 2, 3, 10, 25)]
    actual = piecewise_linear.sine_coefficients(sensors, 25)[[0, 1, 2, 9, 24]]
    np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-14)


def test_heat_of_a_sine() -> None:
    sensors = np.linspace(0, 1, 101)
    points = tensor_points(np.linspace(0, 1, 33), np.linspace(0, 1, 12))
    exact = np.sin(np.pi * points[:, 0]) * np.exp(-0.1 * np.pi**2 * points[:, 1])
    # By the maximum principle the solution is off by no more than the interpolant is: h²/8 max|a''|.
    error = np.abs(heat.response_matrix(sensors, points, 0.1) @ np.sin(np.pi * sensors) - exact).max()
    assert 0 < error <= np.pi**2 * 0.01**2 / 8


@pytest.mark.parametrize("alpha", [0.01, 1.0])
@pytest.mark.parametrize("sensors", [np.linspace(0, 1, 101), uneven_sensors(8)])
def test_heat_of_a_constant_at_short_times(alpha: float, sensors: np.ndarray) -> None:
    x, t = np.array([0.0, 1e-4, 1e-3, 0.01, 0.1, 0.37, 0.8, 0.999, 1.0]), np.array([1e-4, 1e-3, 1e-2])
    points = tensor_points(x, t)
    # One image per wall; the next ones are erfc((1 + x)/√(4αt)) ≤ erfc(5) ≈ 1.5e-12 here.
    width = np.sqrt(4 * alpha * points[:, 1])
    exact = 1 - erfc(points[:, 0] / width) - erfc((1 - points[:, 0]) / width)
    matrix = heat.response_matrix(sensors, points, alpha)
    np.testing.assert_allclose(matrix.sum(axis=1), exact, rtol=0, atol=1e-11)
    assert np.all(matrix[(points[:, 0] == 0) | (points[:, 0] == 1)] == 0)


def test_heat_initial_value_is_the_interpolant_also_at_the_corners() -> None:
    sensors, x = uneven_sensors(8), np.linspace(0, 1, 21)
    a = np.random.default_rng(4).normal(size=8)
    order = np.random.default_rng(5).permutation(42)  # the points come in any order
    points = tensor_points(x, np.array([0.0, 0.3]))
    shuffled = heat.response_matrix(sensors, points[order], 0.01)
    np.testing.assert_allclose((shuffled @ a)[np.argsort(order)][:21], np.interp(x, sensors, a), atol=1e-14)
    np.testing.assert_array_equal(shuffled, heat.response_matrix(sensors, points, 0.01)[order])


def test_heat_refuses_unresolvable_times() -> None:
    with pytest.raises(ConfigError, match="sine modes"):
        heat.response_matrix(np.linspace(0, 1, 5), np.array([[0.5, 1e-9]]), 0.01)


def test_crank_nicolson_is_second_order() -> None:
    sensors = np.linspace(0, 1, 6)
    a = np.array([[0.0, 1.0, -0.5, 0.3, 0.8, 0.0]])  # exactly on every grid below, and zero at the ends
    errors = []
    for intervals in (80, 160, 320):
        x = np.linspace(0, 1, intervals + 1)
        u = heat.finite_difference(a @ piecewise_linear.values(sensors, x).T, 0.01, 1.0, intervals)
        exact = a @ heat.response_matrix(sensors, tensor_points(x, np.array([0.5, 1.0])), 0.01).T
        errors.append(np.abs(u[:, [intervals // 2, -1]].reshape(1, -1) - exact).max())
    np.testing.assert_allclose(observed_orders(errors), 2, atol=0.1)


def test_crank_nicolson_end_values() -> None:
    u = heat.finite_difference(np.ones((2, 11)), 0.01, 1.0, 4)
    assert u.shape == (2, 5, 11)
    assert np.all(u[:, 0] == 1) and np.all(u[:, 1:, [0, -1]] == 0)
