"""Faults: what is damaged is noticed and gone around, what fails is told, and nothing is lost. `make faults` does the
same many more times."""

from __future__ import annotations

import errno
import importlib
import json
import shutil
import subprocess
import sys
import warnings
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from training_cases import same, setup

from stablepdenet.errors import CheckpointError, ConfigError, DivergenceError, StorageError
from stablepdenet.experiments.runs import load_operators
from stablepdenet.experiments.training import Run, initial_state, make_program, running, state_shapes, train, train_in
from stablepdenet.experiments.training.run import locked
from stablepdenet.progress import silent
from stablepdenet.training import checkpoint, loop
from stablepdenet.training.failure import culprit, replay

SHORT = {"training__steps": 30, "training__log_every": 10, "operator__width": 4}


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A small run of three checkpoints' worth, the last two kept."""
    folder = tmp_path_factory.mktemp("faults") / "run"
    problem, config = setup(method__name="pi", **SHORT)
    return folder, train_in(folder, problem, config, progress=silent)


@pytest.fixture
def copy(finished, tmp_path):
    shutil.copytree(finished[0], tmp_path / "run")
    return Run.open(tmp_path / "run")


def test_every_flipped_byte_is_noticed_and_the_checkpoint_before_is_used(finished, copy):
    problem, config = setup(method__name="pi", **SHORT)
    template = initial_state(problem, config)
    before, newest = checkpoint.existing(copy.checkpoints)
    for name in ("state.safetensors", "manifest.json", "SHA256SUMS"):
        data = (newest / name).read_bytes()
        # Every 37th byte; `make faults` takes all of them.
        for place in range(0, len(data), 37):
            (newest / name).write_bytes(data[:place] + bytes([data[place] ^ (1 << place % 8)]) + data[place + 1 :])
            with pytest.warns(UserWarning, match=rf"step-00000030.*{before.name}"):
                assert int(copy.latest(template).step) == 20
        (newest / name).write_bytes(data)
    assert same(copy.latest(template), finished[1])


@pytest.mark.parametrize("name", ["state.safetensors", "manifest.json", "SHA256SUMS"])
def test_a_damaged_run_is_finished_again_with_the_same_bytes(finished, copy, name):
    problem, config = setup(method__name="pi", **SHORT)
    newest = checkpoint.existing(copy.checkpoints)[-1]
    whole = {file.name: file.read_bytes() for file in newest.iterdir()}
    (newest / name).unlink()
    with pytest.warns(UserWarning, match=name):
        resumed = train_in(copy.folder, problem, config, progress=silent)
    assert same(resumed, finished[1])
    assert {file.name: file.read_bytes() for file in newest.iterdir()} == whole


def test_an_older_checkpoint_is_not_measured_as_the_last(copy):
    (checkpoint.existing(copy.checkpoints)[-1] / "state.safetensors").write_bytes(b"")
    with pytest.warns(UserWarning), pytest.raises(CheckpointError, match="not trained to its end"):
        load_operators([copy.folder])


def test_without_a_good_checkpoint_there_is_one_sentence(copy):
    for folder in checkpoint.existing(copy.checkpoints):
        (folder / "manifest.json").write_bytes(b"{}")
    problem, config = setup(method__name="pi", **SHORT)
    with pytest.raises(CheckpointError, match=r"no checkpoint of .* is left"):
        train_in(copy.folder, problem, config, progress=silent)


def test_torn_and_foreign_lines_of_a_log_are_dropped(copy):
    whole = copy.log.read_bytes()
    last = whole.splitlines()[-1]
    torn = [b"31,0.1", b"\x00" * 80, b"\xff\xfe,,", last.replace(b"30,", b"x,", 1), last.replace(b"30,", b"30,,", 1)]
    for rubbish in torn:
        copy.log.write_bytes(whole + rubbish)
        past = copy.rewind(30)
        assert copy.log.read_bytes() == whole and past.seconds > 0 and past.loss > 0


@pytest.mark.parametrize("damage", [b"sTep,", b"\x00" * 400, b""])
def test_a_log_without_its_header_begins_anew(copy, damage):
    whole = copy.log.read_bytes()
    copy.log.write_bytes(damage + whole[len(damage) or len(whole) :])
    with pytest.warns(UserWarning, match=r"log\.csv"):
        assert copy.rewind(30) == (0.0, None)
    assert not copy.log.read_bytes()


def test_a_newer_damaged_checkpoint_does_not_cost_a_good_one(finished, copy):
    before, newest = checkpoint.existing(copy.checkpoints)
    (newest / "state.safetensors").write_bytes(b"")
    state = finished[1]._replace(step=jnp.asarray(25))
    copy.save(state)
    assert [path.name for path in checkpoint.existing(copy.checkpoints)] == [before.name, "step-00000025"]


def test_a_checkpoint_of_another_version_is_not_called_damaged(copy):
    for folder in checkpoint.existing(copy.checkpoints):
        manifest = (folder / "manifest.json").read_text().replace("checkpoint-2", "checkpoint-1")
        (folder / "manifest.json").write_text(manifest)
        (folder / "SHA256SUMS").unlink()
    problem, config = setup(method__name="pi", **SHORT)
    with pytest.raises(CheckpointError, match="not a checkpoint of this version") as caught:
        copy.latest(initial_state(problem, config))
    assert "elete" not in str(caught.value)


def test_going_on_under_other_versions_is_said(copy):
    problem, config = setup(method__name="pi", **SHORT)
    before, newest = checkpoint.existing(copy.checkpoints)
    shutil.rmtree(newest)
    manifest = json.loads((before / "manifest.json").read_text())
    cores, manifest["versions"]["jax"], manifest["cores"] = manifest["cores"], "0.0.1", 99
    files = {name: (before / name).read_bytes() for name in ("state.safetensors", "manifest.json")}
    files["manifest.json"] = json.dumps(manifest).encode()
    (before / "manifest.json").write_bytes(files["manifest.json"])
    (before / "SHA256SUMS").write_bytes(checkpoint.sums(files))
    with pytest.warns(UserWarning, match=f"cores 99, now {cores}; jax 0.0.1, now"):
        train_in(copy.folder, problem, config, progress=silent)


def test_a_full_disk_ends_in_a_sentence_and_damages_nothing(finished, copy, monkeypatch):
    """At any write of a save."""
    problem, config = setup(method__name="pi", **SHORT)
    shutil.rmtree(checkpoint.existing(copy.checkpoints)[-1])
    write, template = checkpoint.write_synced, initial_state(problem, config)
    for allowed in range(3):
        written: list[Path] = []

        def refuse(path, data, written=written, allowed=allowed):
            if len(written) == allowed and "checkpoints" in str(path):
                path.write_bytes(data[: len(data) // 2])
                raise OSError(errno.ENOSPC, "No space left on device")
            written.append(path) if "checkpoints" in str(path) else None
            write(path, data)

        monkeypatch.setattr(checkpoint, "write_synced", refuse)
        with pytest.raises(StorageError, match="No space left"):
            train_in(copy.folder, problem, config, progress=silent)
        assert int(copy.latest(template).step) == 20
    monkeypatch.undo()
    assert same(train_in(copy.folder, problem, config, progress=silent), finished[1])
    assert not list(copy.checkpoints.glob(".draft*"))


def test_a_file_is_replaced_in_one_piece_and_a_link_is_written_to(tmp_path, monkeypatch):
    file, link = tmp_path / "file", tmp_path / "link"
    file.write_bytes(b"old")
    link.symlink_to(file)
    checkpoint.write_synced(link, b"through the link")
    assert link.is_symlink() and file.read_bytes() == b"through the link"

    def full(descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space"):
        checkpoint.write_synced(file, b"new")
    assert file.read_bytes() == b"through the link"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "link"]
    with pytest.raises(IsADirectoryError):
        checkpoint.write_synced(tmp_path, b"")


def test_a_vanished_folder_is_not_made_again(tmp_path):
    problem, config = setup(method__name="pi", **SHORT)

    def vanish(report):
        shutil.rmtree(tmp_path / "run")

    with pytest.raises(StorageError, match="No such file"):
        train_in(tmp_path / "run", problem, config, progress=vanish)
    assert not (tmp_path / "run").exists()


def test_two_processes_do_not_share_a_run_and_a_dead_one_holds_nothing(tmp_path):
    problem, config = setup(method__name="pi", **SHORT)
    hold = "import sys; from pathlib import Path; from stablepdenet.experiments.training.run import locked\n"
    hold += "with locked(Path(sys.argv[1])): print('held', flush=True); sys.stdin.read()"
    other = subprocess.Popen(
        [sys.executable, "-c", hold, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert other.stdout and other.stdout.readline() == "held\n"
    with pytest.raises(StorageError, match="another process"):
        train_in(tmp_path, problem, config, progress=silent)
    assert not (tmp_path / "config.json").exists()
    other.kill()
    other.wait()
    with locked(tmp_path):
        pass


def attacked(problem, config):
    """A state some steps after the warm-up."""
    program = make_program(problem, config)
    warm, _ = program.advance(initial_state(problem, config), config.training.warmup)
    return program.advance(warm, config.training.warmup + 5)[0]


@pytest.mark.parametrize("name", ["pde", "bc"])
@pytest.mark.parametrize("method", ["pi", "stable"])
def test_a_block_that_is_not_finite_is_named(tmp_path, monkeypatch, name, method):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "faults"))
    finite = importlib.import_module("finite")
    problem, config = setup(method__name=method)
    start = initial_state(problem, config) if method == "pi" else attacked(problem, config)
    bad = finite.poisoned(problem, name)
    told = rf"before step {int(start.step) + 1}: loss_{name} is not finite.*replay"
    with pytest.raises(DivergenceError, match=told):
        train_in(tmp_path, bad, finite.settings_for(bad, config), start=start, progress=silent)
    assert not checkpoint.existing(tmp_path / "checkpoints")
    assert not (tmp_path / "log.csv").exists()


def test_a_broken_optimiser_is_found_at_its_step(tmp_path):
    problem, config = setup(method__name="stable")
    program = make_program(problem, config)
    state, _ = program.advance(initial_state(problem, config), 20)
    broken = jax.tree.map(
        lambda leaf: leaf.at[...].set(jnp.nan) if leaf.dtype == jnp.float32 else leaf, state.optimiser
    )
    with pytest.raises(DivergenceError, match="before step 21: optimiser is not finite"):
        train(problem, config, start=state._replace(optimiser=broken))


def test_a_failure_is_replayed_in_float64(tmp_path):
    problem, config = setup(method__name="stable", training__learning_rate=1e30)
    with pytest.raises(DivergenceError, match=f"replay {tmp_path}"):
        train_in(tmp_path, problem, config, progress=silent)
    run = Run.open(tmp_path)
    step, single, double = replay(make_program(problem, config), run, state_shapes(problem, config))
    assert step >= 1 and culprit(single).startswith("loss_")
    # Squares of 1e30 are too much for float32, and for nothing else.
    assert all(finding.finite for finding in double)
    shutil.rmtree(tmp_path / "failure")
    with pytest.raises(CheckpointError, match="no failure"):
        replay(make_program(problem, config), run, state_shapes(problem, config))


def test_an_exploding_loss_stops_although_it_is_finite(monkeypatch):
    problem, config = setup(method__name="pi")
    monkeypatch.setattr(loop, "EXPLODED", 1e-3)  # no loss falls that fast
    with pytest.raises(DivergenceError, match="loss exploded"):
        train(problem, config)


def test_an_explosion_in_the_first_chunk_is_seen():
    problem, config = setup(method__name="pi", training__learning_rate=1e4, training__log_every=60)
    with pytest.raises(DivergenceError, match="exploded"):
        train(problem, config)


def test_a_changed_replay_is_refused(tmp_path):
    problem, config = setup(method__name="pi", training__learning_rate=1e30)
    with pytest.raises(DivergenceError):
        train_in(tmp_path, problem, config, progress=silent)
    batch = tmp_path / "failure" / "batch.safetensors"
    data = bytearray(batch.read_bytes())
    data[-1] ^= 1
    batch.write_bytes(data)
    with pytest.raises(CheckpointError, match="is damaged"):
        replay(make_program(problem, config), Run.open(tmp_path), state_shapes(problem, config))


def test_no_warning_without_damage(finished, copy):
    problem, config = setup(method__name="pi", **SHORT)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        state = copy.latest(initial_state(problem, config))
    assert np.array_equal(state.step, finished[1].step)


def test_one_core_is_insisted_on_where_bytes_must_be_the_same(monkeypatch):
    problem, config = setup(method__name="pi", training__deterministic=True, **SHORT)
    monkeypatch.setattr(running, "usable", lambda: [0, 1])
    with pytest.raises(ConfigError, match="--deterministic"):
        train(problem, config)
    monkeypatch.setattr(running, "usable", lambda: [1])
    assert int(train(problem, config).step) == 30
