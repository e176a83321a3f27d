"""The Poisson equation with its source as input."""

from __future__ import annotations

from stablepdenet.attacks import PGD, LinfBall
from stablepdenet.experiments.solvers.poisson import response_matrix
from stablepdenet.functions import Inputs, PowerSeries, SensorInput, points
from stablepdenet.functions.domain import Box
from stablepdenet.problems.base import Block, Problem
from stablepdenet.problems.reference import LinearReference


def poisson(*, sensors: int = 100, interior: int = 100) -> Problem:
    """-u_xx = a on (0, 1), u(0) = u(1) = 0, with sources a that are cubics (equ:possion_1d)."""
    x, axes = points.uniform(sensors), (points.uniform(100),)
    return Problem(
        name="poisson",
        equation="-u_xx = a(x),  u(0) = u(1) = 0",
        domain=Box(x=(0, 1)),
        inputs=Inputs(a=SensorInput(PowerSeries(terms=4), x)),
        blocks=_blocks(interior),
        refinement_blocks=_blocks(max(interior, 1000)),
        attack=PGD(LinfBall(0.05)),
        reference=LinearReference(lambda axes: response_matrix(x, *axes), axes),
        axes=axes,
        functions=100,
    )


def _blocks(interior: int) -> tuple[Block, ...]:
    return (
        Block("pde", points.hammersley(interior), lambda u_xx, a: -u_xx - a),
        # The paper's boundary term is the sum over the two ends: twice their mean.
        Block("bc", points.boundary(), lambda u: u, weight=2.0),
    )
