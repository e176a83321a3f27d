"""Metrics from squares: pooled over the test set, as the paper's numbers are, and for each input."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from stablepdenet.auditing.measure import Measured, Squares


def metrics(m: Measured) -> dict[str, float]:
    """All metrics of one operator on one case. `name` is pooled; `name_mean`, `name_median`, `name_p95`, `name_p99` and
    `name_max` summarise the inputs' own values.

    relative_l2   sqrt(sum ||G - S||^2 / sum ||S||^2)
    kappa_S       ||S(a + delta) - S(a)|| / ||delta||: the response that physics asks for
    kappa_G       ||G(a + delta) - G(a)|| / ||delta||: the learned response
    kappa_E       ||[G(a + delta) - G(a)] - [S(a + delta) - S(a)]|| / ||delta||: how far they are apart
    kappa_r       [sum_q w_q ||r_q(a + delta) - r_q(a)||^2]^(1/2) / ||delta||: the residuals' response
    angle         between the learned and the true response, in degrees: equal gains alone do not show consistency

    Where the solution has several components, these are of all together, and `name.u` is of the component u.
    """
    result = dict(_statistics("relative_l2", m.error, m.solution))
    if m.perturbation is not None:
        gains = {"kappa_S": m.true, "kappa_G": m.learned, "kappa_E": m.mismatch, "kappa_r": m.residual}
        for name, squares in gains.items():
            if squares is not None:
                result.update(_statistics(name, squares, m.perturbation))
        result.update(_angles(m))
    for name, own in m.components.items():
        result.update({f"{metric}.{name}": value for metric, value in metrics(own).items()})
    return result


def summary(name: str, values: Float[ndarray, " batch"]) -> dict[str, float]:
    """The mean, median, 95th and 99th percentile and the maximum of the inputs' own values."""
    return {
        f"{name}_mean": float(np.mean(values)),
        f"{name}_median": float(np.median(values)),
        f"{name}_p95": float(np.percentile(values, 95)),
        f"{name}_p99": float(np.percentile(values, 99)),
        f"{name}_max": float(np.max(values)),
    }


def relative_l2(prediction: Float[ndarray, "batch n"], reference: Float[ndarray, "batch n"]) -> float:
    """sqrt(sum |u - S|^2 / sum |S|^2), pooled over the test set as the paper's numbers are."""
    difference = np.asarray(prediction, np.float64) - reference
    return float(np.sqrt(np.sum(difference**2) / np.sum(reference**2)))


def _statistics(name: str, above: Squares, below: Squares) -> Iterator[tuple[str, float]]:
    with np.errstate(divide="ignore", invalid="ignore"):
        yield name, float(np.sqrt(np.sum(above) / np.sum(below)))
        yield from summary(name, np.sqrt(above / below)).items()


def _angles(m: Measured) -> Iterator[tuple[str, float]]:
    assert m.inner is not None and m.learned is not None and m.true is not None
    pooled = (np.sum(squares, keepdims=True) for squares in (m.inner, m.learned, m.true))
    yield "angle", float(_degrees(*pooled)[0])
    yield from summary("angle", _degrees(m.inner, m.learned, m.true)).items()


def _degrees(inner: Squares, learned: Squares, true: Squares) -> Float[ndarray, " batch"]:
    """The angle between two responses; an operator that does not respond at all is at a right angle to everything."""
    lengths = np.sqrt(learned * true)
    cosine = np.where(lengths > 0, inner / np.where(lengths > 0, lengths, 1.0), 0.0)
    return np.degrees(np.arccos(np.clip(cosine, -1.0, 1.0)))
