"""An audit as files, and back: rows as JSON and CSV, perturbed inputs so that anybody can measure them again.

FOLDER/rows.json                   a list of objects
FOLDER/rows.csv                    the same
FOLDER/notes.json                  what was left out, and why
FOLDER/perturbations.safetensors   the clean inputs and, by attack, setting and method, the perturbed ones
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from numpy import ndarray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as pack

from stablepdenet.auditing.inputs import Case, clean_case
from stablepdenet.auditing.session import EXACT, Audit, Row, Session
from stablepdenet.errors import CheckpointError, ConfigError
from stablepdenet.files import read_json, storage, write_json, write_synced
from stablepdenet.problems import Problem

COLUMNS = ("problem", "recipe", "method", "seed", "setting", "attack", "metric", "value")
ROWS, NOTES, PERTURBATIONS = "rows.json", "notes.json", "perturbations.safetensors"
CLEAN = "clean"


def save_audit(audit: Audit, folder: Path | str) -> None:
    """Writes the four files, the rows last: where they are, all is there. An older audit in the folder is replaced."""
    folder, table = Path(folder), io.StringIO()
    writer = csv.DictWriter(table, COLUMNS)
    writer.writeheader()
    writer.writerows(audit.rows)
    arrays = {case.name: np.ascontiguousarray(case.inputs) for case in audit.cases}
    bases = [case.base for case in audit.cases if case.base is not None]
    if bases:
        arrays[CLEAN] = np.ascontiguousarray(bases[0])
    cases = [{"attack": c.attack, "setting": c.setting, "methods": c.methods, "name": c.name} for c in audit.cases]
    with storage(folder):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / ROWS).unlink(missing_ok=True)
        write_synced(folder / PERTURBATIONS, pack(arrays, metadata={"cases": json.dumps(cases)}))
        write_synced(folder / "rows.csv", table.getvalue().encode())
        write_json(folder / NOTES, audit.notes)
        write_json(folder / ROWS, audit.rows)


def load_rows(folder: Path | str) -> list[Row]:
    """The rows of a stored audit."""
    folder = Path(folder)
    rows = read_json(folder / ROWS)
    if not isinstance(rows, list) or not all(isinstance(row, dict) and set(COLUMNS) == set(row) for row in rows):
        raise CheckpointError(
            f"'{folder / ROWS}' does not hold rows of an audit: give the folder that `evaluate` wrote."
        )
    return rows


def load_cases(folder: Path | str, size: int) -> list[Case]:
    """The perturbed inputs of a stored audit, each of `size` numbers."""
    path = Path(folder) / PERTURBATIONS
    try:
        with safe_open(str(path), framework="numpy") as file:
            described: Any = json.loads((file.metadata() or {})["cases"])
            arrays: dict[str, Float[ndarray, "batch m"]] = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        cases = [
            Case(
                str(d["attack"]),
                str(d["setting"]),
                arrays[d["name"]],
                arrays[d["name"]],
                arrays[CLEAN],
                (*d["methods"],),
            )
            for d in described
        ]
    except (OSError, SafetensorError, ValueError, KeyError, TypeError):
        raise CheckpointError(
            f"'{path}' does not hold perturbed inputs: give the folder that `evaluate` wrote."
        ) from None
    for case in cases:
        if case.inputs.shape[1:] != (size,):
            raise CheckpointError(
                f"'{path}' holds inputs of shape {case.inputs.shape}: this problem's have {size} numbers."
            )
    return cases


def replay_audit(folder: Path | str, operators: Mapping[str, Any], problem: Problem) -> list[Row]:
    """Measures the stored perturbed inputs again: the same operators give the same rows."""
    stored, cases = load_rows(folder), load_cases(folder, problem.inputs.size)
    if not stored or not cases:
        raise ConfigError(f"'{folder}' holds no perturbed inputs to measure again.")
    if stored[0]["problem"] != problem.name:
        raise ConfigError(f"'{folder}' is an audit on {stored[0]['problem']}, not on {problem.name}.")
    measured = {case.attack for case in cases}
    missing = {str(row["method"]) for row in stored if row["attack"] in measured} - set(operators) - {EXACT}
    if missing:
        raise ConfigError(f"'{folder}' was measured on {', '.join(sorted(missing))} too: give that operator as well.")
    identity: dict[str, str | int] = {"recipe": str(stored[0]["recipe"]), "seed": int(stored[0]["seed"])}
    session = Session(operators, problem, tests=1, eps=(), identity=identity)
    bases = [case.base for case in cases if case.base is not None]
    for case in [clean_case(jnp.asarray(bases[0])), *cases]:
        session.measure(case)
    return session.audit.rows
