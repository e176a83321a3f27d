"""Whole audits, of operators whose results are known."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import jax
import numpy as np
import pytest
from audit_cases import ERRORS, SYMBOL, Modal, exact_operator

from stablepdenet.auditing import PARTS, audit, evaluation_inputs, load_cases, load_rows, replay_audit, save_audit
from stablepdenet.auditing.inputs import thinner
from stablepdenet.auditing.storage import COLUMNS
from stablepdenet.errors import CheckpointError, ConfigError
from stablepdenet.experiments.problems import PROBLEMS, make_problem
from stablepdenet.operators import DeepONet

NAMES = {"physics": "physics|0.05|stable", "noise": "noise|0.05"}


@pytest.fixture(scope="module")
def helmholtz():
    """Everything, for two operators with known errors: one twice as wrong as the other."""
    problem = make_problem("helmholtz-3.5pi")
    operators = {"pi": Modal(2 * ERRORS), "stable": Modal(ERRORS)}
    return operators, problem, audit(operators, problem, tests=30)


def test_every_part_fills_rows_of_one_form(helmholtz):
    rows = helmholtz[2].rows
    assert not any("failed" in note for note in helmholtz[2].notes)
    assert all(tuple(row) == COLUMNS for row in rows)
    places = [tuple(row[key] for key in COLUMNS if key != "value") for row in rows]
    assert len(set(places)) == len(places)
    assert {row["method"] for row in rows} == {"pi", "stable"}
    attacks = {"none", "common", "noise", "smooth-noise", "whitebox", "apgd", "search", "physics"}
    assert {row["attack"] for row in rows} == attacks | {"transfer:pi", "transfer:stable"}
    settings = {row["setting"] for row in rows if row["attack"] == "whitebox"}
    assert settings == {"0.01", "0.02", "0.05", "0.10", "0.15", "0.20"}
    assert {row["setting"] for row in rows if row["attack"] == "none"} == {"clean", "rough", "smooth", "fine"}


@pytest.mark.long
def test_the_common_source_is_pi_and_transfer_takes_the_worst_case_along():
    problem = make_problem("helmholtz-3.5pi")
    operators = {"stable": Modal(ERRORS), "pi": Modal(2 * ERRORS)}
    parts = ["errors", "attacks", "transfer"]
    found = audit(operators, problem, parts=parts, tests=5, eps=[0.05])
    assert not any("found against" in note for note in found.notes)
    inputs = {case.name: case.inputs for case in found.cases}
    assert np.array_equal(inputs["transfer:pi|0.05|stable"], inputs["whitebox|0.05|pi"])
    # Against stable alone the perturbation is another one.
    alone = audit({"stable": operators["stable"]}, problem, parts=["errors"], tests=5, eps=[0.05])
    assert not np.array_equal(inputs["common|0.05"], alone.cases[0].inputs)
    # The physics loss of a diagonal error is ||e c||^2: the attack on it finds more than noise does.
    losses = {kind: np.linalg.norm(ERRORS * inputs[name]) for kind, name in NAMES.items()}
    assert losses["physics"] > 1.01 * losses["noise"]


def test_unseen_inputs_of_the_problem_and_coarse_data_have_rows():
    problem = make_problem("heat")
    found = audit(exact_operator(problem), problem, parts=["unseen"], tests=3)
    settings = {row["setting"]: float(row["value"]) for row in found.rows if row["metric"] == "relative_l2"}
    assert settings.keys() == {"jump", "step", "rough", "smooth", "coarse"}
    assert settings["jump"] < 1e-5 < settings["coarse"]


def test_a_task_that_fails_costs_only_itself():
    problem = make_problem("poisson")

    def picky(a, points):
        if np.max(np.abs(np.diff(a))) > 0.09:
            raise RuntimeError("Newton did not converge")
        return problem.require_reference()(a)

    found = audit(picky, problem, parts=["errors", "attacks"], tests=2, eps=[0.05])
    assert found.value("relative_l2", method="model") < 1e-5
    assert any("'noise 0.05' failed" in note and "Newton did not converge" in note for note in found.notes)


@pytest.mark.long
def test_an_untrustworthy_differentiable_reference_is_not_attacked():
    problem = make_problem("burgers", {"viscosity": 0.002})
    operator = DeepONet(101, 2, width=8, key=jax.random.key(0))
    found = audit(operator, problem, parts=["lipschitz", "attacks"], tests=30, eps=[0.05])
    assert {row["attack"] for row in found.rows} == {"none", "noise", "smooth-noise", "physics"}
    assert not any(str(row["metric"]).startswith("lipschitz_exact") for row in found.rows)
    assert any("too small for float32" in note for note in found.notes)


def test_the_known_errors_come_out(helmholtz):
    _, problem, found = helmholtz
    c = np.asarray(evaluation_inputs(problem, 30), np.float64)
    expected = np.linalg.norm(ERRORS * c / SYMBOL) / np.linalg.norm(c / SYMBOL)
    assert np.isclose(found.value("relative_l2", method="stable"), expected, rtol=1e-4)
    assert np.isclose(found.value("relative_l2", method="pi"), 2 * expected, rtol=1e-4)
    exact = np.abs(1 / SYMBOL).max()
    assert np.isclose(found.value("lipschitz_exact_mean", method="pi"), exact, rtol=1e-6)
    assert np.isclose(found.value("lipschitz_max", method="stable"), np.abs((1 + ERRORS) / SYMBOL).max(), rtol=1e-5)


@pytest.mark.parametrize(("attack", "share"), [("whitebox", 0.98), ("apgd", 0.995), ("search", 0.9)])
def test_the_worst_case_of_a_linear_error_is_reached(helmholtz, attack, share):
    # max ||E (c + d)|| over ||d|| <= r for E = diag(e_n / s_n), by the secular equation.
    found = helmholtz[2]
    case = next(c for c in found.cases if (c.attack, c.setting, c.methods) == (attack, "0.10", ("stable",)))
    gain = np.abs(ERRORS / SYMBOL)
    for clean, perturbed in zip(case.base.astype(float), case.inputs.astype(float), strict=True):
        radius = 0.1 * np.linalg.norm(clean)
        low, high = gain.max() ** 2, gain.max() ** 2 * (1 + np.linalg.norm(clean) / radius)
        for _ in range(200):
            middle = 0.5 * (low + high)
            too_long = np.linalg.norm(gain**2 * clean / (middle - gain**2)) > radius
            low, high = (middle, high) if too_long else (low, middle)
        worst = np.linalg.norm(gain * clean * (1 + gain**2 / (high - gain**2)))
        assert np.linalg.norm(perturbed - clean) <= radius * (1 + 1e-5)
        assert np.linalg.norm(gain * perturbed) >= share * worst


def test_the_linear_theorem_is_put_beside_what_was_measured(helmholtz):
    found = helmholtz[2]
    place = {"method": "stable", "attack": "common", "setting": "0.05"}
    assert found.value("bound_holds", **place) == 1
    assert found.value("C_E", **place) <= found.value("bound", **place)
    product = found.value("inverse_norm", **place) * found.value("gamma_r", **place)
    assert np.isclose(found.value("bound", **place), product)
    assert any("no certificate" in note for note in found.notes)


SLOW = {"heat": pytest.mark.long, "burgers": pytest.mark.long}


@pytest.mark.parametrize("name", [pytest.param(name, marks=SLOW.get(name, ())) for name in PROBLEMS])
def test_the_exact_reference_is_found_exact(name):
    # As a classical solver in numpy: one that knows its grid only and has no gradients.
    problem = make_problem(name)
    # A thousand Burgers solves take a while: on every fourth point of each axis.
    problem = thinner(problem) if name == "burgers" else problem
    solver = {"solver": lambda a, points: problem.require_reference()(a)}
    found = audit(solver, problem, parts=["errors", "attacks", "unseen"], tests=4, eps=[0.05])
    # Coarse data are wrong for an exact solver too.
    errors = [
        float(row["value"]) for row in found.rows if row["metric"] == "relative_l2" and row["setting"] != "coarse"
    ]
    assert len(errors) > 5 and max(errors) < 1e-5
    for attack in ("noise", "smooth-noise", "search"):
        place = {"method": "solver", "attack": attack, "setting": "0.05"}
        assert found.value("kappa_E", **place) < 1e-5
        assert np.isclose(found.value("kappa_G", **place), found.value("kappa_S", **place), rtol=1e-5)
    assert any("cannot be differentiated in its inputs" in note for note in found.notes)
    assert any("cannot be differentiated in its points" in note for note in found.notes)


def test_the_exact_reference_in_jax_stays_exact_under_gradient_attacks():
    problem = make_problem("poisson")
    found = audit(exact_operator(problem), problem, parts=["errors", "attacks"], tests=8, eps=[0.1])
    for attack in ("common", "whitebox", "apgd"):
        place = {"method": "model", "attack": attack, "setting": "0.10"}
        assert found.value("relative_l2", **place) < 1e-5
        assert found.value("kappa_E", **place) < 1e-5


@pytest.mark.long
def test_burgers_has_fronts_and_a_tube():
    problem = make_problem("burgers")
    operator = DeepONet(101, 2, key=jax.random.key(0))
    found = audit(operator, problem, parts=["front", "theory"], tests=4, eps=[0.05])
    place = {"method": "model", "attack": "common", "setting": "0.05"}
    assert 0 <= found.value("front_error_median", **place) <= 0.5
    assert found.value("tube_holds", **place) == float(found.value("margin", **place) > 0)
    margin = found.value("beta", **place) - found.value("L_u", **place) * found.value("rho_E", **place)
    assert np.isclose(found.value("margin", **place), margin)
    lower = [row for row in found.rows if row["method"] == "exact"]
    assert {row["setting"] for row in lower} == {f"0.05 viscosity={v}" for v in ("0.005", "0.002", "0.001")}


def test_a_plain_reference_leaves_out_what_needs_its_derivative():
    problem = make_problem("poisson")
    plain = dataclasses.replace(problem, reference=lambda a: problem.require_reference()(a))
    found = audit(exact_operator(problem, 1.1), plain, parts=["errors", "attacks", "curves"], tests=4, eps=[0.05])
    assert {row["attack"] for row in found.rows} == {"none", "common", "noise", "smooth-noise", "search"}
    assert any("The reference cannot be differentiated" in note for note in found.notes)


def test_a_problem_too_coarse_for_the_theorems_keeps_its_other_rows():
    problem = make_problem("poisson", {"interior": 4})
    operator = DeepONet(100, 1, key=jax.random.key(0))
    found = audit(operator, problem, parts=["errors", "theory"], tests=2, eps=[0.05])
    assert found.value("relative_l2", method="model") > 0
    assert any("'theory 0.05' failed" in note and "too coarse" in note for note in found.notes)


def test_saved_perturbations_replay_to_the_same_rows(helmholtz, tmp_path):
    operators, problem, found = helmholtz
    save_audit(found, tmp_path / "audit")
    assert load_rows(tmp_path / "audit") == found.rows
    again = replay_audit(tmp_path / "audit", operators, problem)
    settings = {(case.attack, case.setting) for case in found.cases} | {("none", "clean")}
    kept = [row for row in found.rows if (row["attack"], row["setting"]) in settings]
    assert again == [row for row in kept if str(row["metric"]).startswith(("relative", "kappa", "angle"))]
    header, *lines = (tmp_path / "audit" / "rows.csv").read_text().splitlines()
    assert header == ",".join(COLUMNS) and len(lines) == len(found.rows)


@pytest.mark.long
def test_the_same_seed_gives_the_same_rows():
    problem = make_problem("helmholtz-3.5pi")
    first, second, other = (
        audit(Modal(ERRORS), problem, parts=["errors", "attacks"], tests=5, eps=[0.05], seed=seed).rows
        for seed in (1, 1, 2)
    )
    assert first == second
    assert [row["value"] for row in first] != [row["value"] for row in other]


def test_inputs_of_one_kind_are_attacked_within_their_budget(helmholtz):
    for case in helmholtz[2].cases:
        size = np.linalg.norm(case.inputs - case.base, axis=1)
        assert np.all(size <= float(case.setting) * np.linalg.norm(case.base, axis=1) * (1 + 1e-5))


def test_damaged_or_foreign_folders_are_refused_in_one_sentence(helmholtz, tmp_path):
    operators, problem, found = helmholtz
    save_audit(found, tmp_path / "audit")
    with pytest.raises(ConfigError, match="stable too"):
        replay_audit(tmp_path / "audit", {"pi": operators["pi"]}, problem)
    with pytest.raises(CheckpointError, match="10"):
        load_cases(tmp_path / "audit", 11)
    (tmp_path / "audit" / "perturbations.safetensors").write_bytes(b"no tensors")
    with pytest.raises(CheckpointError, match="does not hold"):
        load_cases(tmp_path / "audit", 10)
    (tmp_path / "audit" / "rows.json").write_text(json.dumps([{"value": 1}]))
    with pytest.raises(CheckpointError, match="does not hold rows"):
        load_rows(tmp_path / "audit")
    with pytest.raises(CheckpointError):
        replay_audit(tmp_path / "nothing", operators, problem)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"parts": ["error"]}, "Unknown part 'error'"),
        ({"eps": [0.0]}, "eps = 0"),
        ({"eps": [float("nan")]}, "eps = nan"),
        ({"tests": 0}, "tests = 0"),
        ({"eps": [0.05, 0.05000001]}, "two radii"),
        ({"operators": {}}, "at least one operator"),
        ({"operators": {"model": 3}}, "not callable"),
        ({"operators": lambda a, points: a}, r"shape \(2, 10\)"),
    ],
)
def test_wrong_arguments_get_one_sentence(changes, sentence):
    arguments = {"operators": Modal(ERRORS), "problem": make_problem("helmholtz-3.5pi"), "tests": 2} | changes
    with pytest.raises(ConfigError, match=sentence):
        audit(arguments.pop("operators"), arguments.pop("problem"), **arguments)


def test_the_parts_are_documented():
    assert all(f"    {part} " in str(audit.__doc__) for part in PARTS)


def test_progress_counts_the_tasks():
    seen: list[Any] = []
    problem = make_problem("helmholtz-3.5pi")
    audit(Modal(ERRORS), problem, parts=["errors"], tests=2, progress=seen.append)
    assert [report.note for report in seen] == ["clean", "common 0.05", "common 0.10", "done"]
    assert [report[:3] for report in seen] == [("audit", done, 3) for done in range(4)]


def test_an_equinox_module_of_ones_own_is_an_operator():
    problem = make_problem("poisson")
    operator = DeepONet(100, 1, key=jax.random.key(0))
    kept = audit(operator, problem, parts=["errors"], tests=3, eps=[0.05])
    wrapped = audit(lambda a, points: operator(a, points), problem, parts=["errors"], tests=3, eps=[0.05])
    for one, other in zip(kept.rows, wrapped.rows, strict=True):
        assert np.isclose(one["value"], other["value"], rtol=1e-3), one


@pytest.mark.long
def test_any_operator_is_judged_if_asked():
    """One whose error is known, and one that nobody can look into: the estimates are those of a judge, and right."""
    problem = make_problem("helmholtz-3.5pi")
    operators = {"pi": Modal(ERRORS), "host": lambda a, points: 1.05 * problem.require_reference()(np.asarray(a))}
    found = audit(operators, problem, parts=["estimates"], tests=5, eps=[0.05])
    assert any("spectral judge" in note for note in found.notes)
    assert not found.failures and any("10 whitebox inputs" in note for note in found.notes), found.notes
    places = [("none", "clean"), ("none", "rough"), ("none", "twice"), ("common", "0.05")]
    for method, attack, setting in [*(("host", *place) for place in places), ("pi", "whitebox", "0.05")]:
        place = {"method": method, "attack": attack, "setting": setting}
        assert np.isclose(found.value("effectivity_median", **place), 1.0, atol=0.01)
        assert found.value("coverage", **place) == 1.0 and found.value("below_half", **place) == 0.0


def test_what_cannot_be_judged_is_said():
    problem = make_problem("helmholtz-3.5pi")
    fixed = np.zeros(len(problem.blocks[0].points))
    blocks = (dataclasses.replace(problem.blocks[0], residual=lambda u_xx: u_xx - fixed), *problem.blocks[1:])
    own = dataclasses.replace(problem, blocks=blocks, refinement_blocks=())
    found = audit({"mine": Modal(ERRORS)}, own, parts=["estimates"], tests=2, eps=[])
    assert not found.rows and any("cannot be judged" in note and "other points" in note for note in found.notes)
