"""The paper's printed numbers."""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import Any


@cache
def tables() -> dict[str, Any]:
    """Every number the paper prints, as in `data/paper_tables.json`."""
    return json.loads((files("stablepdenet") / "data" / "paper_tables.json").read_text(encoding="utf-8"))


def printed(problem: str, method: str, attack: str, setting: str, metric: str) -> float | None:
    """The paper's number for a row of an audit, or None where it prints none: errors and gains under the common
    perturbation, clean errors, Lipschitz constants."""
    if metric.startswith("lipschitz"):
        return _lipschitz(tables()["lipschitz"].get(problem), method, metric) if setting == "clean" else None
    if attack != ("none" if setting == "clean" else "common"):
        return None
    if metric == "relative_l2":
        return _of_method(tables()["relative_l2"].get(problem, {}).get(setting), method)
    gains = tables()["response_gains"].get(problem, {}).get(setting)
    columns = tables()["response_gains"]["_columns"]
    if gains is None or metric not in ("kappa_S", *columns):
        return None
    if metric == "kappa_S":
        return gains["kappa_S"]
    of_model = _of_method(gains["models"], method)
    return of_model[columns.index(metric)] if of_model else None


def _lipschitz(constants: dict[str, Any] | None, method: str, metric: str) -> float | None:
    if constants is None or metric not in ("lipschitz_mean", "lipschitz_exact_mean"):
        return None
    return constants["exact"] if metric == "lipschitz_exact_mean" else _of_method(constants["models"], method)


def _of_method(listed: list[Any] | None, method: str) -> Any:
    methods = tables()["methods"]
    return listed[methods.index(method)] if listed and method in methods else None
