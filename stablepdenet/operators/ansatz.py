"""What solutions are known to be made of, before anything is learned."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy import ndarray

from stablepdenet.operators.base import component
from stablepdenet.operators.box_functions import BoxFunctions
from stablepdenet.operators.jets import Derivative, nested_derivatives

# Functions of the points, a column each; several components are a last axis.
Functions = Callable[[Float[Array, "n dim"]], Float[Array, "n k *components"]]


# Of the largest value of an input: a mean below it is what rounding leaves of zero.
ROUNDING = 4.0 * float(np.finfo(np.float32).eps)


@dataclass(frozen=True, eq=False)
class GalileanFrame:
    """Says that solutions are Galilean invariant: with the mean m of a, u = m + v(x - m t, t), where v starts from
    a - m.

    The mean is that of a over a period, which is the sum of the input's numbers with the `weights`; `interval` is one
    period of x. The columns of x and t are their places among the coordinates.
    """

    weights: Float[ndarray, " m"]
    interval: tuple[float, float]
    space: int = 0
    time: int = 1

    def means(self, a: Float[Array, "batch m"]) -> Float[Array, " batch"]:
        """Exactly zero, but with their derivative, where they are rounding: such inputs are answered as they are."""
        found = a @ jnp.asarray(self.weights, a.dtype)
        small = jnp.abs(found) <= ROUNDING * jnp.max(jnp.abs(a), axis=1)
        return found - jnp.where(small, jax.lax.stop_gradient(found), 0.0)

    def moved(self, points: Float[Array, "n dim"], speed: Float[Array, ""]) -> Float[Array, "n dim"]:
        """The points as a frame of that speed sees them."""
        return points.at[:, self.space].add(-speed * points[:, self.time])

    def inside(self, points: Float[Array, "n dim"]) -> Float[Array, "n dim"]:
        """The same points within the period: functions need not be periodic beyond it."""
        low, high = self.interval
        return points.at[:, self.space].set(low + jnp.mod(points[:, self.space] - low, high - low))


@dataclass(frozen=True)
class Ansatz:
    """u = lift(a) + envelope * sum_j c_j phi_j.

    The `lift`, a column for each number of the input, takes care of what smooth functions cannot follow, as a rough
    initial value. The `envelope`, a column for each component, vanishes where the lift alone must be right. The
    `features` phi are those of `solve`; a network learns its own. None where nothing needs it. The `frame` names a
    symmetry, which holds for answers once they are refined (`MovingFrameOperator`).
    """

    lift: Functions | None = None
    envelope: Functions | None = None
    features: Functions | None = None
    frame: GalileanFrame | None = None


def table(
    functions: Functions, points: Float[ndarray, "n dim"], multi_indices: Sequence[Derivative], number: int = 0
) -> dict[Derivative, Float[ndarray, "n k"]]:
    """Derivatives of one component at known points, in float64; also while a program is traced, for which they are
    constants then."""
    if isinstance(functions, BoxFunctions):
        return {index: functions.derivative(np.asarray(points, np.float64), index, number) for index in multi_indices}

    def derivatives(points: Float[Array, "n dim"]) -> dict[Derivative, Float[Array, "n k"]]:
        return nested_derivatives(component(functions, number), points, tuple(multi_indices))

    return {index: np.asarray(found) for index, found in evaluated(derivatives, points).items()}


def evaluated(function: Callable[..., Any], *arrays: Any) -> Any:
    """What a function of arrays gives in float64, by one program of its own: piece by piece, JAX would compile one for
    each operation. Also while another program is traced."""
    with jax.ensure_compile_time_eval(), jax.enable_x64(True):
        return jax.jit(lambda *arrays: function(*arrays))(
            *jax.tree.map(lambda array: jnp.asarray(array, jnp.float64), arrays)
        )
