"""Function spaces against the laws they claim, and inputs against the functions they stand for."""

from __future__ import annotations

from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from stablepdenet.functions import (
    AbstractFunctionSpace,
    GaussianField,
    ModalInput,
    PeriodicGaussianField,
    PowerSeries,
    SensorInput,
    SineSeries,
)

GAUSSIAN = [
    GaussianField(),
    GaussianField(length_scale=0.2, variance=2.5),
    PeriodicGaussianField(),
    PeriodicGaussianField(sigma=2.0, tau=3.0, gamma=1.5),
    SineSeries(),
    SineSeries(decay=1.5),
]
SPACES = [*GAUSSIAN, PowerSeries(), PowerSeries(bound=2.0)]
SERIES = [space for space in SPACES if not isinstance(space, GaussianField)]
SAMPLES = 20_000
POINTS = np.array([0.0, 0.1, 0.27, 0.5, 0.55, 0.9, 1.0])
# Largest deviation in standard errors: a fair sample exceeds 5 once in 1.7 million entries.
FIVE = 5.0

spaces = pytest.mark.parametrize("space", SPACES, ids=repr)


def gauss_legendre(breaks: np.ndarray, order: int) -> tuple[np.ndarray, np.ndarray]:
    """Composite Gauss-Legendre nodes and weights, exact for polynomials of degree 2 * order - 1 between breaks."""
    nodes, weights = np.polynomial.legendre.leggauss(order)
    x = [left + (right - left) * (nodes + 1) / 2 for left, right in pairwise(breaks)]
    w = [(right - left) / 2 * weights for left, right in pairwise(breaks)]
    return np.concatenate(x), np.concatenate(w)


UNIT_NODES, UNIT_WEIGHTS = gauss_legendre(np.linspace(0, 1, 21), 12)


def draw(space: AbstractFunctionSpace, x: np.ndarray, num: int, seed: int = 0) -> np.ndarray:
    return np.asarray(space.sample(x, num, key=jax.random.key(seed)))


# ------------------------------------------------------------------------------------------------------------- Laws


@spaces
def test_samples_have_mean_zero_and_the_stated_covariance(space: AbstractFunctionSpace) -> None:
    x = POINTS
    f = draw(space, x, SAMPLES).astype(np.float64)
    # 1e-12: the sine series vanishes at the ends, where its standard error does as well.
    assert np.all(np.abs(f.mean(axis=0)) <= FIVE * f.std(axis=0) / np.sqrt(SAMPLES) + 1e-12)
    products = f[:, :, None] * f[:, None, :]
    error = np.abs(products.mean(axis=0) - space.covariance(x, x))
    assert np.all(error <= FIVE * products.std(axis=0) / np.sqrt(SAMPLES) + 1e-12)


@spaces
def test_covariance_is_a_symmetric_kernel(space: AbstractFunctionSpace) -> None:
    x, y = np.linspace(0, 1, 13), np.array([0.03, 0.4, 0.77])
    full = space.covariance(np.concatenate([x, y]), np.concatenate([x, y]))
    np.testing.assert_allclose(space.covariance(x, y), full[:13, 13:], rtol=0, atol=1e-14)
    np.testing.assert_allclose(full, full.T, rtol=0, atol=1e-14)
    assert np.linalg.eigvalsh(full).min() >= -1e-13 * np.trace(full)  # rounding, relative to the kernel's scale


@pytest.mark.parametrize("space", GAUSSIAN, ids=repr)
def test_gaussian_spaces_have_gaussian_fourth_moments(space: AbstractFunctionSpace) -> None:
    f = draw(space, POINTS, SAMPLES, seed=1)[:, 1:-1] / np.sqrt(np.diag(space.covariance(POINTS, POINTS))[1:-1])
    # Var z^4 = E z^8 - (E z^4)^2 = 105 - 9 for z ~ N(0, 1).
    assert np.all(np.abs((f**4).mean(axis=0) - 3.0) <= FIVE * np.sqrt(96 / SAMPLES))


@spaces
def test_sampling_is_a_pure_function_of_the_key(space: AbstractFunctionSpace) -> None:
    first = draw(space, POINTS, SAMPLES, seed=3)
    assert first.tobytes() == draw(space, POINTS, SAMPLES, seed=3).tobytes()
    assert np.all(np.any(first != draw(space, POINTS, SAMPLES, seed=4), axis=1))  # every function changes with the key
    assert len(np.unique(first, axis=0)) == SAMPLES  # and the functions of one key differ


@pytest.mark.parametrize("space", SERIES, ids=repr)
def test_series_draw_functions_not_values(space: AbstractFunctionSpace) -> None:
    """One key gives one set of functions, whichever points they are asked for at."""
    # Different sizes may round differently: single precision of values of order 1.
    all_points, some = draw(space, POINTS, SAMPLES), draw(space, POINTS[::2], SAMPLES)
    np.testing.assert_allclose(all_points[:, ::2], some, rtol=0, atol=1e-5)


# --------------------------------------------------------------------------------------------------- Gaussian field


@pytest.mark.parametrize("length_scale, variance", [(1.0, 1.0), (0.2, 2.5)])
def test_gaussian_field_kernel(length_scale: float, variance: float) -> None:
    space = GaussianField(length_scale, variance)
    x, y = np.array([0.0, 0.35]), np.array([0.0, 0.2, 1.0])
    expected = [[variance * np.exp(-((s - t) ** 2) / (2 * length_scale**2)) for t in y] for s in x]
    np.testing.assert_allclose(space.covariance(x, y), expected, rtol=1e-13)
    # One length scale apart, the correlation is exp(-1/2).
    apart = space.covariance(np.array([0.0]), np.array([length_scale]))
    np.testing.assert_allclose(apart, variance * 0.6065306597126334, rtol=1e-14)


def test_gaussian_field_samples_are_smooth_on_a_fine_grid() -> None:
    """The kernel's numerical null space must not come back as noise: 101 sensors carry a few eigenvalues only."""
    x = np.linspace(0, 1, 101)
    with jax.enable_x64(True):
        f = draw(GaussianField(), x, 50)
    # A fourth difference is h^4 f'''' with E f''''^2 = 105; white noise of size e would show as sqrt(70) e. The
    # square root of the eigenvalues' rounding, 1e-8, is the noise that a symmetric root has.
    assert np.abs(np.diff(f, 4, axis=1)).max() < 6 * np.sqrt(105) * 0.01**4 + 6 * np.sqrt(70) * 1e-8


# --------------------------------------------------------------------------------------------------- Periodic field


def test_periodic_field_first_scale_by_hand() -> None:
    # sqrt(2) 625 / (4 pi^2 + 25)^2 = 883.8835 / 64.4784^2
    assert round(float(PeriodicGaussianField().scales()[0]), 4) == 0.2126


def test_periodic_field_covariance_against_a_direct_sum() -> None:
    sigma, tau, gamma = 625.0, 5.0, 4.0
    x, y = np.array([0.0, 0.13, 0.5]), np.array([0.0, 0.29, 0.88, 1.0])
    expected = np.zeros((3, 4))
    for k in range(1, 1001):  # far beyond the field's own 64 modes, whose rest is below 1e-10
        weight = 2 * sigma**2 * ((2 * np.pi * k) ** 2 + tau**2) ** -gamma
        expected += weight * np.cos(2 * np.pi * k * (x[:, None] - y[None, :]))
    np.testing.assert_allclose(PeriodicGaussianField().covariance(x, y), expected, rtol=0, atol=1e-10)


def test_periodic_field_has_period_one_and_no_spatial_mean() -> None:
    with jax.enable_x64(True):
        x = np.concatenate([np.linspace(0, 1, 257), 1 + np.linspace(0, 1, 257)])
        f = draw(PeriodicGaussianField(), x, 40)
    np.testing.assert_allclose(f[:, 0], f[:, 256], rtol=0, atol=1e-13)
    np.testing.assert_allclose(f[:, :257], f[:, 257:], rtol=0, atol=1e-13)
    # The mean over 256 equispaced points annihilates all 64 modes exactly.
    np.testing.assert_allclose(f[:, :256].mean(axis=1), 0, atol=1e-14)
    assert np.abs(f).max() > 0.1


def test_periodic_field_values_at_both_ends_agree_in_single_precision() -> None:
    f = draw(PeriodicGaussianField(), POINTS, SAMPLES)
    assert f.dtype == np.float32
    np.testing.assert_allclose(f[:, 0], f[:, -1], rtol=0, atol=1e-6)


# ----------------------------------------------------------------------------------------------------------- Series


def test_sine_scales_are_normalised_and_decay_as_stated() -> None:
    for space in (SineSeries(), SineSeries(modes=4, decay=1.5)):
        s = space.scales()
        np.testing.assert_allclose(np.sum(s**2), 1.0, rtol=1e-14)
        n = np.arange(1, space.modes + 1)
        np.testing.assert_allclose(s / s[0], (1 + 1 / space.decay**2) / (1 + n**2 / space.decay**2), rtol=1e-14)


def test_sine_basis_is_orthonormal() -> None:
    phi = SineSeries().basis(UNIT_NODES)
    np.testing.assert_allclose(phi.T @ (phi * UNIT_WEIGHTS[:, None]), np.eye(10), atol=1e-13)
    np.testing.assert_allclose(SineSeries().basis(np.array([0.25]))[0, :4], [1, np.sqrt(2), 1, 0], atol=1e-14)


def test_sine_samples_are_their_coefficients() -> None:
    with jax.enable_x64(True):
        space, key = SineSeries(), jax.random.key(5)
        f, c = np.asarray(space.sample(UNIT_NODES, 7, key=key)), np.asarray(space.coefficients(7, key=key))
    projected = np.sqrt(2) * (f * UNIT_WEIGHTS) @ np.sin(np.pi * UNIT_NODES[:, None] * np.arange(1, 11))
    np.testing.assert_allclose(projected, c, atol=1e-13)


def test_sine_coefficients_have_the_stated_scales() -> None:
    space = SineSeries()
    c = np.asarray(space.coefficients(SAMPLES, key=jax.random.key(6)), np.float64)
    # The variance of a normal variable is estimated with a relative standard error of sqrt(2 / N).
    assert np.all(np.abs(np.mean(c**2, axis=0) / space.scales() ** 2 - 1) <= FIVE * np.sqrt(2 / SAMPLES))
    correlation = c.T @ c / SAMPLES / np.outer(space.scales(), space.scales())
    assert np.abs(correlation - np.diag(np.diag(correlation))).max() <= FIVE / np.sqrt(SAMPLES)


@pytest.mark.parametrize("bound", [1.0, 2.0])
def test_power_series_samples_are_cubics_with_uniform_coefficients(bound: float) -> None:
    x = np.arange(7.0)
    with jax.enable_x64(True):
        f = draw(PowerSeries(bound=bound), x, SAMPLES)
    np.testing.assert_allclose(np.diff(f, 4, axis=1), 0, atol=1e-11)  # values of up to 500, with weights of up to 6
    coefficients = np.linalg.solve(np.vander(x[:4], increasing=True), f[:, :4].T).T
    assert np.all(np.abs(f[:, 0]) <= bound)
    assert np.all(np.abs(coefficients) <= bound * (1 + 1e-12))  # rounding of the solve
    # Kolmogorov's bound: a deviation of 2.5 / sqrt(N) has probability 2 exp(-2 * 2.5^2) = 7e-6.
    uniform = (np.arange(SAMPLES) + 0.5) / SAMPLES
    distance = np.abs((np.sort(coefficients, axis=0) / bound + 1) / 2 - uniform[:, None]).max()
    assert distance <= 2.5 / np.sqrt(SAMPLES)


# ----------------------------------------------------------------------------------------------------------- Inputs


@pytest.mark.parametrize("sensors", [np.linspace(0, 1, 11), np.array([0.0, 0.11, 0.4, 0.45, 0.9, 1.0])])
def test_sensor_matrix_is_linear_interpolation(sensors: np.ndarray) -> None:
    x = np.concatenate([np.linspace(0, 1, 37), sensors])
    a = np.random.default_rng(0).normal(size=(3, len(sensors)))
    values = a @ SensorInput(GaussianField(), sensors).matrix(x).T
    np.testing.assert_allclose(values, [np.interp(x, sensors, row) for row in a], rtol=0, atol=1e-14)


def test_sensor_input_samples_its_space_at_the_sensors() -> None:
    sensor_input = SensorInput(PowerSeries(), POINTS)
    assert sensor_input.size == len(POINTS)
    sampled = np.asarray(sensor_input.sample(SAMPLES, key=jax.random.key(7)))
    np.testing.assert_array_equal(sampled, draw(PowerSeries(), POINTS, SAMPLES, seed=7))


def test_modal_matrix_reproduces_the_series() -> None:
    modal, key = ModalInput(SineSeries()), jax.random.key(8)
    with jax.enable_x64(True):
        a = np.asarray(modal.sample(7, key=key))
        f = np.asarray(modal.space.sample(UNIT_NODES, 7, key=key))
    assert a.shape == (7, modal.size) == (7, 10)
    np.testing.assert_allclose(a @ modal.matrix(UNIT_NODES).T, f, atol=1e-14)
    series = sum(a[:, [n - 1]] * np.sqrt(2) * np.sin(n * np.pi * UNIT_NODES) for n in range(1, 11))
    np.testing.assert_allclose(a @ modal.matrix(UNIT_NODES).T, series, atol=1e-14)


def test_modal_radius_is_the_l2_norm() -> None:
    modal = ModalInput(SineSeries())
    a = np.random.default_rng(1).normal(size=(4, 10))
    norm = np.sqrt((a @ modal.matrix(UNIT_NODES).T) ** 2 @ UNIT_WEIGHTS)
    with jax.enable_x64(True):
        np.testing.assert_allclose(modal.radius(jnp.asarray(a)), norm, rtol=1e-13)


@pytest.mark.parametrize("sensors", [101, 401])
def test_sensor_radius_is_the_l2_norm_of_a_resolved_input(sensors: int) -> None:
    grid = np.linspace(0, 1, sensors)
    sensor_input = SensorInput(GaussianField(), grid)
    a = np.random.default_rng(2).normal(size=(20, 5)) @ np.cos(3 * np.arange(5)[:, None] * grid + np.arange(5)[:, None])
    x, w = gauss_legendre(grid, 2)  # exact for the square of the interpolant
    with jax.enable_x64(True):
        squares = np.asarray(sensor_input.radius(jnp.asarray(a))) ** 2
    norms = (a @ sensor_input.matrix(x).T) ** 2 @ w
    # The mean over m sensors is ((m - 1) T + e) / m with T the trapezoidal rule for a^2 and e the mean of its end
    # values: |mean - T| <= |e - T| / m. T itself exceeds the interpolant's integral by sum (a_{i+1} - a_i)^2 h / 6.
    excess = (np.diff(a, axis=1) ** 2).sum(axis=1) / (6 * (sensors - 1))
    end = np.abs((a[:, 0] ** 2 + a[:, -1] ** 2) / 2 - (norms + excess)) / sensors
    assert np.all(np.abs(squares - norms) <= excess + end + 1e-13)


def test_modal_modes_are_the_first_coordinates() -> None:
    modal = ModalInput(SineSeries())
    functions = modal.modes(4) @ modal.matrix(UNIT_NODES).T
    np.testing.assert_allclose((functions * UNIT_WEIGHTS) @ functions.T, np.eye(4), atol=1e-13)
    np.testing.assert_allclose(functions[2], np.sqrt(2) * np.sin(3 * np.pi * UNIT_NODES), atol=1e-14)


def test_sensor_modes_are_orthonormal_sines() -> None:
    sensors = np.linspace(0, 1, 101)
    sensor_input = SensorInput(GaussianField(), sensors)
    modes = sensor_input.modes(6)
    # The trapezoidal rule (the end values vanish) integrates products of sines below the Nyquist mode exactly.
    np.testing.assert_allclose(modes @ modes.T / 100, np.eye(6), atol=1e-13)
    x, w = gauss_legendre(sensors, 2)
    functions = modes @ sensor_input.matrix(x).T
    # As piecewise linear functions they keep exactly (2 + cos(n pi h)) / 3 of their energy: 0.6 % less for n = 6.
    kept = (2 + np.cos(np.pi * np.arange(1, 7) / 100)) / 3
    np.testing.assert_allclose((functions * w) @ functions.T, np.diag(kept), atol=1e-13)
    np.testing.assert_allclose(modes[4], np.sqrt(2) * np.sin(5 * np.pi * sensors), atol=1e-14)
