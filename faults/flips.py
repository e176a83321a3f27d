"""Every byte of a checkpoint flipped in turn: each must be noticed, and the checkpoint before it used."""

import warnings
from pathlib import Path

import jax
import numpy as np
from tiny import tiny

from stablepdenet.experiments.training import Run, initial_state, train_in
from stablepdenet.training import checkpoint


def run(folder, every=1):
    """Flips every byte, or every so-manyth."""
    folder = Path(folder) / "flips"
    problem, config = tiny(**{"operator.width": 2, "training.steps": 60, "training.warmup": 60, "method.name": "pi"})
    train_in(folder, problem, config)
    opened, template = Run.open(folder), initial_state(problem, config)
    before, newest = checkpoint.existing(opened.checkpoints)
    good = checkpoint.load(before, template, opened.stored)
    counts = {"bytes_flipped": 0, "noticed": 0, "recovered": 0}
    for path in sorted(newest.iterdir()):
        data = path.read_bytes()
        for place in range(0, len(data), every):
            changed = bytes([data[place] ^ 1 << place % 8])
            path.write_bytes(data[:place] + changed + data[place + 1 :])
            with warnings.catch_warnings(record=True) as told:
                warnings.simplefilter("always")
                state = opened.latest(template)
            counts["bytes_flipped"] += 1
            counts["noticed"] += any(newest.name in str(warning.message) for warning in told)
            counts["recovered"] += _same(state, good)
        path.write_bytes(data)
    return counts


def _same(one, other):
    one, other = (state._replace(key=jax.random.key_data(state.key)) for state in (one, other))
    return all(np.array_equal(a, b) for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True))
