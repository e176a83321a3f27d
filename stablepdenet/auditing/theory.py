"""The paper's two theorems beside what was measured: estimates of their constants, not certificates."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache, partial

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from stablepdenet.auditing.constants import Outcome, TrialSpace, linear_bound, trial_space, tube_estimate
from stablepdenet.auditing.inputs import setting_of
from stablepdenet.auditing.measure import Measured
from stablepdenet.auditing.session import Session, Task

# Inputs whose solutions are held at once for the nonlinear estimate.
INPUTS = 100


def theory(session: Session) -> Iterator[Task]:
    """Theorem the:linear, or the local nonlinear one, along the common perturbations."""
    space = cache(lambda: trial_space(session.problem))
    if len(session.problem.solution) > 1:
        session.note("The theorems' constants are estimated for one component only: they are left out.")
    elif session.movable:
        for eps in session.eps:
            yield f"theory {setting_of(eps)}", partial(_bounds, session, space, eps)


def _bounds(session: Session, space: Callable[[], TrialSpace], eps: float) -> None:
    case = session.common(eps)
    if case is None:
        return
    session.note("The theorems' constants are estimates on a spline space and the tested inputs, no certificate.")
    for name, measured in session.measure(case).items():
        if measured.residual is not None:
            values = _linear(space(), measured) if space().linear else _nonlinear(session, space(), name, eps, measured)
            session.add(name, case.attack, case.setting, values)


def _linear(space: TrialSpace, measured: Measured) -> dict[str, float]:
    """C_E <= ||A^-1|| gamma_r (eq:linear-error-bound); `bound_holds` is the share of inputs for which it does."""
    error, residual = _gain(measured, measured.mismatch), _gain(measured, measured.residual)
    found = linear_bound(space, gamma_r=float(residual.max()))
    return {
        "inverse_norm": found.inverse_norm,
        "gamma_r": float(residual.max()),
        "C_E": float(error.max()),
        "bound": found.gamma_E,
        "bound_holds": float(np.mean(error <= found.inverse_norm * residual)),
    }


def _nonlinear(session: Session, space: TrialSpace, name: str, eps: float, measured: Measured) -> dict[str, float]:
    """beta - L_u rho_E > 0 (eq:nonlinear_tube_condition), and the bound gamma_E if it holds."""
    case, operator = session.common(eps), session.operators[name]
    assert case is not None and case.base is not None
    clean, perturbed = (
        Outcome(
            a[:INPUTS], session.problem.require_reference()(a[:INPUTS]), session.measurer.solve(operator, a[:INPUTS])
        )
        for a in (case.base, case.inputs)
    )
    gamma_r = float(_gain(measured, measured.residual).max())
    found = tube_estimate(space, clean, perturbed, gamma_r=gamma_r, C_S=float(_gain(measured, measured.true).max()))
    holds = found.margin > 0
    if not holds:
        session.note(
            f"{name}, {case.setting}: the tube condition beta - L_u rho_E > 0 does not hold (beta {found.beta:.3g}, "
            f"L_u {found.L_u:.3g}, rho_E {found.rho_E:.3g}), so the nonlinear theorem says nothing here."
        )
    constants = {name: getattr(found, name) for name in ("beta", "L_u", "L_a", "rho_E", "margin")}
    bound = {"bound": found.gamma_E} if holds else {}
    error = float(_gain(measured, measured.mismatch).max())
    return {**constants, "gamma_r": gamma_r, "C_E": error, "tube_holds": float(holds), **bound}


def _gain(measured: Measured, squares: Float[ndarray, " batch"] | None) -> Float[ndarray, " batch"]:
    assert squares is not None and measured.perturbation is not None
    return np.sqrt(squares / measured.perturbation)
