"""Examples run as a newcomer would run them, on a small budget."""

from __future__ import annotations

import runpy
from pathlib import Path

import numpy as np

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
