"""The heat equation with its initial value as input."""

from __future__ import annotations

from stablepdenet import points
from stablepdenet.attacks import PGDLinf
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
        # The paper's jump does not say where: a block in the middle, and a single step.
        unseen={"jump": (abs(x - 0.5) <= 0.25)[None] * 1.0, "step": (x >= 0.5)[None] * 1.0},
    )
