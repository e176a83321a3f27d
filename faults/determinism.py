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
# Other objectives, on the cheapest problem.
OTHERS = ("noise", "fgsm", "tangent", "increment", "trades", "jacobian", "spectral")
STEPS, SECONDS = 100, 300


def trained(folder, name, *more, **environment):
    """The newest checkpoint's state of a training in a process of its own."""
    own = {**SETTINGS, "training.steps": STEPS, "training.checkpoint_every": STEPS, "operator.width": 64}
    own |= {"training.batch": 20, "problem.interior": 200}
    options = [f"--set={key}={value}" for key, value in own.items() if key != "method.name"]
    command = [sys.executable, "-m", "stablepdenet", "train", name, "--out", str(folder), *options]
    # Programs compiled by one process must not be another's.
    environment = {**os.environ, "JAX_COMPILATION_CACHE_DIR": "", **environment}
    result = subprocess.run([*command, *more], capture_output=True, text=True, env=environment, timeout=SECONDS)
    if result.returncode:
        raise SystemExit(result.stderr)
    return (checkpoint.existing(folder / "checkpoints")[-1] / checkpoint.STATE).read_bytes()


def run(folder, problems=PROBLEMS, methods=METHODS):
    """Every problem by every method of the paper twice on one core, other methods and the recipe robust on one problem
    each, and the problems once on all cores."""
    folder, counts = Path(folder), {"pairs": 0, "same_bytes": 0}

    def twice(name, *more):
        counts["pairs"] += 1
        pair = [trained(folder / f"{counts['pairs']}-{i}", name, *more, "--deterministic") for i in range(2)]
        counts["same_bytes"] += pair[0] == pair[1]
        return pair[0]

    spread = {}
    for name in problems:
        alone = [twice(name, "--method", method) for method in methods][-1]
        spread[name] = apart(alone, trained(folder / f"{name}-free", name, "--method", methods[-1]))
    for method in OTHERS:
        twice("poisson", f"--set=method.name={method}")
    twice("burgers", "--recipe", "robust")
    return counts | {"spread_of_weights_on_all_cores": spread}


def apart(one, other):
    """The largest difference of a weight, over the largest weight."""
    one, other = (safetensors.numpy.load(data) for data in (one, other))
    names = [name for name in one if name.startswith("operator")]
    largest = max(abs(one[name]).max() for name in names)
    return float(max(abs(one[name] - other[name]).max() for name in names) / largest)
