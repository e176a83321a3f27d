"""robust and predict on the command line: answers, what is estimated of them, and rows that are not to be trusted."""

from __future__ import annotations

import json
import shutil
import textwrap
from importlib import import_module

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cli_cases import TINY, assert_refused, called

from stablepdenet import DeepONet, load_operator, save
from stablepdenet.experiments.problems import make_problem
from stablepdenet.experiments.runs import JUDGE, TRIALS
from stablepdenet.spectral import JudgedOperator, read_setting, with_estimate
from stablepdenet.spectral.choose import first_plan

# u = f x (1 - x) / 2 and v = -u.
MINE = """
    import stablepdenet as sp
    from stablepdenet import points

    problem = sp.Problem(
        name="mine",
        domain=sp.Box(x=(0, 1)),
        inputs=sp.Inputs(f=sp.Scalar(1, 2)),
        blocks=(
            sp.Block("pde", points.hammersley(20), lambda u_xx, f: u_xx + f),
            sp.Block("bc", points.boundary(), lambda u: u),
            sp.Block("same", points.hammersley(20), lambda u, v: u + v),
        ),
        solution=("u", "v"),
    )
    number = 3
"""
NETWORK = ("predict", "network.safetensors", "--input", "f.csv")
MADE = ("predict", "new/op.safetensors", "--problem", "mine:problem", "--input", "f.csv")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A problem of one's own, two inputs of it, and a network of another problem."""
    found = tmp_path_factory.mktemp("answering")
    (found / "mine.py").write_text(textwrap.dedent(MINE))
    (found / "f.csv").write_text("2\n-3\n")
    network = DeepONet(100, 1, width=4, depth=2, key=jax.random.key(0))
    save(network, found / "network.safetensors", make_problem("poisson"))
    return found


@pytest.fixture(scope="module")
def made(folder):
    """The folder with an operator's file too, and what `robust` printed."""
    options = ("--out", "new/op.safetensors", "--tolerance", "1e-4", "--json")
    result = called("robust", "mine:problem", *options, cwd=folder)
    assert result.returncode == 0, result.stderr
    return folder, json.loads(result.stdout)


def test_robust_says_what_it_reached_and_leaves_one_file(made):
    folder, told = made
    assert told["problem"] == "mine" and told["tolerance"] == 1e-4
    assert (told["inputs"], told["missed"]) == (16, 0) and told["median"] <= told["largest"] <= 1e-4
    assert [path.name for path in (folder / "new").iterdir()] == ["op.safetensors"]


def test_estimates_stand_beside_the_answers(made):
    folder, _ = made
    told = json.loads(called(*MADE, "--json", cwd=folder).stdout)
    u, x = np.array(told["u"]), np.array(told["coordinates"]["x"])
    exact = np.array([[2.0], [-3.0]]) * 0.5 * x * (1 - x)
    assert np.allclose(u, np.stack([exact, -exact], axis=-1), atol=1e-5)
    # A system has no bounds.
    assert told["bound"] is None
    assert told["tolerance"] == 1e-4 and told["untrusted_rows"] == [] and np.all(np.array(told["estimate"]) < 1e-4)
    for name in ("u.npy", "u.csv", "u.npz"):
        assert called(*MADE, "--output", name, cwd=folder).stdout == ""
    table = np.loadtxt(folder / "u.csv", delimiter=",", skiprows=1)
    assert (folder / "u.csv").read_text().startswith("x,u_0,v_0,u_1,v_1\n")
    assert np.allclose(table[:, 1:], np.concatenate([*u], axis=1), atol=1e-6)
    both = np.load(folder / "u.npz")
    assert set(both) == {"x", "u", "errors", "estimate", "trusted"} and both["errors"].shape == both["u"].shape
    assert np.allclose(np.load(folder / "u.npy"), both["u"]) and np.allclose(both["u"], u)
    for found in (both["estimate"], np.load(folder / "u.estimate.npy")):
        assert np.allclose(found, told["estimate"])
    assert (folder / "u.estimate.csv").read_text().splitlines()[0] == "estimate,trusted"


@pytest.mark.long
def test_rows_above_the_tolerance_are_named(made):
    folder, _ = made
    result = called(*MADE, "--tolerance", "1e-12", "--json", cwd=folder)
    assert json.loads(result.stdout)["untrusted_rows"] == [1, 2]
    assert "2 of 2 inputs (row 1, 2) have an estimated relative error above 1e-12" in result.stderr


@pytest.mark.long
def test_estimates_can_be_left_out(made):
    folder, _ = made
    assert called(*MADE, "--output", "v.npy", cwd=folder).returncode == 0
    result = called(*MADE, "--output", "v.npy", "--no-estimate", "--json", cwd=folder)
    told = json.loads(result.stdout)
    assert told["estimate"] is None and told["untrusted_rows"] is None
    # What was estimated of another answer does not stay.
    assert (folder / "v.npy").exists() and not (folder / "v.estimate.npy").exists()


def test_a_stopped_robust_says_how_to_go_on(folder, monkeypatch):
    def stop(*_, **__):
        raise KeyboardInterrupt

    # The package has a function of the module's name.
    monkeypatch.setattr(import_module("stablepdenet.spectral.choose"), "timed_solutions", stop)
    result = called("robust", "mine:problem", "--out", "op.safetensors", cwd=folder)
    assert_refused(result, 130, "the same command goes on", "op.safetensors.trials.json")
    assert json.loads((folder / "op.safetensors.trials.json").read_text())["number"] == 0


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("robust", "poison", "--out", "o"), 2, "Did you mean 'poisson'"),
        (("robust", "mine:number", "--out", "o"), 2, "stablepdenet.Problem"),
        (("robust", "mine:problem"), 2, "--out"),
        (("robust", "mine:problem", "--out", "."), 2, "is a folder"),
        (("robust", "mine:problem", "--out", "mine.py/o"), 5, "mine.py"),
        (("robust", "mine:problem", "--out", "o", "--tolerance", "2"), 2, "tolerance=2"),
        (("robust", "mine:problem", "--out", "o", "--budget", "0"), 2, "budget=0"),
        (("robust", "poisson", "--out", "o", "--set", "attack.eps=1"), 2, "only problem.*"),
        (("predict", "network.safetensors", "--input", "f.csv"), 2, "--problem"),
        ((*NETWORK, "--problem", "mine:problem"), 4, "another problem 'mine'"),
        ((*NETWORK, "--problem", "poisson"), 3, "rows of 100 values"),
        ((*NETWORK, "--problem", "poisson", "--estimate"), 2, "nothing to judge its answers by"),
        (("predict", "no.safetensors", "--input", "f.csv", "--problem", "mine:problem"), 4, "No such file"),
        (("predict", "f.csv", "--input", "f.csv", "--problem", "mine:problem"), 4, "is not an operator"),
        ((*MADE, "--output", "u.txt"), 2, ".npz"),
        ((*MADE, "--tolerance", "0"), 2, "--tolerance"),
        ((*MADE, "--set", "problem.sensors=3"), 2, "takes no --set"),
        (("predict", "new", "--input", "f.csv", "--set", "problem.sensors=3"), 2, "--set is for --problem"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_wrong_input_is_one_sentence(folder, arguments, code, words):
    assert_refused(called(*arguments, cwd=folder), code, words)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A tiny run, and the coarsest judge of its problem."""
    folder = tmp_path_factory.mktemp("answering") / "run"
    assert called("train", "poisson", "--method", "pi", "--out", folder, *TINY).returncode == 0
    problem = make_problem("poisson", {"interior": 10})
    save(with_estimate(first_plan(read_setting(problem)), 0.2), folder / JUDGE, problem)
    return folder, problem


@pytest.mark.long
def test_a_run_with_a_judge_estimates_its_errors(run, tmp_path):
    folder, problem = run
    a = np.asarray(problem.sample(4, key=jax.random.key(0)))
    np.save(tmp_path / "a.npy", a)
    told = json.loads(called("predict", folder, "--input", tmp_path / "a.npy", "--json").stdout)
    exact = problem.require_reference()(a.astype(float))
    true = np.linalg.norm(np.array(told["u"]) - exact, axis=1) / np.linalg.norm(exact, axis=1)
    # Twenty steps of training are not enough.
    assert np.all(true > 0.2) and np.allclose(told["estimate"], true, rtol=0.1)
    assert np.all(np.array(told["bound"]) >= true) and np.allclose(told["bound"], true, rtol=1e-5)
    called("predict", folder, "--input", tmp_path / "a.npy", "--output", tmp_path / "u.npz")
    assert np.allclose(np.load(tmp_path / "u.npz")["bound"], told["bound"])
    assert told["untrusted_rows"] == [1, 2, 3, 4] and told["tolerance"] == 0.2
    _, operator = load_operator(folder, judged=True)
    assert isinstance(operator, JudgedOperator)
    found = operator.answer(jnp.asarray(a), problem.grid)
    assert np.allclose(found.estimate, told["estimate"], rtol=1e-3) and not np.any(found.trusted)


@pytest.mark.long
def test_the_judge_of_a_run_is_made_once(run, tmp_path):
    shutil.copytree(run[0], tmp_path / "run")
    (tmp_path / "run" / JUDGE).unlink()
    np.save(tmp_path / "a.npy", np.ones(100))
    arguments = ("predict", tmp_path / "run", "--input", tmp_path / "a.npy", "--json")
    assert json.loads(called(*arguments).stdout)["estimate"] is None
    first = called(*arguments, "--estimate")
    assert json.loads(first.stdout)["tolerance"] == 1e-3
    assert (tmp_path / "run" / JUDGE).exists() and not (tmp_path / "run" / TRIALS).exists()
    assert called(*arguments).stdout == first.stdout


@pytest.mark.long
def test_a_registered_problem_and_its_options_are_made_robust(tmp_path):
    options = ("--set", "problem.interior=200")
    result = called("robust", "poisson", "--out", tmp_path / "op", *options)
    assert result.returncode == 0 and "0.001 was asked for" in result.stdout, result.stderr
    np.save(tmp_path / "a.npy", np.ones(100))
    source = (tmp_path / "op", "--problem", "poisson", *options)
    found = called("predict", *source, "--input", tmp_path / "a.npy", "--json")
    assert json.loads(found.stdout)["untrusted_rows"] == []
