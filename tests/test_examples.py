"""Examples and the demo run as a newcomer would run them, on a small budget."""

from __future__ import annotations

import json
import runpy
from pathlib import Path

import numpy as np

from stablepdenet import demo
from stablepdenet.problems import make_problem
from stablepdenet.runs import configure
from stablepdenet.training import train_suite

OWN_PDE = Path(__file__).parent.parent / "examples" / "own_pde.py"


def test_own_pde_is_defined_in_forty_lines():
    lines = OWN_PDE.read_text().splitlines()
    first, last = (i for i, line in enumerate(lines) if line.startswith("# ---"))
    assert last - first - 1 <= 40


def test_own_pde_has_a_correct_reference_and_learns():
    example = runpy.run_path(str(OWN_PDE))
    problem = example["advection_diffusion"]
    # A travelling, decaying sine is the exact solution.
    x, t = problem.grid.T
    u = np.exp(-0.02 * 4 * np.pi**2 * t) * np.sin(2 * np.pi * (x - 0.5 * t))
    assert np.allclose(problem.reference(np.sin(2 * np.pi * problem.axes[0])[None]), u, atol=1e-12)
    # Predicting nothing has error 1; half a minute of training must do far better, clean and attacked.
    assert max(example["main"](2000).values()) < 0.5


def test_the_demo_writes_its_rows_and_its_figure(tmp_path):
    problem = make_problem("poisson")
    small = {"training.steps": 20, "training.warmup": 10, "training.refresh": 10, "operator.width": 16}
    config = configure(problem, small)
    operators = {name: state.operator for name, state in train_suite(problem, config).items()}
    rows = demo.evaluate(operators, problem, config, tmp_path)
    assert json.loads((tmp_path / "errors.json").read_text()) == rows
    assert [(r["attack"], r["setting"]) for r in rows[::3]] == [
        ("none", "clean"),
        ("common", "0.05"),
        ("common", "0.10"),
    ]
    assert (tmp_path / "poisson.png").read_bytes().startswith(b"\x89PNG")
