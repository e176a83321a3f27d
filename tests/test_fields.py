"""Fields of several variables and laws of coefficients, against what they claim."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from stablepdenet import points
from stablepdenet.errors import ConfigError
from stablepdenet.functions import (
    GaussianField,
    Inputs,
    LogNormal,
    MaternField,
    NormalScalar,
    PeriodicGaussianField,
    PowerSeries,
    Scalar,
    SensorInput,
    Thresholded,
)

LAWS = [
    GaussianField(0.4, 2.0),
    MaternField(0.5, 2.0, 0.5),
    MaternField(0.5, 1.0, 1.5),
    MaternField(0.5, 1.0, 2.5),
    PeriodicGaussianField(sigma=20.0, tau=3.0, gamma=2.0, modes=3, period=2.0),
    LogNormal(GaussianField(0.5, 0.2), scale=3.0),
    Thresholded(GaussianField(0.5), low=3.0, high=12.0),
]
SAMPLES = 20_000
AXES = (np.array([0.0, 0.3, 1.0]), np.array([0.1, 0.8]))
PLACES = points.grid(*AXES)


@pytest.mark.parametrize("law", LAWS, ids=repr)
@pytest.mark.parametrize("grid", [False, True])
def test_a_field_of_two_variables_has_the_stated_mean_and_covariance(law, grid):
    key = jax.random.key(3)
    drawn = law.sample_grid(AXES, SAMPLES, key=key) if grid else law.sample(PLACES, SAMPLES, key=key)
    f = np.asarray(drawn, np.float64)
    # Five standard errors: a fair sample exceeds them once in 1.7 million entries.
    assert np.all(np.abs(f.mean(axis=0) - law.mean(PLACES)) <= 5 * f.std(axis=0) / np.sqrt(SAMPLES))
    centred = f - law.mean(PLACES)
    products = centred[:, :, None] * centred[:, None, :]
    error = np.abs(products.mean(axis=0) - law.covariance(PLACES, PLACES))
    # Float32 values, where a product never varies.
    assert np.all(error <= 5 * products.std(axis=0) / np.sqrt(SAMPLES) + 1e-5 * np.max(products))


def test_a_periodic_field_repeats_after_its_period():
    law = PeriodicGaussianField(modes=4, period=2.0)
    here, there = (law.sample(x, 3, key=jax.random.key(0)) for x in (PLACES, PLACES + np.array([2.0, -2.0])))
    np.testing.assert_allclose(here, there, atol=1e-5)


def test_values_between_sensors_and_their_slopes_are_bilinear():
    law = SensorInput(GaussianField(), (np.array([0.0, 0.2, 1.0]), np.array([-1.0, 0.5, 2.0])), of="xy")
    nodes = points.grid(*law.axes)
    a = 1 + 2 * nodes[:, 0] - nodes[:, 1] + 3 * nodes[:, 0] * nodes[:, 1]
    x, y = points.hammersley(50, [(0, 1), (-1, 2)]).T
    where = np.stack([x, y], axis=1)
    np.testing.assert_allclose(law.matrix(where) @ a, 1 + 2 * x - y + 3 * x * y, atol=1e-12)
    np.testing.assert_allclose(law.matrix(where, (0,)) @ a, 2 + 3 * y, atol=1e-12)
    np.testing.assert_allclose(law.matrix(where, (1,)) @ a, -1 + 3 * x, atol=1e-12)
    np.testing.assert_allclose(law.matrix(where, (0, 1)) @ a, 3.0, atol=1e-12)


def test_modes_are_orthonormal_on_any_interval():
    law = SensorInput(GaussianField(), (points.uniform(201, (-1, 3)), points.uniform(101, (0, 2))), of="xy")
    modes = law.modes(4)
    weights = np.outer(*(points.trapezoid(axis) / np.ptp(axis) for axis in law.axes)).ravel()
    np.testing.assert_allclose((modes * weights) @ modes.T, np.eye(4), atol=1e-10)


def test_inputs_are_packed_and_unpacked_by_name():
    inputs = Inputs(k=SensorInput(GaussianField(), AXES, of="xy"), nu=Scalar(1.0, 2.0), mu=NormalScalar(5.0, 0.1))
    k = np.arange(12.0).reshape(2, 3, 2)
    a = inputs.pack(k=k, nu=np.ones((2, 1)), mu=np.zeros((1, 1)))
    assert a.shape == (2, inputs.size) == (2, 8)
    found = inputs.unpack(a)
    np.testing.assert_array_equal(found["k"], k.reshape(2, 6))
    np.testing.assert_array_equal(found["mu"], np.zeros((2, 1)))
    drawn = inputs.unpack(inputs.sample(SAMPLES, key=jax.random.key(0)))
    assert float(drawn["nu"].min()) >= 1.0 and float(drawn["nu"].max()) <= 2.0
    assert abs(float(drawn["mu"].mean()) - 5.0) < 5 * 0.1 / np.sqrt(SAMPLES)
    for wrong in ({"k": k}, {"k": k, "nu": 1.0, "mu": 1.0, "f": 1.0}, {"k": k[:, :2], "nu": k, "mu": k}):
        with pytest.raises(ConfigError, match="pack"):
            inputs.pack(**wrong)


def test_a_law_of_one_variable_is_not_asked_for_two():
    with pytest.raises(ConfigError, match="one variable"):
        PowerSeries().sample(PLACES, 1, key=jax.random.key(0))
