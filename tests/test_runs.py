"""Run folders: a stopped run ends where an undisturbed one does, and nothing foreign is continued."""

from __future__ import annotations

import csv
import dataclasses
import hashlib
import json
import shutil

import jax
import numpy as np
import pytest
from training_cases import SMALL, same, setup

from stablepdenet.errors import CheckpointError, ConfigError, Interrupted
from stablepdenet.experiments.runs import configure, load_operator
from stablepdenet.experiments.training import Run, initial_state, train, train_in
from stablepdenet.progress import silent

# As in the paper, and with the parts of the recipe robust.
TRAINED = [(name, {"method__name": method}) for name in ("heat", "helmholtz") for method in ("pi", "adv", "stable")]
ROBUST = {"training__optimiser": "muon", "training__schedule": "cosine", "training__points": "fine"}
TRAINED += [("burgers", {"method__name": "pi", "operator__constraints": "hard", **ROBUST})]


# One of them is tried whenever anything changes.
@pytest.mark.parametrize(
    ("name", "settings"),
    [pytest.param(*each, marks=pytest.mark.long if i != 2 else ()) for i, each in enumerate(TRAINED)],
)
def test_a_resumed_run_ends_with_the_same_bytes(tmp_path, name, settings):
    problem, config = setup(name, **settings)
    undisturbed = train_in(tmp_path / "whole", problem, config, progress=silent)

    class Crash(Exception):
        pass

    def crash(report):
        if report.done == 45:
            raise Crash

    with pytest.raises(Crash):
        train_in(tmp_path / "cut", problem, config, progress=crash)
    latest = Run.open(tmp_path / "cut").latest(undisturbed)
    assert latest and latest.step == 40
    resumed = train_in(tmp_path / "cut", problem, config, progress=silent)
    assert same(undisturbed, resumed)
    stored = [sorted((tmp_path / run / "checkpoints").glob("*"))[-1] / "state.safetensors" for run in ("whole", "cut")]
    assert stored[0].read_bytes() == stored[1].read_bytes()
    rows = [list(csv.DictReader((tmp_path / run / "log.csv").open())) for run in ("whole", "cut")]
    assert [{**row, "seconds": ""} for row in rows[0]] == [{**row, "seconds": ""} for row in rows[1]]


def test_a_run_of_an_own_problem_is_kept_and_loaded(tmp_path):
    problem, config = setup(method__name="pi")
    own = dataclasses.replace(problem, name="my own")
    config = configure(own, {**SMALL, "method.name": "pi"})
    state = train_in(tmp_path, own, config)
    _, operator = load_operator(tmp_path, own)
    assert all(np.array_equal(a, b) for a, b in zip(*map(jax.tree.leaves, (state.trained, operator)), strict=True))


def test_a_run_is_not_continued_with_other_physics_of_the_same_name(tmp_path):
    problem, config = setup(method__name="pi")
    train_in(tmp_path, problem, config)
    pde, bc = problem.blocks
    other = dataclasses.replace(problem, blocks=(dataclasses.replace(pde, residual=lambda u_xx, a: -2 * u_xx - a), bc))
    with pytest.raises(ConfigError, match=r"problem\.fingerprint"):
        train_in(tmp_path, other, configure(other, {**SMALL, "method.name": "pi"}))


def test_a_signal_leaves_a_resumable_run(tmp_path):
    import os
    import signal

    problem, config = setup(method__name="pi")

    def interrupt(report):
        if report.done == 15:
            os.kill(os.getpid(), signal.SIGTERM)

    with pytest.raises(Interrupted) as caught:
        train_in(tmp_path / "run", problem, config, progress=interrupt)
    assert caught.value.signal_number == signal.SIGTERM
    resumed = train_in(tmp_path / "run", problem, config, progress=silent)
    assert same(resumed, train(problem, config))


def test_a_run_is_not_continued_with_another_configuration(tmp_path):
    problem, config = setup()
    train_in(tmp_path, problem, config, progress=silent)
    _, other = setup(attack__eps=0.1)
    with pytest.raises(ConfigError, match=r"attack\.eps"):
        train_in(tmp_path, problem, other, progress=silent)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("finished") / "run"
    problem, config = setup(method__name="pi", training__steps=20, training__checkpoints_kept=1)
    state = train_in(folder, problem, config, progress=silent)
    return folder, state


def test_a_checkpoint_returns_every_byte_of_the_state(finished):
    folder, state = finished
    problem, config = setup(method__name="pi", training__steps=20, training__checkpoints_kept=1)
    assert same(Run.open(folder).latest(initial_state(problem, config)), state)


def _newest(folder):
    return sorted((folder / "checkpoints").glob("step-*"))[-1]


def _truncate(folder):
    file = _newest(folder) / "state.safetensors"
    file.write_bytes(file.read_bytes()[:-7])


def _flip(folder):
    file = _newest(folder) / "state.safetensors"
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)


def _rewrite(folder, manifest):
    """Another manifest, with sums that fit: not damaged, but foreign."""
    (_newest(folder) / "manifest.json").write_text(manifest)
    files = {name: (_newest(folder) / name).read_bytes() for name in ("state.safetensors", "manifest.json")}
    sums = "".join(f"{hashlib.sha256(data).hexdigest()}  {name}\n" for name, data in files.items())
    (_newest(folder) / "SHA256SUMS").write_text(sums)


def _foreign(folder):
    _rewrite(folder, '{"format": "something else"}')


def _not_json(folder):
    _rewrite(folder, "{")


def _no_step(folder):
    manifest = json.loads((_newest(folder) / "manifest.json").read_text())
    _rewrite(folder, json.dumps({**manifest, "step": "twenty"}))


def _other_seed(folder):
    stored = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**stored, "seed": 1}))


def _other_shape(folder):
    stored = json.loads((folder / "config.json").read_text())
    stored["operator"]["width"] = 32
    (folder / "config.json").write_text(json.dumps(stored))


@pytest.mark.parametrize("damage", [_truncate, _flip, _foreign, _not_json, _no_step, _other_seed, _other_shape])
def test_a_damaged_or_foreign_checkpoint_is_refused(finished, tmp_path, damage):
    folder = tmp_path / "run"
    shutil.copytree(finished[0], folder)
    load_operator(folder)
    damage(folder)
    with pytest.raises(CheckpointError, match="run"):
        load_operator(folder)


def test_only_the_newest_checkpoints_are_kept(tmp_path):
    problem, config = setup(method__name="pi", training__checkpoints_kept=3)
    train_in(tmp_path, problem, config, progress=silent)
    assert [p.name for p in sorted((tmp_path / "checkpoints").iterdir())] == [f"step-{s:08d}" for s in (40, 50, 60)]
