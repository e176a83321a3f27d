"""Commands that measure operators: evaluate, audit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stablepdenet.cli.base import PROBLEM, Json, Settings, app
from stablepdenet.errors import ConfigError, shown

if TYPE_CHECKING:
    from stablepdenet.auditing import Audit
    from stablepdenet.problems import Problem


# Digits of a number of inputs.
LONGEST = 10


Parts = Annotated[
    str,
    typer.Option(
        help="Comma-separated: errors, lipschitz, attacks, certificates, transfer, curves, unseen, front, theory, "
        "estimates; all, which is all but estimates."
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
    problem: Annotated[str, typer.Option(help=PROBLEM)],
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
    from stablepdenet.experiments.runs import posed

    options = _options(parts, tests, eps)
    setup = posed(problem, parse_settings(settings or []))
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
