"""Loading: what is stored is what was trained, for the problem at hand, and takes no more memory than its file."""

from __future__ import annotations

import dataclasses
import json
import shutil

import pytest
from training_cases import setup

from stablepdenet import Block, load_operator
from stablepdenet.errors import CheckpointError, ConfigError
from stablepdenet.experiments.training import Run, train_in
from stablepdenet.progress import silent
from stablepdenet.training import checkpoint

SHORT = {"training__steps": 30, "training__log_every": 10, "operator__width": 4}


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("faults") / "run"
    problem, config = setup(method__name="pi", **SHORT)
    return folder, train_in(folder, problem, config, progress=silent)


@pytest.fixture
def copy(finished, tmp_path):
    shutil.copytree(finished[0], tmp_path / "run")
    return Run.open(tmp_path / "run")


def test_a_training_larger_than_the_machine_is_refused(tmp_path):
    problem, config = setup(operator__width=10_000_000)
    with pytest.raises(ConfigError, match=r"GiB.*operator\.width"):
        train_in(tmp_path, problem, config, progress=silent)


def test_a_stored_size_takes_no_memory(copy):
    # Its checkpoint is small, whatever its configuration promises.
    stored = json.loads((copy.folder / "config.json").read_text())
    stored["operator"]["width"] = 10_000_000
    (copy.folder / "config.json").write_text(json.dumps(stored))
    with pytest.raises(CheckpointError, match="another run"):
        load_operator(copy.folder)


def test_a_run_is_not_loaded_as_that_of_another_problem(finished, copy):
    problem, config = setup(method__name="pi", **SHORT)
    pde = Block("pde", problem.blocks[0].points, lambda u_xx, a: -2.0 * u_xx - a)
    other = dataclasses.replace(problem, blocks=(pde, problem.blocks[1]))
    with pytest.raises(CheckpointError, match="another problem 'poisson'"):
        load_operator(copy.folder, other)
    with pytest.raises(CheckpointError, match="another problem 'poisson'"):
        train_in(copy.folder, other, config, progress=silent)
    assert load_operator(copy.folder, problem)[0] is problem


def test_an_unfinished_run_says_so(copy):
    shutil.rmtree(checkpoint.existing(copy.checkpoints)[-1])
    with pytest.warns(UserWarning, match="best so far"):
        load_operator(copy.folder)


def test_a_type_that_numpy_lacks_is_refused(copy):
    folder = checkpoint.existing(copy.checkpoints)[-1]
    data = (folder / "state.safetensors").read_bytes()
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    entry = next(e for e in header.values() if e.get("dtype") == "F32" and e["shape"])
    entry |= {"dtype": "BF16", "shape": [2 * entry["shape"][0], *entry["shape"][1:]]}
    text = json.dumps(header).encode()
    files = {"state.safetensors": len(text).to_bytes(8, "little") + text + data[8 + length :]}
    files["manifest.json"] = (folder / "manifest.json").read_bytes()
    for name, content in {**files, "SHA256SUMS": checkpoint.sums(files)}.items():
        (folder / name).write_bytes(content)
    with pytest.raises(CheckpointError, match="no safetensors"):
        load_operator(copy.folder)
