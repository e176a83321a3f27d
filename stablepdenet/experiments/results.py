"""Results of a campaign: one file for each recipe, problem and seed.

RESULTS/paper/heat/seed-0.json          rows of the audit, settings, training curves, versions
RESULTS/paper/heat/seed-0.safetensors   what the figures show: one test input, its solutions and predictions
RESULTS/models/paper/heat-stable.safetensors   seed 0's trained operators (see `zoo`)
RESULTS/runs/                           trainings
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy import ndarray
from safetensors import SafetensorError
from safetensors.numpy import load, save

from stablepdenet.auditing import Audit, Measurer, Row
from stablepdenet.auditing.measure import reference_of
from stablepdenet.errors import CheckpointError
from stablepdenet.files import storage, write_json, write_synced
from stablepdenet.operators import AbstractOperator
from stablepdenet.problems import Problem

FORMAT = "stablepdenet-result-1"
# Of a row; what else it says is the same in the whole file.
COLUMNS = ("method", "setting", "attack", "metric", "value")
StoredFields = dict[str, ndarray]


@dataclass(frozen=True)
class Result:
    """What one seed of one problem gave.

    `settings` holds each method's whole configuration, `curves` the columns of its training log (None where nothing was
    measured), `seconds` the training time, a shared warm-up counted for each.
    """

    recipe: str
    problem: str
    seed: int
    rows: list[Row]
    settings: dict[str, dict[str, Any]]
    curves: dict[str, dict[str, list[float | None]]]
    seconds: dict[str, float]
    versions: dict[str, str]
    notes: list[str]


def path_of(folder: Path, recipe: str, problem: str, seed: int) -> Path:
    """Where a result is kept."""
    return folder / recipe / problem / f"seed-{seed}.json"


def save_result(folder: Path, result: Result, fields: StoredFields | None = None) -> None:
    """Writes the fields first: where the rows are, all is there."""
    path = path_of(folder, result.recipe, result.problem, result.seed)
    with storage(folder):
        path.parent.mkdir(parents=True, exist_ok=True)
        if fields:
            write_synced(path.with_suffix(".safetensors"), save(fields))
        rows = [[row[name] for name in COLUMNS] for row in result.rows]
        write_json(path, {"format": FORMAT, **dataclasses.asdict(result), "rows": rows}, indent=None)


def load_results(folder: Path) -> list[Result]:
    """All results below `folder`, by recipe, problem and seed."""
    results = [load_result(path) for path in folder.glob("*/*/seed-*.json")]
    if not results:
        raise CheckpointError(f"'{folder}' holds no results: give the folder that `stablepdenet reproduce` wrote.")
    return sorted(results, key=lambda result: (result.recipe, result.problem, result.seed))


def load_fields(folder: Path, result: Result) -> StoredFields | None:
    """What the figures of a result show, if it was kept.

    `axis.0`, `axis.1` are the grid's coordinates; `input.SETTING` (at axis.0), `reference.SETTING` and
    `METHOD.SETTING` (on the grid) the case of that name: `clean`, `0.05`, `0.10`, and the unseen inputs' names.
    """
    path = path_of(folder, result.recipe, result.problem, result.seed).with_suffix(".safetensors")
    if not path.exists():
        return None
    try:
        return load(path.read_bytes())
    except (OSError, SafetensorError, KeyError):
        raise CheckpointError(
            f"'{path}' cannot be read: delete it and the .json beside it, and run `stablepdenet reproduce` again."
        ) from None


def fields_of(operators: Mapping[str, AbstractOperator], problem: Problem, found: Audit) -> StoredFields:
    """What the figures show of an audit of the part `errors`: the first test input, clean and under the common
    perturbation, and the unseen ones, with their solutions. The names are those that `load_fields` tells."""
    measurer, shape = Measurer(problem), tuple(map(len, problem.axes))
    inputs = {case.setting: case.inputs[:1] for case in found.cases}
    bases = [case.base for case in found.cases if case.base is not None]
    inputs |= {"clean": bases[0][:1]} | {name: np.asarray(a, np.float32) for name, a in problem.unseen.items()}
    fields = {f"axis.{i}": axis for i, axis in enumerate(problem.axes)}
    for setting, a in inputs.items():
        fields[f"input.{setting}"] = a[0] @ problem.inputs["a"].matrix(problem.axes[0]).T
        fields[f"reference.{setting}"] = reference_of(problem, a)[0].reshape(shape)
        for name, operator in operators.items():
            fields[f"{name}.{setting}"] = measurer.solve(operator, a)[0].reshape(shape)
    return {name: np.ascontiguousarray(values, np.float32) for name, values in fields.items()}


def load_result(path: Path) -> Result:
    """One file; it must be what its place says it is."""
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
        if stored.pop("format") != FORMAT:
            raise ValueError
        whole = {name: stored[name] for name in ("problem", "recipe", "seed")}
        rows = [{**whole, **dict(zip(COLUMNS, row, strict=True))} for row in stored.pop("rows")]
        result = Result(**stored, rows=rows)
        if path.parts[-3:] != path_of(Path(), result.recipe, result.problem, result.seed).parts[-3:]:
            raise ValueError
        if not all(isinstance(getattr(result, name), dict) for name in ("settings", "curves", "seconds", "versions")):
            raise TypeError
        return result
    except (OSError, AttributeError, KeyError, TypeError, ValueError, RecursionError):
        raise CheckpointError(
            f"'{path}' is not a result of this version, or lies in another's place: delete it and run `stablepdenet "
            "reproduce` again."
        ) from None
