"""Recipes: which way they take, and that what they make can be stored, loaded and asked."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from stablepdenet import Block, configure, load_operator, make_problem, relative_l2, train_in
from stablepdenet.errors import ConfigError
from stablepdenet.experiments.campaign import make_jobs
from stablepdenet.experiments.campaign.job import run_job
from stablepdenet.experiments.recipes import explain, settings_of
from stablepdenet.experiments.results import load_results
from stablepdenet.experiments.runs import by_recipe
from stablepdenet.operators import ConstrainedOperator, LinearOperator, MovingFrameOperator
from stablepdenet.progress import Report, silent
from stablepdenet.refining import RefinedOperator

TINY = {"operator.width": 16, "training.steps": 40, "training.batch": 5, "training.functions": 10}
SMALL = {"interior": 200, "sides": 10}


def test_paper_changes_nothing():
    problem = make_problem("burgers", SMALL)
    assert settings_of("paper", problem) == {}
    assert configure(problem, recipe="paper") == configure(problem)


@pytest.mark.parametrize(("name", "way"), [("poisson", "Solved"), ("heat", "Solved"), ("burgers", "Trained")])
def test_robust_picks_by_linearity_and_says_so(name, way):
    config = configure(make_problem(name), recipe="robust")
    assert config.display_name == config.recipe == "robust"
    assert way in explain(config)


def test_linearity_is_tried_not_declared():
    poisson = make_problem("poisson")
    other = Block("pde", poisson.blocks[0].points, lambda u, u_xx, a: -u_xx + 0.01 * u**3 - a)
    cubic = dataclasses.replace(poisson, name="cubic", blocks=(other, poisson.blocks[1]), refinement_blocks=())
    config = configure(cubic, recipe="robust")
    assert config.operator.kind == "deeponet"
    assert config.operator.constraints == "soft", "it has no ansatz"


def test_unknown_recipes_are_refused(tmp_path):
    with pytest.raises(ConfigError, match="paper, plain, robust"):
        configure(make_problem("poisson"), recipe="magic")
    with pytest.raises(ConfigError, match="needs an ansatz"):
        problem = make_problem("poisson")
        train_in(tmp_path, problem, configure(problem, {"operator.constraints": "hard"}))
    with pytest.raises(ConfigError, match="has no basis"):
        configure(make_problem("poisson"), {"operator.kind": "modified", "operator.refinements": 1})


def test_robust_is_trained_in_a_folder_and_loaded_as_it_answers(tmp_path):
    problem = dataclasses.replace(make_problem("burgers", SMALL), name="my own")
    said: list[Report] = []
    made = by_recipe(problem, TINY, folder=tmp_path, progress=said.append)
    assert said[0].note.startswith("Trained, and refined by 3 steps")
    _, loaded = load_operator(tmp_path, problem)
    a, grid = problem.sample(2, key=jax.random.key(0)), jnp.asarray(problem.grid)
    answers = []
    for operator in (made, loaded):
        assert isinstance(operator, MovingFrameOperator)
        assert isinstance(operator.operator, RefinedOperator)
        trained = operator.operator.operator
        assert isinstance(trained, ConstrainedOperator)
        answers.append(trained(a, grid))
    assert np.array_equal(answers[0], answers[1])


def test_robust_solves_what_is_linear_and_says_so(capsys):
    problem = dataclasses.replace(make_problem("poisson"), name="my own")
    operator = by_recipe(problem)
    assert "Solved by least squares" in capsys.readouterr().err
    assert isinstance(operator, LinearOperator)
    a = problem.sample(5, key=jax.random.key(0))
    u = np.asarray(operator(a, jnp.asarray(problem.grid)))
    assert relative_l2(u, problem.require_reference()(np.asarray(a))) < 1e-6


def test_a_solved_run_keeps_its_operator_and_is_not_solved_again(tmp_path, monkeypatch):
    problem = make_problem("poisson")
    solved = by_recipe(problem, folder=tmp_path)
    assert isinstance(solved, LinearOperator)
    assert {path.name for path in tmp_path.iterdir()} - {"lock"} == {"config.json", "operator.safetensors"}
    monkeypatch.setattr("stablepdenet.experiments.runs.solve", None)
    for operator in (load_operator(tmp_path, problem)[1], by_recipe(problem, folder=tmp_path)):
        assert isinstance(operator, LinearOperator)
        assert np.array_equal(operator.matrix, solved.matrix)
    with pytest.raises(ConfigError, match="nothing to train"):
        train_in(tmp_path / "other", problem, configure(problem, recipe="robust"))


def test_a_campaign_of_robust_has_rows_of_its_own(tmp_path):
    (job,), steps = make_jobs(["poisson"], [1], "quick", {}, tmp_path, base="robust")
    assert steps == {"poisson": 0}
    run_job(job, silent)
    assert job.done
    (result,) = load_results(tmp_path)
    assert (result.recipe, result.problem, result.seed) == ("robust-quick", "poisson", 1)
    assert {row["method"] for row in result.rows} == {"robust"}
    clean, common = (
        next(float(row["value"]) for row in result.rows if row["metric"] == "relative_l2" and row["attack"] == attack)
        for attack in ("none", "common")
    )
    assert clean < 1e-6
    assert common < 1e-4
    # The same again is recognised as done; another setting is not taken for it.
    assert make_jobs(["poisson"], [1], "quick", {}, tmp_path, base="robust")[0] == [job]
    with pytest.raises(ConfigError, match="recipe"):
        make_jobs(["poisson"], [1], "quick", {"recipe": "paper"}, tmp_path, base="robust")
    with pytest.raises(ConfigError, match="paper, plain, robust"):
        make_jobs(["poisson"], [1], "quick", {}, tmp_path, base="magic")
