"""The heat equation with its initial value as input."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from stablepdenet.attacks import PGD, LinfBall
from stablepdenet.experiments.problems.lifts import LATER, evolved_hats
from stablepdenet.experiments.solvers.heat import response_matrix
from stablepdenet.functions import GaussianField, Inputs, SensorInput, points
from stablepdenet.functions.domain import Box
from stablepdenet.operators import Ansatz, Functions
from stablepdenet.problems.base import Block, Problem
from stablepdenet.problems.reference import LinearReference


def heat(
    *, alpha: float = 0.01, sensors: int = 101, interior: int = 1000, sides: int = 40, initial_weight: float = 1.0
) -> Problem:
    """u_t = alpha u_xx on (0, 1) x (0, 1], u = 0 at the ends, u(x, 0) = a(x) (eq:heat_initial).

    The random initial values do not vanish at the ends, so u jumps in the corners (0, 0) and (1, 0). Convention for the
    evaluation grid: the boundary value 0 for all t > 0, the initial value at t = 0.
    """
    x, axes = points.uniform(sensors), (points.uniform(101), points.uniform(100))
    return Problem(
        name="heat",
        equation="u_t - alpha u_xx = 0,  u(0, t) = u(1, t) = 0,  u(x, 0) = a(x)",
        domain=Box(x=(0, 1), t=(0, 1)),
        inputs=Inputs(a=SensorInput(GaussianField(length_scale=1.0), x)),
        blocks=(
            Block("pde", points.hammersley(interior, [(0, 1), (0, 1)]), lambda u_t, u_xx: u_t - alpha * u_xx),
            Block("bc", points.boundary(times=points.hammersley(sides // 2)[:, 0]), lambda u: u),
            # At the sensors, where the piecewise-linear input is the sampled one itself.
            Block("ic", points.initial(x), lambda u, a: u - a, weight=initial_weight),
        ),
        attack=PGD(LinfBall(0.05)),
        reference=LinearReference(lambda axes: response_matrix(x, points.grid(*axes), alpha), axes),
        axes=axes,
        ansatz=Ansatz(lift=evolved_hats(alpha, x), features=_corner_functions(alpha)),
        # The paper's jump does not say where: a block in the middle, and a single step.
        unseen={"jump": (abs(x - 0.5) <= 0.25)[None] * 1.0, "step": (x >= 0.5)[None] * 1.0},
    )


# Corner functions jump where time begins: there, a value slightly inside stands for the limit.
INSIDE = 1e-9


def _corner_functions(alpha: float, orders: int = 5) -> Functions:
    """s^k i^k erfc(z / s), z the distance from an end, s^2 = 4 alpha t: zero at t = 0, exact for the equation, with a
    multiple of t^(k/2) at the end. They are what a boundary adds that the initial value does not know of; the other end
    is too far to matter.

    2 k i^k erfc(z) = i^(k-2) erfc(z) - 2 z i^(k-1) erfc(z).
    """

    def functions(points: Float[Array, "n dim"]) -> Float[Array, "n k"]:
        s = jnp.sqrt(4.0 * alpha * jnp.maximum(points[:, 1], LATER))
        columns = []
        for distance in (points[:, 0], 1.0 - points[:, 0]):
            z = jnp.maximum(distance, INSIDE) / s
            before, last = 2.0 / jnp.sqrt(jnp.pi) * jnp.exp(-z * z), jax.scipy.special.erfc(z)
            for k in range(orders):
                columns.append((s / jnp.sqrt(4.0 * alpha)) ** k * last)
                before, last = last, (before - 2.0 * z * last) / (2.0 * (k + 1))
        return jnp.stack(columns, axis=1)

    return functions
