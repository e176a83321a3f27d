"""Are operators right about how wrong they are? Their estimates beside their true errors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache, partial

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from numpy import ndarray
from scipy.stats import spearmanr

from stablepdenet.auditing.inputs import Case, clean_case, setting_of
from stablepdenet.auditing.measure import flattened, reference_of
from stablepdenet.auditing.session import Session, Task
from stablepdenet.auditing.unseen import unseen_cases
from stablepdenet.errors import ConfigError
from stablepdenet.robust import make_judge
from stablepdenet.spectral import TOLERANCE, JudgedOperator, SpectralOperator, error_bounds, is_judged, sharpened

# An error that matters: one that is much larger than its estimate is what estimates are for.
LARGE = 0.01

MakeJudge = Callable[[], SpectralOperator | None]


def estimates(session: Session) -> Iterator[Task]:
    """On test inputs as they are, perturbed, unlike what was drawn, and twice as large. An operator that does not
    estimate its errors is judged by a spectral operator, which is made once."""
    judge = cache(partial(_judge, session))
    twice = session.problem.admissible.snap(2.0 * jnp.asarray(session.clean))
    cases = [clean_case(jnp.asarray(session.clean)), *unseen_cases(session), clean_case(twice, "twice")]
    for name in session.operators:
        for case in cases:
            yield f"estimates {name} {case.setting}", partial(_measure, session, judge, name, case)
        for eps in session.eps:
            yield f"estimates {name} common {setting_of(eps)}", partial(_common, session, judge, name, eps)
            if name in session.differentiable:
                yield f"estimates {name} whitebox {setting_of(eps)}", partial(_worst, session, judge, name, eps)


def _judge(session: Session) -> SpectralOperator | None:
    """What judges operators that do not judge themselves."""
    try:
        judge = make_judge(session.problem)
    except ConfigError as error:
        session.note(f"Operators that do not estimate their errors cannot be judged: estimates are left out ({error}).")
        return None
    session.note(
        f"Estimates of operators that make none are those of a spectral judge, made for a relative error of "
        f"{TOLERANCE:g}."
    )
    return judge


def _common(session: Session, judge: MakeJudge, name: str, eps: float) -> None:
    case = session.common(eps)
    if case is not None:
        _measure(session, judge, name, case)


def _worst(session: Session, judge: MakeJudge, name: str, eps: float) -> None:
    inputs = session.nearly_worst(name, eps)
    _measure(session, judge, name, Case("whitebox", setting_of(eps), inputs, inputs))


def _measure(session: Session, judge: MakeJudge, name: str, case: Case) -> None:
    operator = session.operators[name]
    judged = operator if is_judged(operator) else judge()
    if judged is None:
        return
    judged = judged if judged is operator else JudgedOperator(operator, judged)
    inputs, grid = jnp.asarray(case.inputs), session.problem.grid
    found = sharpened(session.measurer.answer(judged, case.inputs), judged, inputs, grid)
    exact = flattened(reference_of(session.problem, case.truth))
    true = np.linalg.norm(flattened(np.asarray(found.u, np.float64)) - exact, axis=1) / np.linalg.norm(exact, axis=1)
    bound = error_bounds(judged.setting, found.u, case.inputs, grid)
    numbers = effectivity(np.asarray(found.estimate, np.float64), true) | bounded(bound, true)
    session.add(name, case.attack, case.setting, numbers)


def bounded(bound: Float[ndarray, " batch"], true: Float[ndarray, " batch"]) -> dict[str, float]:
    """Guaranteed bounds over true errors (median), the share of inputs whose error is above its bound, which must be
    zero, and the share without a bound; nothing where no input has one."""
    known = np.isfinite(bound)
    if not np.any(known):
        return {}
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = bound[known] / true[known]
    return {
        "bound_median": float(np.median(ratio)),
        "bound_violations": float(np.mean(true > bound)),
        "bound_unknown": float(np.mean(~known)),
    }


def effectivity(estimate: Float[ndarray, " batch"], true: Float[ndarray, " batch"]) -> dict[str, float]:
    """Estimates over true errors (percentiles), the share of inputs whose error is below its estimate, of large errors
    the share whose estimate is below half of them, and the rank correlation of the two. Answers that are said not to be
    known at all count as covered, and as the worst in rank."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = estimate / true
    known = ratio[np.isfinite(estimate)]
    result = {"coverage": float(np.mean(true <= estimate)), "estimate_unknown": float(np.mean(~np.isfinite(estimate)))}
    large = true > LARGE
    result["below_half"] = float(np.mean(estimate[large] < 0.5 * true[large])) if np.any(large) else 0.0
    if len(known):
        low, middle, high = np.percentile(known, [5, 50, 95])
        result |= {"effectivity_p05": low, "effectivity_median": middle, "effectivity_p95": high}
    if len(true) > 2:
        ranked = np.where(np.isfinite(estimate), estimate, np.finfo(np.float64).max)
        result["estimate_rank"] = float(spearmanr(ranked, true).statistic)
    return result
