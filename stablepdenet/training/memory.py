"""Whether a training fits into the machine's memory: asked before anything of its size is made."""

from __future__ import annotations

import math
import os

import jax

from stablepdenet.errors import ConfigError
from stablepdenet.training.making import SOLVED
from stablepdenet.training.program import Program


def require_memory(program: Program) -> None:
    """Refuses a training whose state, with a gradient, and inputs are larger than the machine."""
    if program.config.operator.kind == SOLVED:
        return
    training, size = program.config.training, program.problem.inputs.size
    state = jax.tree.leaves(program.shapes())
    own = sum(leaf.size * leaf.dtype.itemsize for leaf in state if hasattr(leaf.dtype, "itemsize"))
    needed = 2 * own + 4 * size * (training.functions + training.validation)
    if needed > physical():
        raise ConfigError(
            f"This training needs {needed / 2**30:.3g} GiB for its parameters and inputs, the machine has "
            f"{physical() / 2**30:.3g}: lower operator.width, operator.depth, training.functions or training.batch."
        )


def physical() -> float:
    """Bytes of memory, where the system says so."""
    try:
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, ValueError, OSError):
        return math.inf
