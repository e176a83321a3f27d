"""Commands that use and measure operators: predict, evaluate, audit."""

from __future__ import annotations

import dataclasses
import io
import json
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer

from stablepdenet.cli.base import Folder, Json, Settings, app
from stablepdenet.errors import ConfigError, shown

if TYPE_CHECKING:
    from numpy import ndarray

    from stablepdenet.auditing import Audit
    from stablepdenet.problems import Problem


# Rows that a warning names, and digits of a number of inputs.
SHOWN, LONGEST = 10, 10


@app.command()
def predict(
    folder: Folder,
    inputs: Annotated[Path, typer.Option("--input", help=".npy or .csv, one input per row.")],
    output: Annotated[
        Path | None, typer.Option(help="Write .npy (inputs x grid) or .csv here instead of CSV to stdout.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Solve for given inputs with a trained operator, on the problem's grid."""
    import numpy as np

    from stablepdenet.auditing import Measurer
    from stablepdenet.experiments.range import beyond_training, inadmissible
    from stablepdenet.experiments.reading import read_inputs
    from stablepdenet.experiments.runs import load_operator
    from stablepdenet.experiments.training.run import Run
    from stablepdenet.files import storage, write_synced

    if output and output.suffix not in (".npy", ".csv"):
        raise ConfigError(f"--output '{output}' must end in .npy or .csv.")
    problem, operator = load_operator(folder)
    a = read_inputs(inputs, problem.inputs.size)
    u = Measurer(problem).solve(operator, a).astype(a.dtype)
    multiples = beyond_training(a, problem, Run.open(folder).config)
    outside = np.flatnonzero(np.max(list(multiples.values()), axis=0) > 1.0)
    if len(outside):
        most = ", ".join(f"{name} up to {np.max(of):.3g} times" for name, of in multiples.items() if np.max(of) > 1.0)
        warnings.warn(
            f"{_some(outside, a)} lie outside of what this model was trained on ({most} "
            "that of any training function): its answers to them are guesses.",
            stacklevel=1,
        )
    foreign = np.flatnonzero(inadmissible(a, problem))
    if len(foreign):
        warnings.warn(
            f"{_some(foreign, a)} are not admissible: '{problem.name}' is posed for inputs whose "
            f"{problem.admissible.condition}, and its answers to others mean nothing.",
            stacklevel=1,
        )

    def save_csv(target: TextIO) -> None:
        header = ",".join([*problem.coordinates, *(f"u_{i}" for i in range(len(u)))])
        np.savetxt(target, np.column_stack([problem.grid, u.T]), delimiter=",", header=header, comments="", fmt="%.8g")

    with storage(output or Path(), "--output"):
        if output and output.suffix == ".npy":
            buffer = io.BytesIO()
            np.save(buffer, u.reshape(len(u), *map(len, problem.axes)))
            write_synced(output, buffer.getvalue())
        elif output:
            table = io.StringIO()
            save_csv(table)
            write_synced(output, table.getvalue().encode())
    if as_json:
        coordinates = {name: problem.grid[:, i].tolist() for i, name in enumerate(problem.coordinates)}
        told = {
            "problem": problem.name,
            "coordinates": coordinates,
            "outside_rows": (outside + 1).tolist(),
            "inadmissible_rows": (foreign + 1).tolist(),
            "u": u.tolist(),
        }
        typer.echo(json.dumps(told))
    elif not output:
        save_csv(sys.stdout)


def _some(rows: ndarray, a: ndarray) -> str:
    """How many inputs there are in `rows`, and which."""
    named = ", ".join(str(row + 1) for row in rows[:SHOWN]) + (" and others" if len(rows) > SHOWN else "")
    return f"{len(rows)} of {len(a)} inputs (row {named})"


Parts = Annotated[
    str,
    typer.Option(
        help="Comma-separated: errors, lipschitz, attacks, certificates, transfer, curves, unseen, front, theory; all."
    ),
]
Tests = Annotated[str, typer.Option(help="How many test inputs, or all.")]
Radii = Annotated[str, typer.Option("--eps", help="Comma-separated radii of the attacks.")]
Out = Annotated[Path | None, typer.Option(help="Write rows, perturbed inputs and a figure to this folder.")]


@app.command()
def evaluate(
    runs: Annotated[list[Path], typer.Argument(help="Run folders of one problem and seed.")],
    parts: Parts = "all",
    tests: Tests = "200",
    eps: Radii = "0.05,0.10",
    out: Out = None,
    replay: Annotated[
        Path | None, typer.Option(help="Measure the perturbed inputs in this folder again and compare the rows.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Measure errors, gains, Lipschitz constants and worst cases of trained operators."""
    from stablepdenet.experiments.runs import load_operators

    options = _options(parts, tests, eps)
    problem, config, operators = load_operators(runs)
    if replay:
        return _replay(replay, operators, problem, as_json)
    return _audit(operators, problem, options | {"recipe": config.recipe, "seed": config.seed}, out, as_json)


@app.command()
def audit(
    operator: Annotated[str, typer.Argument(metavar="MODULE:NAME", help="Anything callable as (a, points) -> u.")],
    problem: Annotated[str, typer.Option(help="A name from `stablepdenet list`, or MODULE:NAME of your own Problem.")],
    settings: Settings = None,
    parts: Parts = "all",
    tests: Tests = "200",
    eps: Radii = "0.05,0.10",
    seed: Annotated[int, typer.Option(help="Decides every random number of the attacks.")] = 0,
    out: Out = None,
    as_json: Json = False,
) -> None:
    """Measure the stability of your own operator: a function, an equinox or a PyTorch module."""
    from stablepdenet.experiments.config import parse_settings
    from stablepdenet.experiments.reading import import_object
    from stablepdenet.experiments.runs import label, resolve
    from stablepdenet.problems import Problem

    options = _options(parts, tests, eps)
    changes = parse_settings(settings or [])
    if ":" in problem:
        setup = import_object(problem)
        if not isinstance(setup, Problem) or changes:
            raise ConfigError(f"--problem '{problem}' must name a stablepdenet.Problem, which takes no --set.")
    else:
        foreign = [key for key in changes if not key.startswith("problem.")]
        if foreign:
            raise ConfigError(f"--set {foreign[0]} does not matter to an audit: only problem.* does.")
        setup, config = resolve(problem, changes)
        setup = dataclasses.replace(setup, name=label(config))
    _audit({operator.partition(":")[2]: import_object(operator)}, setup, options | {"seed": seed}, out, as_json)


def _options(parts: str, tests: str, eps: str) -> dict[str, Any]:
    """The audit's arguments from their text; names of parts are checked where they are known."""
    chosen: dict[str, Any] = {} if parts == "all" else {"parts": [part.strip() for part in parts.split(",")]}
    if tests != "all" and not (tests.isdecimal() and len(tests) < LONGEST):
        raise ConfigError(f"--tests {shown(tests)} must be a whole number or all.")
    try:
        radii = [float(radius) for radius in eps.split(",") if radius.strip()]
    except ValueError:
        raise ConfigError(f"--eps {eps!r} must be numbers with commas between, e.g. 0.05,0.10.") from None
    return chosen | {"tests": None if tests == "all" else int(tests), "eps": radii}


def _audit(
    operators: dict[str, Any], problem: Problem, options: dict[str, Any], out: Path | None, as_json: bool
) -> None:
    from stablepdenet import auditing
    from stablepdenet.experiments.report.figures import curve_figure, save_figure
    from stablepdenet.files import storage

    if out:
        # Before the work, not after it.
        with storage(out):
            out.mkdir(parents=True, exist_ok=True)
    found: Audit = auditing.audit(operators, problem, **options)
    # What was stopped does not take the place of what is whole.
    if out and not (found.stopped and (out / "rows.json").exists()):
        auditing.save_audit(found, out)
        (out / "curves.png").unlink(missing_ok=True)
        figure = curve_figure(found.rows)
        if figure:
            save_figure(figure, out / "curves.png")
    if as_json:
        typer.echo(json.dumps({"rows": found.rows, "notes": found.notes}, indent=1))
    else:
        _print(found, problem, options, out)
    if found.stopped:
        raise typer.Exit(130)


def _print(found: Audit, problem: Problem, options: dict[str, Any], out: Path | None) -> None:
    from stablepdenet.auditing import setting_of
    from stablepdenet.experiments.report.tables import print_audit

    tests = min(options["tests"] or problem.tests, problem.tests)
    settings = [setting_of(radius) for radius in options["eps"]]
    print_audit(found.rows, f"{problem.name}, {tests} test inputs", settings)
    for note in found.notes:
        typer.echo(f"Note: {note}")
    if out:
        typer.echo(f"Rows and perturbed inputs: {out}")


def _replay(folder: Path, operators: dict[str, Any], problem: Problem, as_json: bool) -> None:
    from stablepdenet.auditing import load_rows, replay_audit

    stored = {_place(row): float(row["value"]) for row in load_rows(folder)}
    # Rows of an earlier version lack the metrics that came after it.
    rows = [row for row in replay_audit(folder, operators, problem) if _place(row) in stored]
    off = [abs(float(row["value"]) - stored[_place(row)]) for row in rows]
    if as_json:
        typer.echo(json.dumps(rows, indent=1))
    else:
        typer.echo(f"{len(rows)} of {len(stored)} rows measured again; largest difference {max(off, default=0.0):.3g}")
    # Another processor may round differently.
    if not rows or any(gap > 1e-5 * abs(float(row["value"])) for gap, row in zip(off, rows, strict=True)):
        raise typer.Exit(1)


def _place(row: Any) -> tuple[str, ...]:
    return tuple(str(value) for key, value in row.items() if key != "value")
