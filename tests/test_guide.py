"""The guide's code, run as a reader would run it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parent.parent / "docs"
GUIDE = DOCS / "audit.md"


@pytest.mark.long
def test_the_guide_audits_a_pytorch_model(tmp_path):
    pytest.importorskip("torch", reason="PyTorch is not installed")
    (code,) = re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    # The guide's own settings, on fewer inputs.
    (tmp_path / "guide.py").write_text(code.replace("tests=50", "tests=5"))
    command = [sys.executable, "guide.py"]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=900)
    assert result.returncode == 0, result.stderr
    printed = {line.split()[0]: float(line.split()[1]) for line in result.stdout.splitlines()}
    # Trained on clean solutions it solves clean inputs, withstands noise, and fails under its own worst case.
    assert printed["none"] < 0.2
    assert printed["none"] < printed["whitebox"] and printed["noise"] < printed["whitebox"]
    rows = json.loads((tmp_path / "audit-torch" / "rows.json").read_text())
    attacks = {"none", "common", "noise", "smooth-noise", "whitebox", "apgd", "search", "physics"}
    assert {row["attack"] for row in rows} == attacks
    assert {"kappa_r", "kappa_E", "angle", "lipschitz_mean", "lipschitz_exact_mean"} <= {row["metric"] for row in rows}


@pytest.mark.long
def test_a_network_of_ones_own_is_refined_as_the_page_says(tmp_path):
    pytest.importorskip("torch", reason="PyTorch is not installed")
    (code,) = re.findall(r"```python\n(.*?)```", (DOCS / "robust.md").read_text(), re.DOTALL)
    (tmp_path / "page.py").write_text(code.replace("tests=20", "tests=5"))
    command = [sys.executable, "page.py"]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=900)
    assert result.returncode == 0, result.stderr
    printed = {tuple(words[:2]): float(words[2]) for words in map(str.split, result.stdout.splitlines())}
    assert printed["plain", "none"] > 1
    assert printed["trunk", "none"] < 1e-3 and printed["trunk", "whitebox"] < 0.02
    assert printed["polynomials", "none"] < 1e-4 and printed["polynomials", "whitebox"] < 1e-3


def test_the_guide_stays_short():
    assert len(GUIDE.read_text().splitlines()) < 160
