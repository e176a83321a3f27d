"""Point sets against values worked out by hand, and low discrepancy against random points."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import qmc

from stablepdenet import points


def test_uniform_points_span_the_interval() -> None:
    np.testing.assert_allclose(points.uniform(5), [0, 0.25, 0.5, 0.75, 1], rtol=0, atol=0)
    np.testing.assert_allclose(points.uniform(3, (-1, 2)), [-1, 0.5, 2], rtol=0, atol=0)
    np.testing.assert_allclose(points.uniform(4, endpoint=False), [0, 0.25, 0.5, 0.75], rtol=0, atol=0)
    assert points.uniform(101).dtype == np.float64


def test_grid_varies_the_first_coordinate_slowest() -> None:
    actual = points.grid(np.array([0.0, 1.0]), np.array([5.0, 6.0, 7.0]))
    np.testing.assert_array_equal(actual, [[0, 5], [0, 6], [0, 7], [1, 5], [1, 6], [1, 7]])
    x, y, z = np.arange(2.0), np.arange(3.0), np.arange(4.0)
    rows = [(a, b, c) for a in x for b in y for c in z]
    np.testing.assert_array_equal(points.grid(x, y, z), rows)
    np.testing.assert_array_equal(points.grid(x), x[:, None])


def test_grid_order_is_that_of_a_reshaped_array() -> None:
    x, t = np.linspace(0, 1, 4), np.linspace(0, 2, 3)
    u = points.grid(x, t)[:, 0] + 10 * points.grid(x, t)[:, 1]
    np.testing.assert_array_equal(u.reshape(4, 3), x[:, None] + 10 * t[None, :])


# ------------------------------------------------------------------------------------------------------- Hammersley

BASE_2 = [1 / 2, 1 / 4, 3 / 4, 1 / 8, 5 / 8, 3 / 8, 7 / 8, 1 / 16]
BASE_3 = [1 / 3, 2 / 3, 1 / 9, 4 / 9, 7 / 9, 2 / 9, 5 / 9, 8 / 9]


def radical_inverse(index: int, base: int) -> float:
    value, scale = 0.0, 1.0 / base
    while index:
        index, digit = divmod(index, base)
        value += digit * scale
        scale /= base
    return value


def test_hammersley_in_one_dimension_is_the_midpoint_rule() -> None:
    np.testing.assert_allclose(points.hammersley(4), [[0.125], [0.375], [0.625], [0.875]], atol=1e-15)


def test_hammersley_in_two_dimensions_by_hand() -> None:
    first = [1 / 16, 3 / 16, 5 / 16, 7 / 16, 9 / 16, 11 / 16, 13 / 16, 15 / 16]
    np.testing.assert_allclose(points.hammersley(8, [points.UNIT] * 2), np.stack([first, BASE_2], axis=1), atol=1e-15)


def test_hammersley_in_three_dimensions_by_hand() -> None:
    first = [1 / 16, 3 / 16, 5 / 16, 7 / 16, 9 / 16, 11 / 16, 13 / 16, 15 / 16]
    expected = np.stack([first, BASE_2, BASE_3], axis=1)
    np.testing.assert_allclose(points.hammersley(8, [points.UNIT] * 3), expected, atol=1e-15)


def test_hammersley_is_the_radical_inverse_throughout() -> None:
    actual = points.hammersley(700, [points.UNIT] * 4)[:, 1:]
    expected = [[radical_inverse(i + 1, base) for base in (2, 3, 5)] for i in range(700)]
    np.testing.assert_allclose(actual, expected, atol=1e-14)


@pytest.mark.parametrize("box", [[(-1.0, 3.0)], [(0.0, 2.0), (-5.0, -4.0)], [(0.0, 1.0), (10.0, 10.5), (-1.0, 1.0)]])
@pytest.mark.parametrize("num", [1, 2, 64, 1000])
def test_hammersley_stays_strictly_inside_its_box_and_scales_with_it(box: list[tuple[float, float]], num: int) -> None:
    actual = points.hammersley(num, box)
    assert actual.shape == (num, len(box)) and actual.dtype == np.float64
    unit = points.hammersley(num, [points.UNIT] * len(box))
    for column, (lower, upper) in enumerate(box):
        assert np.all((lower < actual[:, column]) & (actual[:, column] < upper))
        np.testing.assert_allclose((actual[:, column] - lower) / (upper - lower), unit[:, column], atol=1e-13)


@pytest.mark.parametrize("dimension", [1, 2, 3])
def test_hammersley_has_a_low_discrepancy(dimension: int) -> None:
    ours = qmc.discrepancy(points.hammersley(512, [points.UNIT] * dimension), method="CD")
    generator = np.random.default_rng(0)
    random = [qmc.discrepancy(generator.uniform(size=(512, dimension)), method="CD") for _ in range(20)]
    # The squared discrepancy falls like log(N)^(2d - 2) / N^2 instead of 1 / N: a factor of ten is far from both.
    assert ours < 0.1 * min(random)


def test_hammersley_is_deterministic_and_has_distinct_points() -> None:
    box = [points.UNIT] * 3
    np.testing.assert_array_equal(points.hammersley(200, box), points.hammersley(200, box))
    assert len(np.unique(points.hammersley(200, box)[:, 1:], axis=0)) == 200


# ---------------------------------------------------------------------------------------------------------- Layouts


def test_initial_points_hold_the_time_fixed() -> None:
    x = np.array([0.2, 0.5, 0.9])
    np.testing.assert_array_equal(points.initial(x), [[0.2, 0], [0.5, 0], [0.9, 0]])
    np.testing.assert_array_equal(points.initial(x, 0.7), [[0.2, 0.7], [0.5, 0.7], [0.9, 0.7]])


def test_boundary_points() -> None:
    np.testing.assert_array_equal(points.boundary(), [[0], [1]])
    np.testing.assert_array_equal(points.boundary((-2.0, 3.0)), [[-2], [3]])
    times = np.array([0.0, 0.5, 2.0])
    expected = [[-2, 0], [-2, 0.5], [-2, 2], [3, 0], [3, 0.5], [3, 2]]
    np.testing.assert_array_equal(points.boundary((-2.0, 3.0), times), expected)


def test_periodic_points_pair_up() -> None:
    times = np.array([0.1, 0.4, 0.9])
    pairs = points.periodic(times, (-1.0, 1.0))
    left, right = pairs[:3], pairs[3:]
    np.testing.assert_array_equal(left, [[-1, 0.1], [-1, 0.4], [-1, 0.9]])
    np.testing.assert_array_equal(right - left, [[2, 0]] * 3)
    np.testing.assert_array_equal(points.periodic(times)[:, 0], [0, 0, 0, 1, 1, 1])
