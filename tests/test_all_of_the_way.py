"""Every problem of a user's own, from the blocks to the audit: trained, solved or refined, and measured."""

from __future__ import annotations

import dataclasses
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from pde_cases import CASES, LINEAR

import stablepdenet as sp
from stablepdenet import points
from stablepdenet.spectral import is_judged

pytestmark = pytest.mark.long

ATTACK = sp.PGD(sp.LinfBall(0.02), steps=2)
KEY = jax.random.key(0)


@pytest.mark.parametrize("name", CASES)
def test_a_problem_is_trained_solved_and_audited(name):
    problem = CASES[name]().problem
    operator = sp.solve(problem) if name in LINEAR else sp.robust(problem, tolerance=0.05, budget=60.0)
    network = sp.DeepONet(
        problem.inputs.size, problem.domain.dimension, width=8, components=len(problem.solution), key=KEY
    )
    few = partial(sp.fit, steps=6, warmup=2, refresh=2, functions=8, batch=4, validation=4)
    trained = few(problem, network, sp.Stable(ATTACK, rho=0.2), key=KEY)
    axes = tuple(points.uniform(7, interval) for interval in problem.domain.intervals)
    grid = points.grid(*axes)
    answers = sp.robust(problem, tolerance=0.05, budget=60.0) if name in LINEAR else operator
    measured = dataclasses.replace(
        problem,
        attack=ATTACK,
        axes=axes,
        reference=lambda a: np.asarray(answers(jnp.asarray(a, jnp.float32), jnp.asarray(grid))),
    )
    audit = sp.audit({"trained": trained, "ours": operator}, measured, parts=["errors"], tests=3, eps=[0.02])
    whole = {method: audit.value("relative_l2", method=method) for method in ("trained", "ours")}
    # Two ways to one solution, as far apart as the second says of the first, and a network of six steps.
    assert is_judged(answers)
    says = float(np.max(sp.JudgedOperator(operator, answers).answer(problem.sample(6, key=KEY), grid).estimate))
    assert whole["ours"] < (2.0 * says if name in LINEAR else 1e-6) < whole["trained"]
    for component in problem.solution if len(problem.solution) > 1 else ():
        assert np.isfinite(audit.value(f"relative_l2.{component}", method="trained"))
