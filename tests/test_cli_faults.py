"""What the command line says of damage, failures and strange inputs."""

from __future__ import annotations

import json
import shutil

import jax
import numpy as np
import pytest
from cli_cases import TINY, assert_refused, called, stablepdenet

from stablepdenet.experiments.problems import make_problem


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A finished tiny run."""
    folder = tmp_path_factory.mktemp("cli") / "run"
    assert called("train", "poisson", "--method", "stable", "--out", folder, *TINY).returncode == 0
    return folder


@pytest.fixture
def copy(run, tmp_path):
    shutil.copytree(run, tmp_path / "run")
    return tmp_path / "run"


def test_a_damaged_checkpoint_is_named_and_the_one_before_continued(run, copy):
    file = next(copy.glob("checkpoints/step-00000020/state.safetensors"))
    whole = file.read_bytes()
    file.write_bytes(whole[:100])
    result = stablepdenet("resume", copy)
    assert result.returncode == 0, result.stderr
    told = [line for line in result.stderr.splitlines() if "warning" in line]
    assert len(told) == 1 and "step-00000020/state.safetensors" in told[0] and "step-00000010" in told[0]
    assert file.read_bytes() == whole


def test_without_a_good_checkpoint_a_run_is_refused(copy):
    for manifest in copy.glob("checkpoints/step-*/manifest.json"):
        manifest.write_text("[]")
    assert_refused(stablepdenet("resume", copy), 4, "step-00000020", "step-00000010")


@pytest.mark.long
def test_a_failure_is_told_and_replayed(tmp_path):
    folder = tmp_path / "run"
    result = stablepdenet("train", "poisson", "--out", folder, *TINY, "--set=training.learning_rate=1e30")
    assert result.returncode == 6
    assert "loss_" in result.stderr and f"stablepdenet replay {folder}" in result.stderr
    told = json.loads(called("replay", folder, "--json").stdout)
    assert told["culprit"]["float32"].startswith("loss_") and told["culprit"]["float64"] is None
    assert f"Step {told['step']}:" in called("replay", folder).stdout
    assert_refused(stablepdenet("replay", tmp_path), 4, "not a run folder")


def test_inputs_unlike_the_training_ones_are_flagged(run, tmp_path):
    problem = make_problem("poisson")
    usual = np.asarray(problem.sample(3, key=jax.random.key(5)))
    rough = usual[:1] + np.where(np.arange(100) % 2, 0.5, -0.5)
    np.save(tmp_path / "a.npy", np.concatenate([usual, rough]))
    result = stablepdenet("predict", run, "--input", tmp_path / "a.npy", "--json")
    told = json.loads(result.stdout)
    assert told["outside_rows"] == [4] and told["inadmissible_rows"] == []
    assert "warning: 1 of 4 inputs (row 4)" in result.stderr and "roughness" in result.stderr
    np.save(tmp_path / "a.npy", usual)
    assert "warning" not in called("predict", run, "--input", tmp_path / "a.npy").stderr


def test_inputs_that_are_not_admissible_are_named(tmp_path):
    assert called("train", "burgers", "--method", "pi", "--out", tmp_path / "run", *TINY).returncode == 0
    a = np.array(make_problem("burgers").sample(3, key=jax.random.key(5)))
    a[1] += np.linspace(0, 0.01, 101)
    np.save(tmp_path / "a.npy", a)
    result = called("predict", tmp_path / "run", "--input", tmp_path / "a.npy", "--json")
    assert json.loads(result.stdout)["inadmissible_rows"] == [2]
    assert "1 of 3 inputs (row 2) are not admissible" in result.stderr
    assert "first and last value agree" in result.stderr


@pytest.mark.long
def test_two_deterministic_processes_give_the_same_bytes_and_record_one_core(tmp_path):
    arguments = ["train", "poisson", "--method", "stable", "--deterministic", *TINY]
    for name in ("first", "second"):
        assert stablepdenet(*arguments, "--out", tmp_path / name).returncode == 0
    newest = [tmp_path / name / "checkpoints" / "step-00000020" for name in ("first", "second")]
    assert newest[0].joinpath("state.safetensors").read_bytes() == newest[1].joinpath("state.safetensors").read_bytes()
    assert json.loads(newest[0].joinpath("manifest.json").read_text())["cores"] == 1
    # A resumed one keeps to its word.
    shutil.rmtree(newest[1])
    assert stablepdenet("resume", tmp_path / "second").returncode == 0
    assert newest[0].joinpath("state.safetensors").read_bytes() == newest[1].joinpath("state.safetensors").read_bytes()
    assert json.loads(newest[1].joinpath("manifest.json").read_text())["cores"] == 1
