"""Models as files: what is written is what is read, and nothing else is."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from stablepdenet import load_model, make_problem
from stablepdenet.errors import CheckpointError, ConfigError
from stablepdenet.experiments.report.paper import tables
from stablepdenet.experiments.runs import resolve
from stablepdenet.experiments.training import make_operator
from stablepdenet.experiments.zoo import read_model, write_model
from stablepdenet.operators import DeepONet
from stablepdenet.training.objectives import METHODS


def stored(tmp_path, name="burgers"):
    problem, config = resolve(name, {"operator.width": 8, "operator.depth": 2})
    operator = make_operator(problem, config, key=jax.random.key(3))
    write_model(operator, config, tmp_path / "model.safetensors")
    return problem, config, operator, (tmp_path / "model.safetensors").read_bytes()


@pytest.mark.parametrize("name", ["burgers", "helmholtz-3pi+0.1"])
def test_a_model_is_read_as_it_was_written(tmp_path, name):
    problem, config, operator, data = stored(tmp_path, name)
    read_config, read = read_model(data, "model")
    assert read_config == config
    assert isinstance(read, DeepONet)
    a = problem.sample(3, key=jax.random.key(0))
    assert np.array_equal(read(a, jnp.asarray(problem.grid)), operator(a, jnp.asarray(problem.grid)))


def test_a_damaged_or_foreign_model_is_refused(tmp_path):
    _, _, _, data = stored(tmp_path)
    for broken in (
        b"",
        data[: len(data) // 2],
        b"{}" + data,
        data.replace(b"stablepdenet-model-1", b"stablepdenet-model-2"),
    ):
        with pytest.raises(CheckpointError, match="model"):
            read_model(broken, "model")
    with pytest.raises(CheckpointError, match="height"):
        read_model(data.replace(b"trunk.layers[0].weight", b"trunk.layers[0].height"), "model")


def test_a_model_that_is_not_there_is_named():
    with pytest.raises(ConfigError, match="'wave' by 'stable'"):
        load_model("wave")


@pytest.mark.parametrize("name", tables()["relative_l2"])
def test_the_zoo_has_every_model_of_the_paper_and_each_solves_its_problem(name):
    problem = make_problem(name)
    a = problem.sample(20, key=jax.random.key(11))
    u = problem.require_reference()(np.asarray(a))
    for method in METHODS:
        found = load_model(name, method)(a, jnp.asarray(problem.grid))
        assert np.linalg.norm(found - u) / np.linalg.norm(u) < 0.3, method


@pytest.mark.parametrize("name, bound", [("burgers", 0.01), ("poisson", 1e-6)])
def test_the_zoo_has_what_we_recommend(name, bound):
    problem, operator = make_problem(name), load_model(name, "robust")
    a = problem.sample(5, key=jax.random.key(12))
    u = problem.require_reference()(np.asarray(a))
    assert np.linalg.norm(operator(a, jnp.asarray(problem.grid)) - u) / np.linalg.norm(u) < bound
