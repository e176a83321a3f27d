"""Whether a training fits into the machine's memory: asked before anything of its size is made."""

from __future__ import annotations

import math
import os

import jax

from stablepdenet.errors import ConfigError
from stablepdenet.training.program import Program
from stablepdenet.training.state import TrainState


def require_memory(program: Program, state: TrainState) -> None:
    """Refuses a training whose state (shapes are enough), with a gradient, and inputs are larger than the machine."""
    schedule, size = program.schedule, program.problem.inputs.size
    arrays = [leaf for leaf in jax.tree.leaves(state) if hasattr(getattr(leaf, "dtype", None), "itemsize")]
    own = sum(leaf.size * leaf.dtype.itemsize for leaf in arrays)
    needed = 2 * own + 4 * size * (schedule.functions + schedule.validation)
    if needed > physical():
        raise ConfigError(
            f"This training needs {needed / 2**30:.3g} GiB for its parameters and inputs, the machine has "
            f"{physical() / 2**30:.3g}: take a smaller network, fewer functions or a smaller batch (operator.width, "
            "operator.depth, training.functions, training.batch)."
        )


def physical() -> float:
    """Bytes of memory, where the system says so."""
    try:
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, ValueError, OSError):
        return math.inf
