"""The command line as a user meets it: what it prints, what it refuses, how it stops."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from cli_cases import TINY, assert_refused, called, stablepdenet


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A finished tiny run."""
    folder = tmp_path_factory.mktemp("cli") / "run"
    result = stablepdenet("train", "poisson", "--method", "stable", "--out", folder, "--json", *TINY)
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout)["rows"][0]["metric"] == "relative_l2"
    return folder


@pytest.fixture
def copy(run, tmp_path):
    shutil.copytree(run, tmp_path / "run")
    return tmp_path / "run"


def test_list_is_complete_and_readable_by_machine_and_man():
    rows = json.loads(called("list", "--json").stdout)
    assert [row["problem"] for row in rows][:3] == ["heat", "poisson", "burgers"]
    assert {b["name"] for b in rows[0]["blocks"]} == {"pde", "bc", "ic"}
    text = stablepdenet("list").stdout
    assert all(row["problem"] in text and row["equation"] in text for row in rows)


def test_doctor_finds_nothing_wrong():
    result = stablepdenet("doctor", "--json")
    assert result.returncode == 0
    assert json.loads(result.stdout)["problems"] == ""


def test_a_run_stores_its_resolved_configuration_and_its_log(run):
    config = json.loads((run / "config.json").read_text())
    options = {key: value for key, value in config["problem"].items() if key != "fingerprint"}
    assert options == {"name": "poisson", "interior": 10, "sensors": 100}
    assert config["training"]["steps"] == 20
    assert config["attack"]["eps"] == 0.05
    header = (run / "log.csv").read_text().splitlines()[0].split(",")
    assert {"step", "loss", "loss_pde", "loss_bc", "share"} <= set(header)


@pytest.mark.parametrize("suffix", [".npy", ".csv"])
def test_predict_solves_for_given_inputs(run, tmp_path, suffix):
    inputs = np.linspace(0, 1, 200).reshape(2, 100)
    file, output = tmp_path / f"a{suffix}", tmp_path / f"u{suffix}"
    if suffix == ".npy":
        np.save(file, inputs)
    else:
        np.savetxt(file, inputs, delimiter=",")
    result = stablepdenet("predict", run, "--input", file, "--output", output, "--json")
    assert result.returncode == 0, result.stderr
    printed = np.array(json.loads(result.stdout)["u"])
    stored = np.load(output) if suffix == ".npy" else np.loadtxt(output, delimiter=",", skiprows=1)[:, 1:].T
    assert printed.shape == (2, 100)
    assert np.allclose(stored, printed, atol=1e-6)
    table = called("predict", run, "--input", file).stdout.splitlines()
    assert table[0] == "x,u_0,u_1"
    assert np.allclose([float(v) for v in table[-1].split(",")], [1.0, *printed[:, -1]], atol=1e-6)


def test_an_unknown_problem_is_refused(tmp_path):
    assert_refused(stablepdenet("train", "wave", "--out", tmp_path / "r"), 2, "wave", "heat")


@pytest.mark.parametrize(
    "setting, word",
    [
        ("attack.eps=-0.05", "attack.eps"),
        ("attack.eps=nan", "attack.eps"),
        ("training.steps=0", "training.steps"),
        ("training.momentum=1", "training.momentum"),
        ("training.warmup=50000", "training.warmup"),
        ("training.steps=" + "9" * 400, "training.steps"),
    ],
)
def test_a_bad_setting_is_refused_and_leaves_no_folder(tmp_path, setting, word):
    assert_refused(called("train", "heat", "--out", tmp_path / "r", "--set", setting), 2, word)
    assert not (tmp_path / "r").exists()


def test_a_wrong_sensor_count_is_refused(run, tmp_path):
    np.save(tmp_path / "a.npy", np.zeros((2, 99)))
    assert_refused(stablepdenet("predict", run, "--input", tmp_path / "a.npy"), 3, "(2, 99)", "100")


def test_nan_in_the_input_is_refused_with_its_place(run, tmp_path):
    inputs = np.zeros((3, 100))
    inputs[1, 6] = np.nan
    np.save(tmp_path / "a.npy", inputs)
    assert_refused(called("predict", run, "--input", tmp_path / "a.npy"), 3, "row 2, column 7")


@pytest.mark.parametrize("content", [b"", b"hello,world\n", b"\x93NUMPY", b"1,2\n3\n", b"\x00" * 50, b"PK\x03\x04"])
@pytest.mark.parametrize("name", ["a.npy", "a.csv"])
def test_a_file_without_numbers_is_refused(run, tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    assert_refused(called("predict", run, "--input", tmp_path / name), 3, name)


def test_pickled_arrays_are_not_loaded(run, tmp_path):
    np.save(tmp_path / "a.npy", np.array([{"x": 1}], dtype=object), allow_pickle=True)
    assert_refused(called("predict", run, "--input", tmp_path / "a.npy"), 3, "a.npy")


def test_an_unwritable_folder_is_refused(tmp_path):
    (tmp_path / "file").write_text("in the way")
    assert_refused(called("train", "poisson", "--out", tmp_path / "file" / "run", *TINY), 5, "file")


def test_a_foreign_folder_is_refused(tmp_path):
    assert_refused(called("predict", tmp_path, "--input", "a.npy"), 4, "not a run folder")
    assert_refused(stablepdenet("resume", tmp_path / "nowhere"), 4, "not a run folder")
    (tmp_path / "config.json").write_text('{"some": "thing"}')
    assert_refused(called("resume", tmp_path), 4, "config.json")


def test_resuming_with_another_configuration_is_refused(copy):
    arguments = ["train", "poisson", "--out", copy, *TINY, "--set=attack.eps=0.1"]
    assert_refused(called(*arguments, "--resume"), 2, "attack.eps", "0.05", "0.1")
    assert_refused(called(*arguments), 2, "--resume")


def test_a_stored_configuration_is_a_configuration_file(run, tmp_path):
    stored = json.loads((run / "config.json").read_text())
    lines = [f"seed = {stored['seed']}"]
    for section in ("problem", "training", "operator", "attack", "method"):
        lines += [f"[{section}]", *(f"{key} = {json.dumps(value)}" for key, value in stored[section].items())]
    (tmp_path / "c.toml").write_text("\n".join(lines))
    result = called("train", "poisson", "--config", tmp_path / "c.toml", "--out", tmp_path / "again")
    assert result.returncode == 0, result.stderr
    name = "checkpoints/step-00000020/state.safetensors"
    assert (tmp_path / "again" / name).read_bytes() == (run / name).read_bytes()
    assert_refused(called("train", "heat", "--config", tmp_path / "c.toml", "--out", tmp_path / "x"), 2, "problem.name")


def test_all_methods_are_trained_resumed_and_kept_apart(tmp_path):
    folder = tmp_path / "all"
    result = called("train", "poisson", "--method", "all", "--out", folder, "--json", *TINY)
    assert [row["method"] for row in json.loads(result.stdout)["rows"]] == ["pi", "adv", "stable"]
    logs = [(folder / name / "log.csv").read_text().splitlines() for name in ("pi", "stable")]
    assert [line.split(",")[0] for line in logs[0]] == ["step", "1", "10", "20"]
    assert logs[0][:3] == logs[1][:3]
    shutil.rmtree(folder / "stable")
    assert stablepdenet("resume", folder, "--json").stdout == result.stdout
    np.save(tmp_path / "a.npy", np.zeros(100))
    assert called("predict", folder / "stable", "--input", tmp_path / "a.npy").returncode == 0
    assert_refused(called("predict", folder, "--input", tmp_path / "a.npy"), 4, "several runs")
    assert_refused(called("train", "poisson", "--out", folder, "--resume", *TINY), 2, "three methods")


def test_the_demo_prints_its_table_beside_the_papers(tmp_path):
    result = stablepdenet("demo", "poisson", "--out", tmp_path)
    assert result.returncode == 0, result.stderr
    assert all(number in result.stdout for number in ("0.01494", "7.908", "clean", "0.10", "StablePDENet", "robust"))
    # What holds in each operator's own worst case comes first, with the number of inputs.
    told = " ".join(result.stdout.split())
    assert told.index("own worst case, 10 inputs") < told.index("common perturbation")
    assert "paper's robust" not in result.stdout
    rows = json.loads((tmp_path / "errors.json").read_text())
    assert [r["method"] for r in rows[:4]] == ["pi", "adv", "stable", "robust"]
    assert [(r["attack"], r["setting"]) for r in rows[::4]] == [
        ("whitebox", "0.05"),
        ("whitebox", "0.10"),
        ("none", "clean"),
        ("common", "0.05"),
        ("common", "0.10"),
    ]
    assert (tmp_path / "poisson.png").read_bytes().startswith(b"\x89PNG")
    assert_refused(stablepdenet("demo", "wave", "--out", tmp_path), 2, "'wave'")


def test_wrong_usage_is_one_sentence():
    assert_refused(called("train"), 2, "problem")
    assert_refused(called("train", "heat", "--method", "magic"), 2, "magic")
    assert_refused(stablepdenet("fly"), 2, "fly")


# Long enough that it cannot end before a signal comes.
LONG = [
    *("train", "poisson", "--method", "pi"),
    *TINY[:1],
    *TINY[2:],
    "--set=training.steps=6000",
    "--set=training.log_every=50",
    "--set=training.checkpoint_every=3000",
]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A longer run that nobody stopped."""
    folder = tmp_path_factory.mktemp("cli") / "whole"
    assert stablepdenet(*LONG, "--out", folder).returncode == 0
    return folder


@pytest.mark.parametrize("signal_number, code", [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_stopped_run_says_how_to_continue_and_ends_with_the_same_bytes(whole, tmp_path, signal_number, code):
    folder = tmp_path / "cut"
    command = [sys.executable, "-m", "stablepdenet", *LONG, "--out", str(folder)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while not (folder / "log.csv").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal_number)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == code, errors
    assert f"stablepdenet resume {folder}" in errors
    assert stablepdenet("resume", folder).returncode == 0
    name = "checkpoints/step-00006000/state.safetensors"
    assert (folder / name).read_bytes() == (whole / name).read_bytes()


@pytest.mark.parametrize("delay", [1.0, 2.0])
def test_a_signal_before_the_first_step_is_not_lost(tmp_path, delay):
    command = [sys.executable, "-m", "stablepdenet", "train", "poisson", "--method", "pi", "--out", str(tmp_path / "r")]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    time.sleep(delay)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    assert "Traceback" not in errors


def test_help_needs_neither_jax_nor_half_a_second():
    best = min(_timed_help() for _ in range(3))
    assert best < 0.6
    code = "import sys, stablepdenet.cli; print('jax' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "False"


def _timed_help():
    began = time.perf_counter()
    assert "train" in stablepdenet("--help", env={**os.environ, "NO_COLOR": "1"}).stdout
    return time.perf_counter() - began
