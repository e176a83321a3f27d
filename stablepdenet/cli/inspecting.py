"""Commands that look: list, doctor."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import typer

from stablepdenet.cli.base import Json, app

if TYPE_CHECKING:
    from stablepdenet.problems import Problem


@app.command("list")
def list_problems(as_json: Json = False) -> None:
    """Show the problems: equation, input, blocks, attack, sizes."""
    from stablepdenet.problems import PROBLEMS, complete_options

    rows = [
        {**_summary(make()), "problem": name, "options": complete_options(name, {})} for name, make in PROBLEMS.items()
    ]
    if as_json:
        return typer.echo(json.dumps(rows, indent=1))
    for row in rows:
        blocks = ", ".join(f"{b['name']} {b['points']} (weight {b['weight']:.3g})" for b in row["blocks"])
        typer.echo(f"{row['problem']}\n  {row['equation']}")
        typer.echo("  options " + ", ".join(f"{key} = {value:g}" for key, value in row["options"].items()))
        typer.echo(f"  input   {row['input']}\n  blocks  {blocks}\n  attack  {row['attack']}")
        typer.echo(
            f"  sizes   {row['functions']} functions, batch {row['batch']}, {row['tests']} tests on {row['grid']}"
        )


@app.command()
def doctor(as_json: Json = False) -> None:
    """Check the installation: versions, cores, speed, precision."""
    from stablepdenet.doctor import examine

    report = examine()
    if as_json:
        typer.echo(json.dumps(report, indent=1))
    else:
        for name, value in report.items():
            typer.echo(f"{name:24} {value or 'none found'}")
    if report["problems"]:
        raise typer.Exit(1)


def _summary(problem: Problem) -> dict[str, Any]:
    return {
        "problem": problem.name,
        "equation": problem.equation,
        "input": problem.input.describe(),
        "blocks": [{"name": b.name, "points": len(b.points), "weight": b.weight} for b in problem.blocks],
        "attack": problem.attack.describe(),
        "functions": problem.functions,
        "batch": problem.batch,
        "tests": problem.tests,
        "grid": f"{' x '.join(str(len(axis)) for axis in problem.axes)} ({', '.join(problem.coordinates)})",
    }
