"""A training that takes a second, and how its results are compared."""

from __future__ import annotations

import equinox as eqx
import jax
import numpy as np

from stablepdenet.experiments.runs import resolve

SMALL = {
    "operator.width": 16,
    "training.steps": 60,
    "training.warmup": 20,
    "training.refresh": 10,
    "training.functions": 30,
    "training.batch": 10,
    "training.log_every": 5,
    "training.checkpoint_every": 10,
    "attack.steps": 3,
}


def setup(name="poisson", **changes):
    own = {k.replace("__", "."): v for k, v in changes.items()}
    return resolve(name, {"problem.interior": 20, **SMALL, **own})


def same(first, second):
    """Whether two states agree in every byte."""
    first, second = (s._replace(key=jax.random.key_data(s.key)) for s in (first, second))
    pairs = zip(*(jax.tree.leaves(eqx.filter(state, eqx.is_array)) for state in (first, second)), strict=True)
    return all(np.array_equal(a, b) for a, b in pairs)
