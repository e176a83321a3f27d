"""The command line as a process, and a training that takes seconds."""

from __future__ import annotations

import subprocess
import sys

TINY = [
    "--set=operator.width=8",
    "--set=training.steps=20",
    "--set=training.warmup=10",
    "--set=training.refresh=5",
    "--set=training.checkpoint_every=10",
    "--set=attack.steps=2",
    "--set=problem.interior=10",
]


def stablepdenet(*arguments, **options):
    command = [sys.executable, "-m", "stablepdenet", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, **options)


def assert_refused(result, code, *words):
    """One sentence on stderr that holds the words, nothing on stdout, the agreed exit code."""
    assert result.returncode == code, (result.stdout, result.stderr)
    assert result.stdout == ""
    assert len(result.stderr.strip().splitlines()) == 1, result.stderr
    assert all(word in result.stderr for word in words), result.stderr
