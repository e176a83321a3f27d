"""Commands that look: list, doctor, replay."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import typer

from stablepdenet.cli.base import Folder, Json, app

if TYPE_CHECKING:
    from stablepdenet.problems import Problem


@app.command("list")
def list_problems(as_json: Json = False) -> None:
    """Show the problems: equation, input, blocks, attack, sizes."""
    from stablepdenet.experiments.problems import PROBLEMS, complete_options

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
    from stablepdenet.system.doctor import examine

    report = examine()
    if as_json:
        typer.echo(json.dumps(report, indent=1))
    else:
        for name, value in report.items():
            typer.echo(f"{name:24} {value or 'none found'}")
    if report["problems"]:
        raise typer.Exit(1)


@app.command()
def replay(folder: Folder, as_json: Json = False) -> None:
    """Take the step that stopped a training once more, in float32 and in float64, and name what is not finite."""
    from stablepdenet.experiments.runs import problem_of
    from stablepdenet.experiments.training import Run, make_program, state_shapes
    from stablepdenet.training.failure import culprit
    from stablepdenet.training.failure import replay as take_again

    run = Run.open(folder)
    problem = problem_of(run.config)
    step, single, double = take_again(make_program(problem, run.config), run, state_shapes(problem, run.config))
    rows = [
        {"part": one.part, "float32": [one.value, one.gradient], "float64": [two.value, two.gradient]}
        for one, two in zip(single, double, strict=True)
    ]
    verdict = {"float32": culprit(single), "float64": culprit(double) if not all(f.finite for f in double) else None}
    if as_json:
        # JSON has no NaN: what is not finite is told as text.
        plain = [{k: [str(x) for x in v] if isinstance(v, list) else v for k, v in row.items()} for row in rows]
        return typer.echo(json.dumps({"step": step, "parts": plain, "culprit": verdict}, indent=1))
    typer.echo(f"Step {step}: value and gradient's norm of each part (of the optimiser, its step without a gradient)")
    for row in rows:
        cells = "".join(f"{x:12.4g}" for name in ("float32", "float64") for x in row[name])
        typer.echo(f"  {row['part']:12}{cells}")
    again = f"{verdict['float64']} is not finite in float64 either" if verdict["float64"] else "float64 stays finite"
    typer.echo(f"{verdict['float32']} stopped it in float32; {again}.")


def _summary(problem: Problem) -> dict[str, Any]:
    return {
        "problem": problem.name,
        "equation": problem.equation,
        "input": problem.inputs.describe(),
        "blocks": [{"name": b.name, "points": len(b.points), "weight": b.weight} for b in problem.blocks],
        "attack": problem.require_attack().describe(),
        "functions": problem.functions,
        "batch": problem.batch,
        "tests": problem.tests,
        "grid": f"{' x '.join(str(len(axis)) for axis in problem.axes)} ({', '.join(problem.coordinates)})",
    }
