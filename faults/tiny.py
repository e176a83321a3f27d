"""A training that takes a second, for faults to happen to."""

import json

from stablepdenet.experiments.runs import resolve

INTERVAL = 5
SETTINGS = {
    "method.name": "stable",
    "operator.width": 8,
    "operator.depth": 2,
    "training.steps": 300,
    "training.warmup": 50,
    "training.refresh": 50,
    "training.functions": 20,
    "training.batch": 10,
    "training.validation": 10,
    "training.validate_every": 50,
    "training.log_every": INTERVAL,
    "training.checkpoint_every": INTERVAL,
    "attack.steps": 2,
}


def tiny(name="poisson", **changes):
    """A problem on few points, and its configuration."""
    return resolve(name, {"problem.interior": 10, **SETTINGS, **changes})


def told(counts):
    """Counts as a line each."""
    return "\n".join(f"  {name.replace('_', ' '):44} {json.dumps(value)}" for name, value in counts.items())
