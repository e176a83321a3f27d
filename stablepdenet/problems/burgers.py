"""The viscous Burgers equation with its initial value as input."""

from __future__ import annotations

from jaxtyping import Float
from numpy import ndarray

from stablepdenet import points
from stablepdenet.attacks import PGD, LinfBall, PeriodicEndpoints
from stablepdenet.domain import Box
from stablepdenet.operators import Ansatz, GalileanFrame
from stablepdenet.problems.base import Block, Problem, periodic_residual
from stablepdenet.problems.lifts import periodic_hats
from stablepdenet.problems.reference import ColeHopfReference
from stablepdenet.spaces import Inputs, PeriodicGaussianField, SensorInput


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
        fine=blocks(points.rows(max(2, interior // len(early)), early)),
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
