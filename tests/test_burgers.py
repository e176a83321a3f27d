"""The exact Burgers solver and the pseudo-spectral one against closed forms and each other."""

from __future__ import annotations

from collections.abc import Callable

import jax
import numpy as np
import pytest

from stablepdenet.errors import ConfigError
from stablepdenet.experiments.solvers import burgers
from stablepdenet.functions import PeriodicGaussianField


def uneven_sensors(count: int, seed: int = 0) -> np.ndarray:
    return np.concatenate([[0.0], np.sort(np.random.default_rng(seed).uniform(size=count - 2)), [1.0]])


def observed_orders(errors: list[float]) -> np.ndarray:
    """log₂ of the error ratios under successive halving."""
    return np.log2(np.divide(errors[:-1], errors[1:]))


def from_smooth(
    field: Callable[[np.ndarray], np.ndarray], x: np.ndarray, times: np.ndarray, viscosity: float
) -> np.ndarray:
    """cole_hopf of a smooth field: its interpolants are off by a series in h², so one Richardson step leaves O(h⁴)."""

    def solve(intervals: int) -> np.ndarray:
        sensors = np.linspace(0, 1, intervals + 1)
        return burgers.cole_hopf(field(sensors)[None], burgers.Where(sensors, x, times, viscosity))

    return (4 * solve(400) - solve(200)) / 3


def analytic(x: np.ndarray, t: float | np.ndarray, viscosity: float, c: float = 0.6) -> np.ndarray:
    """−2νφ_x/φ for φ = 1 + c exp(−4π²νt) cos 2πx."""
    decayed = c * np.exp(-4 * np.pi**2 * viscosity * t)
    return 4 * np.pi * viscosity * decayed * np.sin(2 * np.pi * x) / (1 + decayed * np.cos(2 * np.pi * x))


def random_periodic(sensors: int, seed: int) -> np.ndarray:
    a = np.random.default_rng(seed).normal(size=(3, sensors))
    a[:, -1] = a[:, 0]
    return a


def test_cole_hopf_against_a_closed_form() -> None:
    x, times, viscosity = np.linspace(-0.3, 1.4, 60), np.array([0.1, 0.4, 1.0]), 0.02
    u = from_smooth(lambda s: analytic(s, 0, viscosity), x, times, viscosity)[0]
    np.testing.assert_allclose(u, analytic(x, times[:, None], viscosity), rtol=0, atol=1e-8)


def test_cole_hopf_is_an_l1_contraction() -> None:
    viscosity, sensors, x, times = 0.02, np.linspace(0, 1, 21), np.arange(1000) / 1000, np.linspace(0, 1, 6)
    u = burgers.cole_hopf(analytic(sensors, 0, viscosity)[None], burgers.Where(sensors, x, times, viscosity))[0]
    distance = np.abs(u - analytic(x, times[:, None], viscosity)).mean(axis=1)
    assert distance[0] > 1e-4 and np.all(np.diff(distance) < 0)


def test_cole_hopf_starts_from_the_interpolant() -> None:
    sensors, x = uneven_sensors(9), np.linspace(-0.5, 1.5, 81)
    a = random_periodic(9, 6)
    u = burgers.cole_hopf(a, burgers.Where(sensors, x, np.array([0.0, 1e-6]), 0.05))
    np.testing.assert_allclose(u[:, 0], [np.interp(x % 1, sensors, row) for row in a], atol=1e-14)
    assert 0 < np.abs(u[:, 1] - u[:, 0]).max() < 0.05


@pytest.mark.parametrize("mean", [0.0, 0.7])
def test_cole_hopf_against_pseudo_spectral_on_a_smooth_field(mean: float) -> None:
    def field(x: np.ndarray) -> np.ndarray:
        return mean + 0.4 * np.sin(2 * np.pi * x) - 0.2 * np.cos(6 * np.pi * x)

    x = np.arange(128) / 128
    spectral = burgers.pseudo_spectral(field(x)[None], 0.02, 1.0, 400)
    exact = from_smooth(field, x, np.array([0.25, 1.0]), 0.02)
    np.testing.assert_allclose(exact, spectral[:, [100, 400]], rtol=0, atol=1e-7)


def test_cole_hopf_against_pseudo_spectral_on_the_benchmarks_own_fields() -> None:
    # The paper's viscosity and law of initial values; its samples are smooth, with 64 modes.
    space, nodes = PeriodicGaussianField(), np.arange(1024) / 1024
    with jax.enable_x64(True):
        fields = np.asarray(space.sample(np.linspace(0, 1, 3201), 3, key=jax.random.key(3)))
        starts = np.asarray(space.sample(nodes, 3, key=jax.random.key(3)))
    spectral = burgers.pseudo_spectral(starts, 0.01, 1.0, 2000)[:, [1000, 2000]]
    # 3,201 sensors: the interpolant differs from the field by h^2 max|a''| / 8, about 2e-7.
    exact = burgers.cole_hopf(fields, burgers.Where(np.linspace(0, 1, 3201), nodes, np.array([0.5, 1.0]), 0.01))
    np.testing.assert_allclose(exact, spectral, rtol=0, atol=1e-6)


def test_cole_hopf_against_pseudo_spectral_on_a_kinked_field() -> None:
    # The kinks are gone by t = 0.1, so from there both solvers share one resolved initial value, mean included.
    sensors, x = uneven_sensors(11), np.arange(256) / 256
    u = burgers.cole_hopf(random_periodic(11, 7), burgers.Where(sensors, x, np.array([0.1, 0.5]), 0.02))
    np.testing.assert_allclose(burgers.pseudo_spectral(u[:, 0], 0.02, 0.4, 800)[:, -1], u[:, 1], rtol=0, atol=1e-9)


def test_cole_hopf_grid_converges() -> None:
    # φ has jumps in its second derivative, so the trapezoidal coefficients are third order at the least.
    sensors, x, times = uneven_sensors(11), np.linspace(0, 1, 30), np.array([0.05, 0.5])
    a = random_periodic(11, 8)
    finest = burgers.cole_hopf(a, burgers.Where(sensors, x, times, 0.03, grid=16384))
    errors = [
        np.abs(burgers.cole_hopf(a, burgers.Where(sensors, x, times, 0.03, grid=g)) - finest).max() for g in (256, 4096)
    ]
    assert errors[1] < 1e-8 and np.log(errors[0] / errors[1]) / np.log(16) > 2.5


def test_cole_hopf_ignores_the_global_precision_and_batches() -> None:
    sensors, x, times = np.linspace(0, 1, 11), np.linspace(0, 1, 7), np.array([0.2])
    a = np.tile(random_periodic(11, 9), (41, 1))  # more than two batches, with a remainder
    u = burgers.cole_hopf(a, burgers.Where(sensors, x, times, 0.05))
    assert u.dtype == np.float64 and u.shape == (123, 1, 7) and u.flags.writeable
    np.testing.assert_allclose(u[-3:], u[:3], rtol=0, atol=1e-13)
    with jax.enable_x64(True):
        np.testing.assert_allclose(
            burgers.cole_hopf(a[:3], burgers.Where(sensors, x, times, 0.05)), u[:3], rtol=0, atol=1e-13
        )
    with jax.enable_x64(False):
        single = burgers.cole_hopf_jax(jax.numpy.asarray(a[:3]), burgers.Where(sensors, x, times, 0.05))
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, u[:3], atol=1e-4)


def test_positive_sums_equal_fourier_sums_where_both_work() -> None:
    # Times to 1 with means to −0.7: drift, periodic images and x beyond the period all take part.
    sensors, x, times = uneven_sensors(11), np.linspace(-0.5, 1.5, 41), np.array([0.0, 0.05, 0.3, 1.0])
    arguments = random_periodic(11, 7), burgers.Where(sensors, x, times, 0.05, 16384)
    np.testing.assert_allclose(
        burgers._positive_sums(*arguments), burgers._fourier_sums(*arguments), rtol=0, atol=1e-10
    )


@pytest.mark.parametrize("viscosity", [1e-3, 1e-5])
def test_positive_sums_do_not_depend_on_their_blocks(viscosity: float, monkeypatch: pytest.MonkeyPatch) -> None:
    sensors, x, times = np.linspace(0, 1, 21), np.linspace(0, 1, 15), np.array([0.01, 0.2, 1.0])
    arguments = random_periodic(21, 13), burgers.Where(sensors, x, times, viscosity, 16384)
    in_blocks = burgers._positive_sums(*arguments)
    monkeypatch.setattr(burgers, "_LONGEST_BLOCK", 1)  # every node scaled by itself: nothing can underflow
    np.testing.assert_allclose(in_blocks, burgers._positive_sums(*arguments), rtol=0, atol=1e-11)


def test_cole_hopf_against_pseudo_spectral_past_the_shock() -> None:
    # The front of width 4ν/0.6 = 0.007 stands from t = 0.53; (max Ψ − min Ψ)/(2ν) = 48.
    def field(x: np.ndarray) -> np.ndarray:
        return 0.3 * np.sin(2 * np.pi * x)

    x = np.arange(2048) / 2048
    spectral = burgers.pseudo_spectral(field(x)[None], 0.001, 1.0, 2000)[:, [500, 1200, 2000], ::8]
    exact = from_smooth(field, x[::8], np.array([0.25, 0.6, 1.0]), 0.001)
    np.testing.assert_allclose(exact, spectral, rtol=0, atol=1e-8)


def test_cole_hopf_keeps_symmetries_at_small_viscosity() -> None:
    sensors, x, times = np.linspace(0, 1, 41), np.linspace(0, 1, 51), np.array([0.1, 0.7, 1.0])
    a = 0.3 * np.sin(2 * np.pi * sensors)[None] + 0.1 * np.sin(6 * np.pi * sensors)
    u = burgers.cole_hopf(a, burgers.Where(sensors, x, times, 1e-4))
    np.testing.assert_allclose(u, -u[:, :, ::-1], rtol=0, atol=1e-10)
    assert np.all(np.abs(u) <= np.abs(a).max())
    # A frame that moves with c adds c: u(x, t) from a + c is c + u(x − ct, t).
    moved = [burgers.cole_hopf(a + 0.3, burgers.Where(sensors, x + 0.3 * t, np.array([t]), 1e-4))[:, 0] for t in times]
    np.testing.assert_allclose(np.stack(moved, axis=1), 0.3 + u, rtol=0, atol=1e-8)


def test_cole_hopf_takes_the_slow_way_only_where_it_must() -> None:
    sensors, x, times = np.linspace(0, 1, 11), np.linspace(0, 1, 7), np.array([0.0, 0.2, 1.0])
    gentle = 0.03 * np.sin(2 * np.pi * sensors)
    a = np.stack([gentle, 10 * gentle, -gentle])
    u = burgers.cole_hopf(a, burgers.Where(sensors, x, times, 0.001))
    np.testing.assert_array_equal(u[::2], burgers._fourier_sums(a[::2], burgers.Where(sensors, x, times, 0.001, 4096)))
    np.testing.assert_array_equal(u[1:2], burgers._positive_sums(a[1:2], burgers.Where(sensors, x, times, 0.001, 4096)))
    assert burgers.cole_hopf(a[:0], burgers.Where(sensors, x, times, 0.001)).shape == (0, 3, 7)


def test_cole_hopf_refuses_what_its_grid_cannot_resolve() -> None:
    sensors = np.linspace(0, 1, 11)
    with pytest.raises(ConfigError, match=r"problem\.viscosity = 1e-07 is too small .* Take a larger viscosity"):
        burgers.cole_hopf(np.sin(2 * np.pi * sensors)[None], burgers.Where(sensors, sensors, sensors, 1e-7))


def test_cole_hopf_gradient() -> None:
    sensors, x, times = uneven_sensors(11), np.linspace(0, 1, 30), np.array([0.0, 0.05, 0.5])
    a, direction = random_periodic(11, 10), random_periodic(11, 11)
    weights = np.random.default_rng(12).normal(size=(3, 3, 30))
    with jax.enable_x64(True):

        @jax.jit
        def loss(a: jax.Array) -> jax.Array:
            return (weights * burgers.cole_hopf_jax(a, burgers.Where(sensors, x, times, 0.03))).sum()

        slope = (jax.grad(loss)(jax.numpy.asarray(a)) * direction).sum()
        step = 1e-5
        central = (loss(a + step * direction) - loss(a - step * direction)) / (2 * step)
    np.testing.assert_allclose(slope, central, rtol=1e-7)


def test_pseudo_spectral_converges_to_the_exact_solution_at_fourth_order_in_time() -> None:
    x, viscosity = np.arange(256) / 256, 0.02
    u0, exact = analytic(x, 0, viscosity)[None], analytic(x, 0.4, viscosity)
    errors = [np.abs(burgers.pseudo_spectral(u0, viscosity, 0.4, n)[0, -1] - exact).max() for n in (40, 80, 160)]
    np.testing.assert_allclose(observed_orders(errors), 4, atol=0.1)


def test_pseudo_spectral_is_dealiased() -> None:
    # On 32 nodes (cos 20πx)² has its mode 20 aliased to 12; with both cut at 32/3, mode 10 can only decay.
    x, t = np.arange(32) / 32, np.linspace(0, 0.01, 9)[:, None]
    u = burgers.pseudo_spectral(np.cos(20 * np.pi * x)[None], 0.02, 0.01, 8)[0]
    np.testing.assert_allclose(u, np.cos(20 * np.pi * x) * np.exp(-0.02 * (20 * np.pi) ** 2 * t), rtol=0, atol=1e-13)
