"""The Helmholtz equation with the sine coefficients of its source as input."""

from __future__ import annotations

import math

from stablepdenet.attacks import PGD, BandLimitedBall
from stablepdenet.errors import ConfigError
from stablepdenet.experiments.solvers.helmholtz import response_matrix
from stablepdenet.functions import Inputs, ModalInput, SineSeries, points
from stablepdenet.functions.domain import Box
from stablepdenet.problems.base import Block, Problem
from stablepdenet.problems.reference import LinearReference


def helmholtz(
    *, kappa: float = 3.5 * math.pi, modes: int = 10, interior: int = 1000, name: str = "helmholtz"
) -> Problem:
    """-u_xx - kappa^2 u = sum_n a_n sqrt(2) sin(n pi x) on (0, 1), u(0) = u(1) = 0 (eq:helmholtz)."""
    if math.isclose(kappa, round(kappa / math.pi) * math.pi, abs_tol=1e-9):
        raise ConfigError(f"problem.kappa = {kappa:g} is a resonance: choose one that is not a multiple of pi.")
    axes = (points.uniform(257),)
    inputs = ModalInput(SineSeries(modes=modes))
    # eq:helmholtz_nearresonant_bc_weight: the homogeneous solution that a boundary error excites grows like 1 /
    # sin(kappa).
    weight = 2.0 / max(math.sin(kappa) ** 2, 1e-8)
    return Problem(
        name=name,
        equation="-u_xx - kappa^2 u = sum_n a_n sqrt(2) sin(n pi x),  u(0) = u(1) = 0",
        domain=Box(x=(0, 1)),
        inputs=Inputs(a=inputs),
        blocks=(
            Block("pde", points.hammersley(interior), lambda u, u_xx, a: -u_xx - kappa**2 * u - a),
            Block("bc", points.boundary(), lambda u: u, weight=weight),
        ),
        attack=PGD(BandLimitedBall(0.01, inputs, band=modes)),
        reference=LinearReference(lambda axes: response_matrix(kappa, modes, *axes), axes),
        axes=axes,
        batch=50,
        embedding="waves",
    )
