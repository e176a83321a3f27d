"""Fronts with known positions are found, and their displacements measured the short way around the period."""

from __future__ import annotations

import numpy as np
import pytest

from stablepdenet.auditing.front_positions import displacement, front_positions, shock_errors

X = np.linspace(0, 1, 101)


def travelling_front(position: np.ndarray, *, width: float = 0.02, sign: float = -1.0) -> np.ndarray:
    """A tanh front of period 1: one steep flank at each position, one gentle flank half a period away."""
    distance = (X - np.asarray(position)[:, None] + 0.5) % 1 - 0.5
    return sign * (np.tanh(distance / width) - 2 * distance)


@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_a_front_is_found_well_below_the_grid_spacing(sign: float) -> None:
    position = np.linspace(0, 1, 60, endpoint=False)
    found = front_positions(travelling_front(position, sign=sign), X)
    assert np.all((found >= 0) & (found < 1))
    assert np.abs(displacement(position, found)).max() < 0.1 * (X[1] - X[0])


def test_the_origin_of_x_is_the_origin_of_the_position() -> None:
    u = travelling_front(np.array([0.305]))
    np.testing.assert_allclose(front_positions(u, X - 0.5), front_positions(u, X) - 0.5, atol=1e-15)


def test_a_symmetric_front_at_the_end_of_the_period_is_found_exactly() -> None:
    u = np.sin(2 * np.pi * X) + np.sin(4 * np.pi * X)
    assert abs(displacement(np.zeros(1), front_positions(u[None], X))[0]) < 1e-12


def test_a_constant_has_its_front_in_the_first_interval() -> None:
    np.testing.assert_allclose(front_positions(np.ones((2, 101)), X), 0.005)


def test_a_solution_that_is_not_quite_periodic_keeps_its_front() -> None:
    # A mismatch of 0.3 between the ends: across them it would be steeper than the front.
    position = np.array([0.3, 0.62])
    found = front_positions(travelling_front(position) + 0.3 * X, X)
    np.testing.assert_allclose(found, position, atol=1e-3)


@pytest.mark.parametrize("shift", [0.1, -0.37, 0.004, 0.3])
def test_a_known_shift_is_measured_across_the_end_of_the_period(shift: float) -> None:
    start = np.array([0.05, 0.5, 0.95])
    clean, perturbed = (front_positions(travelling_front(start + s), X) for s in (0.0, shift))
    np.testing.assert_allclose(displacement(clean, perturbed), shift, atol=2e-3)


def test_displacements_wrap_into_half_a_period_either_way() -> None:
    clean, perturbed = np.array([0.9, 0.1, 0.0, 0.25]), np.array([0.1, 0.9, 0.5, 0.25])
    np.testing.assert_allclose(displacement(clean, perturbed), [0.2, -0.2, -0.5, 0.0], atol=1e-15)


def test_the_shock_error_compares_two_displacements() -> None:
    exact = np.array([0.2, -0.49, 0.0])
    np.testing.assert_array_equal(shock_errors(exact, exact), 0)
    np.testing.assert_allclose(shock_errors(np.array([0.15, 0.49, 0.3]), exact), [0.05, 0.02, 0.3], atol=1e-15)
