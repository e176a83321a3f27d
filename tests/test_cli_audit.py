"""evaluate and audit, as a user types them."""

from __future__ import annotations

import csv
import json
import shutil
import textwrap

import numpy as np
import pytest
from cli_cases import TINY, assert_refused, called, stablepdenet

MODEL = """
    import jax.numpy as jnp
    import numpy as np
    from stablepdenet import make_problem

    problem = make_problem("poisson")
    exact = lambda a, points: 1.1 * problem.reference.traced(a)
    solver = lambda a, points: problem.reference(a)
    wrong_shape = lambda a, points: a[:, :3]
    random = lambda a, points: np.random.normal(size=(len(a), len(points)))
    number = 3


    def fragile(a, points):
        if len(a) != 2:
            raise ValueError("two inputs only, please")
        return problem.reference(a)


    def broken(a, points):
        raise RuntimeError("no such weights")
"""


@pytest.fixture(scope="module")
def suite(tmp_path_factory):
    folder = tmp_path_factory.mktemp("audit") / "suite"
    result = called("train", "poisson", "--method", "all", "--out", folder, *TINY)
    assert result.returncode == 0, result.stderr
    return folder


@pytest.fixture(scope="module")
def evaluated(suite, tmp_path_factory):
    out = tmp_path_factory.mktemp("audit") / "out"
    result = called("evaluate", suite, "--parts", "errors,lipschitz", "--tests", 3, "--out", out)
    assert result.returncode == 0, result.stderr
    return out, result.stdout


@pytest.fixture
def module(tmp_path):
    (tmp_path / "mine.py").write_text(textwrap.dedent(MODEL))
    return tmp_path


def test_evaluate_prints_tables_and_writes_rows(evaluated):
    out, printed = evaluated
    assert "poisson[interior=10], 3 test inputs" in printed
    assert all(word in printed for word in ("PI-DeepONet", "AdvPI", "StablePDENet", "kappa_E", "lipschitz_exact_mean"))
    rows = json.loads((out / "rows.json").read_text())
    with (out / "rows.csv").open() as file:
        table = list(csv.DictReader(file))
    assert list(table[0]) == ["problem", "recipe", "method", "seed", "setting", "attack", "metric", "value"]
    assert [float(row["value"]) for row in table] == [row["value"] for row in rows]
    # The options that are not the paper's are part of the problem's name.
    assert {row["problem"] for row in rows} == {"poisson[interior=10]"}
    assert {(row["attack"], row["setting"]) for row in rows} == {
        ("none", "clean"),
        ("common", "0.05"),
        ("common", "0.10"),
    }


def test_perturbations_replay_to_the_same_numbers_in_a_fresh_process(suite, evaluated):
    result = stablepdenet("evaluate", suite, "--replay", evaluated[0])
    assert result.returncode == 0, result.stderr
    assert "largest difference 0\n" in result.stdout


def test_another_number_fails_the_replay(suite, evaluated, tmp_path):
    shutil.copytree(evaluated[0], tmp_path / "out")
    rows = json.loads((tmp_path / "out" / "rows.json").read_text())
    changed = next(row for row in rows if row["attack"] == "common")
    changed["value"] *= 1.001
    (tmp_path / "out" / "rows.json").write_text(json.dumps(rows))
    assert stablepdenet("evaluate", suite, "--replay", tmp_path / "out").returncode == 1


def test_an_earlier_audit_without_today_s_metrics_replays(suite, evaluated, tmp_path):
    shutil.copytree(evaluated[0], tmp_path / "out")
    rows = json.loads((tmp_path / "out" / "rows.json").read_text())
    earlier = [row for row in rows if not row["metric"].endswith(("_p99", "_max"))]
    assert len(earlier) < len(rows)
    (tmp_path / "out" / "rows.json").write_text(json.dumps(earlier))
    assert called("evaluate", suite, "--replay", tmp_path / "out").returncode == 0


def test_one_run_is_its_own_source(suite):
    result = called("evaluate", suite / "stable", "--parts", "errors", "--tests", 2, "--eps", "0.05", "--json")
    assert result.returncode == 0, result.stderr
    found = json.loads(result.stdout)
    assert {row["method"] for row in found["rows"]} == {"stable"}
    assert any("found against stable" in note for note in found["notes"])


def test_audit_takes_an_operator_of_ones_own(module):
    arguments = ("--problem", "poisson", "--parts", "errors", "--tests", 4, "--json")
    result = called("audit", "mine:exact", *arguments, cwd=module)
    assert result.returncode == 0, result.stderr
    rows = json.loads(result.stdout)["rows"]
    assert {row["method"] for row in rows} == {"exact"}
    assert all(np.isclose(row["value"], 0.1, rtol=1e-3) for row in rows if row["metric"] == "relative_l2")
    own = stablepdenet("audit", "mine:exact", "--problem", "mine:problem", *arguments[2:], cwd=module)
    assert json.loads(own.stdout)["rows"] == rows


def test_audit_of_a_solver_says_what_it_left_out(module):
    arguments = ("--problem", "poisson", "--parts", "errors,attacks,unseen", "--tests", 2, "--eps", "0.05")
    result = stablepdenet("audit", "mine:solver", *arguments, cwd=module)
    assert result.returncode == 0, result.stderr
    assert "Note: solver cannot be differentiated in its inputs" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("audit", "mine:exact", "--problem", "poison"), 2, "Did you mean 'poisson'"),
        (("audit", "mine:nothing", "--problem", "poisson"), 2, "nothing"),
        (("audit", "nowhere:exact", "--problem", "poisson"), 2, "nowhere"),
        (("audit", "mine", "--problem", "poisson"), 2, "MODULE:NAME"),
        (("audit", "mine:number", "--problem", "poisson"), 2, "not callable"),
        (("audit", "mine:wrong_shape", "--problem", "poisson"), 2, "(2, 3)"),
        (("audit", "mine:broken", "--problem", "poisson"), 2, "no such weights"),
        (("audit", "mine:random", "--problem", "poisson"), 2, "random"),
        (("audit", "mine:fragile", "--problem", "poisson", "--tests", "3"), 2, "two inputs only, please"),
        (("audit", "mine:exact", "--problem", "mine:number"), 2, "stablepdenet.Problem"),
        (("audit", "mine:exact", "--problem", "poisson", "--parts", "error"), 2, "Unknown part 'error'"),
        (("audit", "mine:exact", "--problem", "poisson", "--set", "attack.eps=1"), 2, "only problem.*"),
        (("audit", "mine:exact", "--problem", "poisson", "--eps", "small"), 2, "--eps 'small'"),
        (("audit", "mine:exact", "--problem", "poisson", "--tests", "-1"), 2, "--tests"),
        (("audit", "mine:exact", "--problem", "poisson", "--out", "mine.py/inside"), 5, "--out"),
        (("evaluate", "nowhere"), 4, "not a run folder"),
    ],
    ids=lambda value: " ".join(value[1:]) if isinstance(value, tuple) else "",
)
def test_wrong_input_is_one_sentence(module, arguments, code, words):
    assert_refused(called(*arguments, cwd=module), code, words)


def test_a_process_refuses_by_its_exit_code(module):
    assert_refused(stablepdenet("audit", "mine:broken", "--problem", "poisson", cwd=module), 2, "no such weights")
    assert_refused(stablepdenet("evaluate", "nowhere", cwd=module), 4, "not a run folder")


def test_runs_that_do_not_belong_together_are_refused(suite, tmp_path):
    assert called("train", "poisson", "--seed", 1, "--out", tmp_path / "other", *TINY).returncode == 0
    assert_refused(called("evaluate", suite / "pi", tmp_path / "other"), 2, "differ in their seed")
    shutil.copytree(suite / "pi", tmp_path / "again")
    shutil.rmtree(tmp_path / "again" / "checkpoints" / "step-00000020")
    assert_refused(called("evaluate", tmp_path / "again"), 4, "no checkpoint yet", "resume")
    shutil.rmtree(tmp_path / "again")
    shutil.copytree(suite / "pi", tmp_path / "again")
    assert_refused(called("evaluate", suite, tmp_path / "again"), 2, "method pi")
    assert_refused(called("evaluate", suite, "--replay", tmp_path), 4, "rows.json")
