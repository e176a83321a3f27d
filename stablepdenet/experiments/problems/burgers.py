"""The viscous Burgers equation with its initial value as input."""

from __future__ import annotations

from typing import final

import jax
import numpy as np
from jaxtyping import Array, Float
from numpy import ndarray

from stablepdenet.attacks import PGD, LinfBall, PeriodicEndpoints
from stablepdenet.experiments.problems.lifts import periodic_hats
from stablepdenet.experiments.solvers.burgers import Where, cole_hopf, cole_hopf_jax
from stablepdenet.functions import Inputs, PeriodicGaussianField, SensorInput, points
from stablepdenet.functions.domain import Box
from stablepdenet.operators import Ansatz, GalileanFrame
from stablepdenet.problems.base import Block, Problem, periodic_residual
from stablepdenet.problems.reference import AbstractViscousReference, Axes


@final
class ColeHopfReference(AbstractViscousReference):
    """Burgers' solution operator on the grid of (x, t)."""

    def __init__(self, sensors: Float[ndarray, " m"], viscosity: float, axes: Axes):
        self.sensors, self.viscosity, self.axes = sensors, viscosity, axes

    def __call__(self, a: Float[ndarray, "batch m"]) -> Float[ndarray, "batch n *components"]:
        x, t = self.axes
        return cole_hopf(a, Where(self.sensors, x, t, self.viscosity)).swapaxes(1, 2).reshape(len(a), -1)

    def traced(self, a: Float[Array, "batch m"]) -> Float[Array, "batch n *components"]:
        x, t = self.axes
        # In float64 where JAX is set to it: see `cole_hopf_jax` on what small viscosities ask for.
        wide = a.astype(jax.dtypes.canonicalize_dtype(np.float64))
        # A quarter of the nodes: 3e-7 from the full number, in half the time.
        u = cole_hopf_jax(wide, Where(self.sensors, x, t, self.viscosity, grid=1024))
        return u.swapaxes(1, 2).reshape(len(a), -1).astype(a.dtype)

    def on(self, axes: Axes) -> ColeHopfReference:
        return ColeHopfReference(self.sensors, self.viscosity, axes)

    def at(self, viscosity: float, axes: Axes) -> ColeHopfReference:
        return ColeHopfReference(self.sensors, viscosity, axes)


def burgers(
    *,
    viscosity: float = 0.01,
    sensors: int = 101,
    interior: int = 1000,
    sides: int = 100,
    initial_weight: float = 20.0,
) -> Problem:
    """u_t + u u_x = viscosity u_xx with period 1 on (0, 1) x (0, 1], u(x, 0) = a(x).

    The sensors include both ends, where admissible inputs agree. The periodic block asks for u and u_x to match. The
    paper's kappa_r of 4.2-4.5 is about sqrt(20), which is what an initial value that does not respond gives with the
    weight 20 of the first physics-informed DeepONets.
    """
    x, axes = points.uniform(sensors), (points.uniform(101), points.uniform(101))
    inside, sides_at = points.hammersley(interior, [(0, 1), (0, 1)]), points.periodic(points.hammersley(sides)[:, 0])

    # Rough initial values change fast at first: times are denser there. Where they are not, a network can drop to
    # another solution before the first of them, unseen. On equally spaced points, the smooth test functions of `refine`
    # see almost nothing of what is rough.
    early = points.gauss(20) ** 2

    def blocks(inside: Float[ndarray, "n 2"]) -> tuple[Block, ...]:
        return (
            Block("pde", inside, lambda u, u_x, u_t, u_xx: u_t + u * u_x - viscosity * u_xx),
            Block("bc", sides_at, periodic_residual),
            Block("ic", points.initial(x), lambda u, a: u - a, weight=initial_weight),
        )

    return Problem(
        name="burgers",
        equation="u_t + u u_x - nu u_xx = 0,  u and u_x of period 1,  u(x, 0) = a(x)",
        domain=Box(x=(0, 1), t=(0, 1), periodic="x"),
        inputs=Inputs(a=SensorInput(PeriodicGaussianField(), x)),
        blocks=blocks(inside),
        refinement_blocks=blocks(points.rows(max(2, interior // len(early)), early)),
        attack=PGD(LinfBall(0.05), PeriodicEndpoints()),
        reference=ColeHopfReference(x, viscosity, axes),
        axes=axes,
        batch=50,
        tests=1000,
        fronts=True,
        embedding="periodic",
        # The initial value as it diffuses, and what transport makes of it in time.
        ansatz=Ansatz(
            lift=periodic_hats(viscosity, x, until=1.0),
            envelope=lambda points: points[:, 1:],
            frame=GalileanFrame(points.trapezoid(x), (0.0, 1.0)),
        ),
    )
