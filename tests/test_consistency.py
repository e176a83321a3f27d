"""Problems whose data contradict each other are told of, and others are not."""

from __future__ import annotations

import dataclasses
import warnings

import numpy as np
import pytest
from pde_cases import CASES, FIELD, UNIT, X, sides

import stablepdenet as sp
from stablepdenet import points
from stablepdenet.experiments.problems import PROBLEMS, make_problem
from stablepdenet.problems import warn_of_contradictions


def told(problem: sp.Problem) -> list[str]:
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        warn_of_contradictions(problem)
    return [str(each.message) for each in found]


def heat(inputs: sp.Inputs, *blocks: sp.Block) -> sp.Problem:
    """u_t = u_xx from u = a."""
    pde = sp.Block("pde", points.hammersley(50, UNIT), lambda u_t, u_xx: u_t - u_xx)
    ic = sp.Block("ic", points.initial(X), lambda u, a: u - a)
    return sp.Problem("heat", sp.Box(x=(0, 1), t=(0, 1)), inputs, (pde, ic, *blocks))


ROUGH = sp.Inputs(a=sp.SensorInput(FIELD, X))
VANISHING = sp.Inputs(a=sp.ModalInput(sp.SineSeries(modes=3)))
ENDS = points.boundary(times=points.uniform(20))


def test_an_initial_value_that_does_not_meet_the_boundary_is_told_of() -> None:
    (sentence,) = told(heat(ROUGH, sp.Block("bc", ENDS, lambda u: u)))
    assert "'ic' and 'bc'" in sentence and "x = 0, t = 0" in sentence


def test_it_does_not_matter_whether_points_lie_in_the_corner() -> None:
    inside = points.boundary(times=points.hammersley(20)[:, 0])
    assert told(heat(ROUGH, sp.Block("bc", inside, lambda u: 3 * u)))
    right = inside[inside[:, 0] == 1]
    assert "x = 1, t = 0" in told(heat(ROUGH, sp.Block("bc", right, lambda u: u)))[0]


@pytest.mark.parametrize(
    "block",
    [
        sp.Block("bc", ENDS, lambda u, a: 2 * u - 2 * a),
        sp.Block("bc", ENDS, lambda u, a, t: u - (1 + t) * a),
        sp.Block("neumann", ENDS, lambda u_x: u_x),
        sp.Block("robin", ENDS, lambda u, u_x: u + u_x),
        sp.Block("nonlinear", ENDS, lambda u: u**3 - u),
        sp.Block("later", ENDS[ENDS[:, 1] > 0.4], lambda u: u),
        sp.Block("own points", ENDS, lambda u: u - np.ones(len(ENDS))),
        sp.Block("periodic", points.periodic(points.uniform(10)), lambda u: u[:, :10] - u[:, 10:]),
    ],
    ids=lambda block: block.name,
)
def test_what_does_not_contradict_or_cannot_be_known_is_not_told_of(block: sp.Block) -> None:
    assert not told(heat(ROUGH, block))


def test_inputs_that_vanish_at_the_ends_meet_the_boundary() -> None:
    assert not told(heat(VANISHING, sp.Block("bc", ENDS, lambda u: u)))
    assert told(heat(VANISHING, sp.Block("bc", ENDS, lambda u: u - 0.1)))


def test_two_blocks_on_one_side_are_compared_there() -> None:
    zero, one = sp.Block("zero", ENDS, lambda u: u), sp.Block("one", ENDS, lambda u: u - 1)
    assert any("'zero' and 'one'" in sentence for sentence in told(heat(VANISHING, zero, one)))


def test_sides_of_a_cube_are_compared_along_their_edges() -> None:
    cube = [(0, 1)] * 3
    spread = sides(*cube, num=60)
    bottom, rest = spread[:, 2] == 0, spread[:, 2] > 0
    problem = CASES["steady_3d"]().problem
    pde = problem.blocks[0]

    def sided(low, others):
        blocks = (pde, sp.Block("low", spread[bottom], low), sp.Block("others", spread[rest], others))
        return dataclasses.replace(problem, blocks=blocks)

    assert not told(sided(lambda u, x, y: u - x * y, lambda u, x, y, z: u - x * y * (1 + z)))
    # They agree in all corners of the lower side, and not in the middle of its edges.
    assert told(sided(lambda u: u, lambda u, x, y: u - x * (1 - x) - y * (1 - y)))


# The boundary data g(t) of this one do not meet the initial value x^2 / 2 for other inputs than its own.
@pytest.mark.parametrize("name", CASES)
def test_of_the_examples_only_free_boundary_data_contradict(name: str) -> None:
    sentences = told(CASES[name]().problem)
    assert bool(sentences) == (name == "boundary_data")
    assert all("'left' and 'ic' contradict each other at x = 0, t = 0" in sentence for sentence in sentences)


@pytest.mark.parametrize("name", PROBLEMS)
def test_the_papers_problems_are_consistent_or_jump_on_purpose(name: str) -> None:
    problem = make_problem(name)
    assert not told(problem)
    # The heat equation's ansatz knows that solutions jump in the corners: without it, nothing does.
    assert bool(told(dataclasses.replace(problem, ansatz=None))) == (name == "heat")


def test_solving_tells() -> None:
    with pytest.warns(UserWarning, match="contradict each other at x = 0, t = 0"):
        sp.solve(heat(ROUGH, sp.Block("bc", ENDS, lambda u: u)))
