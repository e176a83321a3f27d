"""What robust says of itself: met where it is met, said where it is not, and kept in a file."""

from __future__ import annotations

import dataclasses
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from pde_cases import FIELD, UNIT

import stablepdenet as sp
from stablepdenet import points
from stablepdenet.errors import CheckpointError, ConfigError
from stablepdenet.progress import Report, silent
from stablepdenet.robust import make_judge
from stablepdenet.spectral import (
    Trial,
    TrialFile,
    choose,
    read_setting,
    spectral_operator,
    stored_plan,
    with_estimate,
)
from stablepdenet.spectral.choose import first_plan
from stablepdenet.spectral.operator import shares


def cubic():
    return sp.Problem(
        name="cubic",
        domain=sp.Box(x=(0, 1)),
        inputs=sp.Inputs(f=sp.SensorInput(FIELD, points.uniform(9))),
        blocks=(
            sp.Block("pde", points.hammersley(100), lambda u, u_xx, f, x: -u_xx + u**3 - f - x**3),
            sp.Block("bc", points.boundary(), lambda u, x: u - x),
        ),
    )


def test_a_problem_of_ones_own_is_solved_to_the_tolerance(tmp_path):
    """-u_xx + u^3 = f + x^3, u(0) = 0, u(1) = 1: not linear, without ansatz, attack or reference; u = x for f = 0."""
    problem, said = cubic(), list[Report]()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        operator = sp.robust(problem, tolerance=1e-3, progress=said.append)
    assert said[-1].note.startswith("estimated errors of 16 inputs")
    a, grid = jnp.zeros((1, 9)), points.uniform(21)[:, None]
    found = operator.answer(a, grid)
    assert np.allclose(found.u, grid.T, atol=1e-5)
    assert float(found.estimate[0]) < 1e-3
    assert np.array_equal(found.trusted, [True])
    sp.save(operator, tmp_path / "operator.safetensors", problem)
    again = sp.load(tmp_path / "operator.safetensors", problem)
    assert again.tolerance == operator.tolerance == 1e-3
    assert np.array_equal(again(a, grid), found.u)
    assert np.array_equal(again.answer(a, grid).estimate, found.estimate)


@pytest.mark.long
def test_what_is_not_met_is_said():
    """Waves that travel without damping, and noise in them: too few functions for what the budget allows."""
    x = points.uniform(41)
    problem = sp.Problem(
        name="advection",
        domain=sp.Box(x=(0, 1), t=(0, 1)),
        inputs=sp.Inputs(a=sp.SensorInput(FIELD, x)),
        blocks=(
            sp.Block("pde", points.hammersley(200, UNIT), lambda u_t, u_x, u: u_t + u_x + u**3),
            sp.Block("left", points.grid(np.zeros(1), x), lambda u: u),
            sp.Block("ic", points.initial(x), lambda u, a: u - a),
        ),
    )
    with pytest.warns(UserWarning, match="tolerance 1e-06 is not met on .* inputs of 'advection'"):
        operator = sp.robust(problem, tolerance=1e-6, budget=0.001, progress=silent)
    a = problem.sample(2, key=jax.random.key(0))
    assert np.all(operator.answer(a, points.grid(x, x)).estimate > 1e-6)


@pytest.fixture(scope="module")
def judge():
    return with_estimate(first_plan(read_setting(cubic())), 0.1)


def test_an_answer_is_trusted_where_its_judge_says_so(judge):
    """Half of the solution is half wrong, and what is no number is not known."""
    a, grid = cubic().sample(2, key=jax.random.key(0)), points.uniform(21)[:, None]

    def wrong(a, points):
        return jnp.array([[1.0], [0.5], [np.nan]]) * judge(a, points)[:1]

    operator = sp.JudgedOperator(sp.FunctionOperator(wrong), judge)
    assert sp.JudgedOperator(judge, operator).judge is judge
    found = operator.answer(jnp.stack([a[0]] * 3), grid)
    assert np.array_equal(found.trusted, [True, False, False])
    assert found.estimate[0] < 0.01 and np.isclose(found.estimate[1], 0.5, atol=0.01) and np.isinf(found.estimate[2])


def test_no_error_is_none_of_zero():
    zero, one = jnp.zeros((1, 3)), jnp.ones((1, 3))
    assert shares(zero, zero) == 0.0 and shares(one, zero) == np.inf and np.isnan(shares(np.nan * one, one))


@pytest.mark.long
def test_a_judged_operator_is_kept_with_its_tolerance(tmp_path, judge):
    operator = sp.JudgedOperator(spectral_operator(judge.plan), judge)
    sp.save(operator, tmp_path / "operator", cubic())
    again = sp.load(tmp_path / "operator", cubic())
    assert isinstance(again, sp.JudgedOperator) and again.tolerance == 0.1


@pytest.mark.long
def test_a_stopped_search_goes_on_from_the_trial_it_had_reached(tmp_path):
    problem, trials, whole, rest = cubic(), list[Trial](), list[Report](), list[Report]()
    uninterrupted = choose(problem, tolerance=1e-5, budget=1e4, keep=trials.append, progress=whole.append)
    assert len(trials) > 1
    kept = TrialFile(tmp_path / "new" / "trials.json", problem, 1e-5)
    kept.write(trials[1])
    resumed = make_judge(problem, tolerance=1e-5, budget=1e4, trials=kept.path, progress=rest.append)
    assert [report.note for report in rest] == [report.note for report in whole[1:]]
    assert stored_plan(resumed.plan) == stored_plan(uninterrupted.plan)
    # What another problem or tolerance had reached says nothing.
    due = kept.read()
    assert due and due.number == len(trials) - 1 and due.seconds >= trials[1].seconds
    assert dataclasses.replace(kept, tolerance=1e-3).read() is None
    heavier = (dataclasses.replace(problem.blocks[0], weight=3.0), problem.blocks[1])
    assert dataclasses.replace(kept, problem=dataclasses.replace(problem, blocks=heavier)).read() is None


@pytest.mark.parametrize("content", ["", "{}", "[]", '{"format": "stablepdenet-trials-1"}'])
def test_a_file_without_trials_is_not_written_over(tmp_path, content):
    (tmp_path / "a.json").write_text(content)
    with pytest.raises(CheckpointError, match="does not hold a trial"):
        sp.robust(cubic(), trials=tmp_path / "a.json", progress=silent)
    assert (tmp_path / "a.json").read_text() == content


@pytest.mark.parametrize(
    ("wrong", "words"), [({"tolerance": 0.0}, "tolerance=0.0"), ({"budget": -1.0}, "a positive number of seconds")]
)
def test_bad_arguments_are_refused(wrong, words):
    with pytest.raises(ConfigError, match=words):
        sp.robust(cubic(), **wrong)
