"""Are operators right about how wrong they are? Their estimates beside their true errors."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from numpy import ndarray
from scipy.stats import spearmanr

from stablepdenet.auditing.inputs import setting_of
from stablepdenet.auditing.session import Session, Task
from stablepdenet.spectral import JudgedOperator, SpectralOperator

# Inputs that are answered at a time.
TOGETHER = 50


def estimates(session: Session) -> Iterator[Task]:
    """Of operators that estimate their errors: on test inputs as they are, under the common perturbation, and twice as
    large."""
    for name, operator in session.operators.items():
        if isinstance(operator, SpectralOperator | JudgedOperator):
            yield f"estimates {name}", partial(_measure, session, name, "none", "clean", session.clean)
            for eps in session.eps:
                yield f"estimates {name} {setting_of(eps)}", partial(_perturbed, session, name, eps)
            twice = np.asarray(session.problem.admissible.snap(2.0 * jnp.asarray(session.clean)))
            yield f"estimates {name} twice", partial(_measure, session, name, "none", "twice", twice)


def _perturbed(session: Session, name: str, eps: float) -> None:
    case = session.common(eps)
    if case is not None:
        _measure(session, name, case.attack, case.setting, case.inputs)


def _measure(session: Session, name: str, attack: str, setting: str, inputs: Float[ndarray, "batch m"]) -> None:
    problem, operator = session.problem, session.operators[name]
    answer = eqx.filter_jit(lambda operator, a: operator.answer(a, problem.grid))
    found = [
        answer(operator, jnp.asarray(inputs[start : start + TOGETHER])) for start in range(0, len(inputs), TOGETHER)
    ]
    u, estimate = (np.concatenate([np.asarray(each[i], np.float64) for each in found]) for i in (0, 2))
    exact = np.asarray(problem.require_reference()(np.asarray(inputs, np.float64)))
    rows = len(u)
    true = np.linalg.norm((u - exact).reshape(rows, -1), axis=1) / np.linalg.norm(exact.reshape(rows, -1), axis=1)
    session.add(name, attack, setting, effectivity(estimate, true))


def effectivity(estimate: Float[ndarray, " batch"], true: Float[ndarray, " batch"]) -> dict[str, float]:
    """Estimates over true errors (percentiles), the share of inputs whose error is below its estimate, and the rank
    correlation of the two. Answers that are said not to be known at all count as covered, and as the worst in rank."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = estimate / true
    known = ratio[np.isfinite(estimate)]
    result = {"coverage": float(np.mean(true <= estimate)), "estimate_unknown": float(np.mean(~np.isfinite(estimate)))}
    if len(known):
        low, middle, high = np.percentile(known, [5, 50, 95])
        result |= {"effectivity_p05": low, "effectivity_median": middle, "effectivity_p95": high}
    if len(true) > 2:
        ranked = np.where(np.isfinite(estimate), estimate, np.finfo(np.float64).max)
        result["estimate_rank"] = float(spearmanr(ranked, true).statistic)
    return result
