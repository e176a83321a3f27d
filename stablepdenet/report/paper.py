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


def relative_l2(problem: str, method: str, setting: str) -> float | None:
    """The paper's error of `method`, `clean` or under the common perturbation of a radius, or None where it prints
    none."""
    row = tables()["relative_l2"].get(problem, {}).get(setting)
    return row[tables()["methods"].index(method)] if row else None
