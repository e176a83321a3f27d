"""The heat equation with its initial value as input."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy import ndarray

from stablepdenet import points
from stablepdenet.attacks import PGDLinf
from stablepdenet.operators import Ansatz, Functions
from stablepdenet.problems.base import Block, Problem
from stablepdenet.problems.reference import LinearReference
from stablepdenet.solvers.heat import response_matrix
from stablepdenet.spaces import GaussianField, SensorInput


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
        coordinates=("x", "t"),
        input=SensorInput(GaussianField(length_scale=1.0), x),
        blocks=(
            Block("pde", points.hammersley(interior, [(0, 1), (0, 1)]), lambda u_t, u_xx: u_t - alpha * u_xx),
            Block("bc", points.boundary(times=points.hammersley(sides // 2)[:, 0]), lambda u: u),
            # At the sensors, where the piecewise-linear input is the sampled one itself.
            Block("ic", points.initial(x), lambda u, a: u - a, weight=initial_weight),
        ),
        attack=PGDLinf(eps=0.05),
        reference=LinearReference(lambda axes: response_matrix(x, points.grid(*axes), alpha), axes),
        axes=axes,
        ansatz=Ansatz(_corner_functions(alpha), _evolved_hats(alpha, x)),
        # The paper's jump does not say where: a block in the middle, and a single step.
        unseen={"jump": (abs(x - 0.5) <= 0.25)[None] * 1.0, "step": (x >= 0.5)[None] * 1.0},
    )


# Solutions of the heat equation jump where time begins: there, a value slightly inside of the domain and slightly
# later than the beginning stands for the limit from inside.
INSIDE, LATER = 1e-9, 1e-24


def _evolved_hats(alpha: float, x: Float[ndarray, " m"]) -> Functions:
    """The initial value, continued by constants, as it evolves on the whole line: exact at t = 0 and in the equation.

    A piecewise-linear function is a sum of ramps max(x - x_i, 0), one for each kink; heat turns a ramp into
    z Phi(z / s) + s phi(z / s), z = x - x_i, s^2 = 2 alpha t, with the normal law's Phi and phi.
    """
    slopes = np.diff(np.eye(len(x)), axis=0) / np.diff(x)[:, None]
    kinks = np.diff(slopes, axis=0, prepend=0.0, append=0.0)

    def functions(points: Float[Array, "n dim"]) -> Float[Array, "n m"]:
        z = points[:, :1] - jnp.asarray(x, points.dtype)
        s = jnp.sqrt(2.0 * alpha * jnp.maximum(points[:, 1:], LATER))
        ramps = z * jax.scipy.stats.norm.cdf(z / s) + s * jax.scipy.stats.norm.pdf(z / s)
        first = jnp.asarray(np.eye(len(x))[0], points.dtype)
        return ramps @ jnp.asarray(kinks, points.dtype) + first

    return functions


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
            z = (distance + INSIDE) / s
            before, last = 2.0 / jnp.sqrt(jnp.pi) * jnp.exp(-z * z), jax.scipy.special.erfc(z)
            for k in range(orders):
                columns.append((s / jnp.sqrt(4.0 * alpha)) ** k * last)
                before, last = last, (before - 2.0 * z * last) / (2.0 * (k + 1))
        return jnp.stack(columns, axis=1)

    return functions
