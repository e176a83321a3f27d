"""The same training in two fresh processes: the same bytes with --deterministic, and how far apart without."""

import os
import subprocess
import sys
from pathlib import Path

import safetensors.numpy
from tiny import SETTINGS

from stablepdenet.training import checkpoint

PROBLEMS = ("heat", "poisson", "burgers", "helmholtz")
METHODS = ("pi", "adv", "stable")
STEPS = 100


def trained(folder, name, method, *more, **environment):
    """The newest checkpoint's state of a training in a process of its own."""
    own = {**SETTINGS, "training.steps": STEPS, "training.checkpoint_every": STEPS, "operator.width": 64}
    own |= {"training.batch": 20, "problem.interior": 200}
    options = [f"--set={key}={value}" for key, value in own.items() if key != "method.name"]
    command = [sys.executable, "-m", "stablepdenet", "train", name, "--method", method, "--out", str(folder), *options]
    # Programs compiled by one process must not be another's.
    environment = {**os.environ, "JAX_COMPILATION_CACHE_DIR": "", **environment}
    result = subprocess.run([*command, *more], capture_output=True, text=True, env=environment)
    if result.returncode:
        raise SystemExit(result.stderr)
    return (checkpoint.existing(folder / "checkpoints")[-1] / checkpoint.STATE).read_bytes()


def run(folder, problems=PROBLEMS, methods=METHODS):
    """Every problem and method twice on one core, and the problems once on all cores."""
    folder, counts = Path(folder), {"pairs": 0, "same_bytes": 0}
    spread = {}
    for name in problems:
        for method in methods:
            first, second = (
                trained(folder / f"{name}-{method}-{again}", name, method, "--deterministic") for again in range(2)
            )
            counts["pairs"] += 1
            counts["same_bytes"] += first == second
        free = trained(folder / f"{name}-free", name, methods[-1])
        spread[name] = apart(first, free)
    return counts | {"spread_of_weights_on_all_cores": spread}


def apart(one, other):
    """The largest difference of a weight, over the largest weight."""
    one, other = (safetensors.numpy.load(data) for data in (one, other))
    names = [name for name in one if name.startswith("operator")]
    largest = max(abs(one[name]).max() for name in names)
    return float(max(abs(one[name] - other[name]).max() for name in names) / largest)
