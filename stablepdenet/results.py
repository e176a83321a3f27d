"""Results of a campaign: one file for each recipe, problem and seed.

RESULTS/paper/heat/seed-0.json          rows of the audit, settings, training curves, versions
RESULTS/paper/heat/seed-0.safetensors   what the figures show: one test input, its solutions and predictions
RESULTS/models/paper/heat-stable.safetensors   seed 0's trained operators (see `zoo`)
RESULTS/runs/                           trainings
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from numpy import ndarray
from safetensors import SafetensorError
from safetensors.numpy import load, save

from stablepdenet.errors import CheckpointError
from stablepdenet.evaluation import Row
from stablepdenet.training.checkpoint import write_synced
from stablepdenet.training.run import read_json, storage, write_json

FORMAT = "stablepdenet-result-1"
Fields = dict[str, ndarray]


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


def save_result(folder: Path, result: Result, fields: Fields | None = None) -> None:
    """Writes the fields first: where the rows are, all is there."""
    path = path_of(folder, result.recipe, result.problem, result.seed)
    with storage(folder):
        path.parent.mkdir(parents=True, exist_ok=True)
        if fields:
            write_synced(path.with_suffix(".safetensors"), save(fields))
        write_json(path, {"format": FORMAT, **dataclasses.asdict(result)})


def load_results(folder: Path) -> list[Result]:
    """All results below `folder`, by recipe, problem and seed."""
    results = [_load(path) for path in folder.glob("*/*/seed-*.json")]
    if not results:
        raise CheckpointError(f"'{folder}' holds no results: give the folder that `stablepdenet reproduce` wrote.")
    return sorted(results, key=lambda result: (result.recipe, result.problem, result.seed))


def load_fields(folder: Path, result: Result) -> Fields | None:
    """What the figures of a result show, if it was kept.

    `axis.0`, `axis.1` are the grid's coordinates; `input.SETTING` (at axis.0), `reference.SETTING` and
    `METHOD.SETTING` (on the grid) the case of that name: `clean`, `0.05`, `0.10`, and the unseen inputs' names.
    """
    path = path_of(folder, result.recipe, result.problem, result.seed).with_suffix(".safetensors")
    if not path.exists():
        return None
    try:
        return load(path.read_bytes())
    except (OSError, SafetensorError):
        raise CheckpointError(f"'{path}' cannot be read: delete it and run `stablepdenet reproduce` again.") from None


def _load(path: Path) -> Result:
    stored = read_json(path)
    try:
        if stored.pop("format") != FORMAT:
            raise ValueError
        return Result(**stored)
    except (AttributeError, KeyError, TypeError, ValueError):
        raise CheckpointError(
            f"'{path}' is not a result of this version: delete it and run `stablepdenet reproduce` again."
        ) from None
