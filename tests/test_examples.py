"""Examples run as a newcomer would run them, on a small budget."""

from __future__ import annotations

import re
import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"


def run(name):
    return runpy.run_path(str(EXAMPLES / name))


@pytest.mark.parametrize("name", ["own_pde.py", "own_nonlinear.py"])
def test_a_problem_is_defined_in_forty_lines(name):
    lines = (EXAMPLES / name).read_text().splitlines()
    first, last = (i for i, line in enumerate(lines) if line.startswith("# ---"))
    assert last - first - 1 <= 40


@pytest.mark.long
def test_own_pde_has_a_correct_reference_and_learns():
    example = run("own_pde.py")
    problem = example["advection_diffusion"]
    # A travelling, decaying sine is the exact solution.
    x, t = problem.grid.T
    u = np.exp(-0.02 * 4 * np.pi**2 * t) * np.sin(2 * np.pi * (x - 0.5 * t))
    assert np.allclose(problem.reference(np.sin(2 * np.pi * problem.axes[0])[None]), u, atol=1e-12)
    # Predicting nothing has error 1; a little training must do far better, clean and attacked.
    assert max(example["main"](2000).values()) < 0.5


@pytest.mark.long
def test_own_nonlinear_has_a_correct_reference_and_is_robust(capsys):
    example = run("own_nonlinear.py")
    problem = example["reaction"]
    # u = sin(pi x) / 2; what is left is the input's interpolation between its sensors.
    u, at = (np.sin(np.pi * x) / 2 for x in (problem.grid[:, 0], problem.inputs["a"].sensors))
    assert np.allclose(problem.reference((np.pi**2 * at + 100 * at**3)[None]), u, atol=1e-4)
    assert max(example["main"]().values()) < 1e-3
    assert "estimated errors of three answers" in capsys.readouterr().out


def test_the_readmes_own_problems_and_network_run_as_they_stand(tmp_path):
    text = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")
    blocks = [
        block
        for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL)
        if re.search(r"sp\.(Problem|fit)\(", block)
    ]
    assert len(blocks) == 3
    for block in blocks:
        # But for the number of steps.
        (tmp_path / "block.py").write_text(block.replace("20_000", "20"))
        done = subprocess.run([sys.executable, "block.py"], cwd=tmp_path, capture_output=True, text=True, timeout=600)
        assert done.returncode == 0, done.stderr
