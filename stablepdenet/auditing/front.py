"""How far a perturbation moves the front, learned against exact, and how that grows as the viscosity falls."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from stablepdenet.auditing.front_positions import displacement, front_positions, shock_errors
from stablepdenet.auditing.inputs import Case, on_axes, setting_of
from stablepdenet.auditing.measure import Measurer
from stablepdenet.auditing.metrics import summary
from stablepdenet.auditing.session import EXACT, Session, Task
from stablepdenet.functions import points
from stablepdenet.problems import AbstractViscousReference

POINTS = 401
# Shares of the problem's viscosity at which the exact front is followed as well.
VISCOSITIES = (0.5, 0.2, 0.1)


def front(session: Session) -> Iterator[Task]:
    """The front at the last time, under the common perturbation, for problems that have one."""
    if session.problem.fronts:
        for eps in session.eps:
            yield f"front {setting_of(eps)}", partial(_front, session, eps)
            for share in VISCOSITIES:
                yield f"front {setting_of(eps)} at {share:g} of the viscosity", partial(_sweep, session, eps, share)


def _front(session: Session, eps: float) -> None:
    """E_shock = |Delta x_s learned - Delta x_s exact|, Delta x_s = x_s(a + delta) - x_s(a), x_s = argmax |u_x|."""
    case = session.common(eps)
    axes = _axes(session)
    problem = on_axes(session.problem, axes)
    if problem is None:
        return session.note("The reference knows one grid only: the front is left out.")
    if case is None:
        return None
    measurer = Measurer(problem)
    exact = _moved(problem.require_reference(), case, axes[0])
    for name in session.movable:
        learned = _moved(partial(measurer.solve, session.operators[name]), case, axes[0])
        session.add(
            name,
            case.attack,
            case.setting,
            summary("front_exact", np.abs(exact))
            | summary("front_learned", np.abs(learned))
            | summary("front_error", shock_errors(learned, exact)),
        )


def _sweep(session: Session, eps: float, share: float) -> None:
    """The exact displacement of the same perturbed inputs at a lower viscosity."""
    case, reference = session.common(eps), session.problem.reference
    if case is None or not isinstance(reference, AbstractViscousReference):
        return
    axes = _axes(session)
    viscosity = share * reference.viscosity
    exact = _moved(reference.at(viscosity, axes), case, axes[0])
    setting = f"{case.setting} viscosity={viscosity:g}"
    session.add(EXACT, case.attack, setting, summary("front_exact", np.abs(exact)))


def _axes(session: Session) -> tuple[Float[ndarray, " x"], Float[ndarray, " t"]]:
    """Enough points in x for a slope, and the last time."""
    x, t = session.problem.axes
    return points.uniform(POINTS, (float(x[0]), float(x[-1]))), t[-1:]


def _moved(
    solve: Callable[[Float[ndarray, "batch m"]], Float[ndarray, "batch n"]], case: Case, x: Float[ndarray, " n"]
) -> Float[ndarray, " batch"]:
    assert case.base is not None
    return displacement(front_positions(solve(case.base), x), front_positions(solve(case.inputs), x))
