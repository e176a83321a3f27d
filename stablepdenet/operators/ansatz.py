"""What solutions are known to be made of, before anything is learned."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy import ndarray

from stablepdenet.operators.base import component
from stablepdenet.operators.jets import Derivative, nested_derivatives

# Functions of the points, a column each; several components are a last axis.
Functions = Callable[[Float[Array, "n dim"]], Float[Array, "n k *components"]]


@dataclass(frozen=True)
class Ansatz:
    """u = lift(a) + envelope * sum_j c_j phi_j.

    The `lift`, a column for each number of the input, takes care of what smooth functions cannot follow, as a rough
    initial value. The `envelope`, a column for each component, vanishes where the lift alone must be right. The
    `features` phi are those
    of `solve`; a network learns its own. None where nothing needs it.
    """

    lift: Functions | None = None
    envelope: Functions | None = None
    features: Functions | None = None


def table(
    functions: Functions, points: Float[ndarray, "n dim"], words: Sequence[Derivative], number: int = 0
) -> dict[Derivative, Float[ndarray, "n k"]]:
    """Derivatives of one component at known points, in float64; also while a program is traced, for which they are
    constants then."""
    with jax.ensure_compile_time_eval(), jax.enable_x64(True):
        compiled = jax.jit(lambda points: nested_derivatives(component(functions, number), points, tuple(words)))
        return {word: np.asarray(found) for word, found in compiled(jnp.asarray(points, jnp.float64)).items()}
