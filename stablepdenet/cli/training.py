"""Commands that train: train, resume, demo."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stablepdenet.cli.base import Folder, Json, Settings, app
from stablepdenet.errors import ConfigError, Interrupted
from stablepdenet.progress import displayed, silent
from stablepdenet.system.cores import keep_to, usable
from stablepdenet.system.signals import stop_requests

if TYPE_CHECKING:
    from stablepdenet.experiments.config import Config
    from stablepdenet.operators import AbstractOperator
    from stablepdenet.problems import Problem


@app.command()
def train(
    problem: Annotated[str, typer.Argument(help="A name from `stablepdenet list`.")],
    method: Annotated[
        str | None, typer.Option(help="pi, adv, stable (default), or all: they share the warm-up.")
    ] = None,
    recipe: Annotated[
        str,
        typer.Option(
            help="paper; plain: the paper's bare trunk; or robust: solved if linear, else trained and refined."
        ),
    ] = "paper",
    seed: Annotated[int | None, typer.Option(help="Decides every random number of the run. Default: 0.")] = None,
    out: Annotated[Path | None, typer.Option(help="Run folder. Default: runs/PROBLEM-METHOD-SEED.")] = None,
    config: Annotated[Path | None, typer.Option(help="A TOML file with the sections of `config.json`.")] = None,
    settings: Settings = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue the run in --out if there is one.")] = False,
    deterministic: Annotated[
        bool, typer.Option("--deterministic", help="On one core: two processes give the same bytes.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Train a method on a problem, from physics alone."""
    if method not in (None, "pi", "adv", "stable", "all"):
        raise ConfigError(f"--method {method!r} must be one of pi, adv, stable, all.")
    if method and recipe == "robust":
        raise ConfigError(f"--method {method} is for the recipes paper and plain: robust has a method of its own.")
    together = method == "all"
    # From the start: jax is not imported yet, and nothing is compiled.
    with stop_requests() as requested:
        from stablepdenet.experiments.recipes import explain
        from stablepdenet.experiments.runs import finish, holds_run, resolve

        setup, resolved = resolve(problem, _changes(config, settings, seed, deterministic, method), recipe=recipe)
        folder = out or Path("runs") / f"{problem}-{'all' if together else resolved.display_name}-{resolved.seed}"
        if holds_run(folder) and not resume:
            raise ConfigError(f"'{folder}' already holds a run: pass --resume to continue it, or choose another --out.")
        if resolved.recipe == "robust":
            typer.echo(explain(resolved), err=True)
        with displayed(None, problem) as progress:
            operators = finish(setup, resolved, folder, together=together, progress=progress)
        _stop_if(requested(), folder)
    _summarise(setup, resolved, operators, folder, as_json)


def _changes(
    config: Path | None, settings: list[str] | None, seed: int | None, deterministic: bool, method: str | None
) -> dict[str, Any]:
    """What the options say, by dotted keys; a deterministic run is kept to one core, before JAX counts them."""
    from stablepdenet.experiments.config import parse_settings, read_toml

    changes = {**(read_toml(config) if config else {}), **parse_settings(settings or [])}
    changes |= {"seed": seed} if seed is not None else {}
    changes |= {"training.deterministic": True} if deterministic else {}
    if changes.get("training.deterministic") is True:
        keep_to(usable()[0])
    return changes | ({"method.name": method} if method and method != "all" else {})


def _stop_if(signal_number: int | None, folder: Path) -> None:
    """For what came after the last step: the summary is for whoever resumes."""
    if signal_number:
        raise Interrupted(signal_number, folder)


@app.command()
def resume(folder: Folder, as_json: Json = False) -> None:
    """Continue a stopped training, bit for bit."""
    if _is_deterministic(folder):
        keep_to(usable()[0])
    with stop_requests() as requested:
        from stablepdenet.experiments.runs import resume as continue_run

        with displayed(None, str(folder)) as progress:
            problem, config, operators = continue_run(folder, progress=progress)
        _stop_if(requested(), folder)
    _summarise(problem, config, operators, folder, as_json)


def _is_deterministic(folder: Path) -> bool:
    """Whether a run keeps to one core: asked before JAX is imported, so whatever is wrong with it is told later."""
    for name in ("config.json", "suite.json"):
        with suppress(OSError, ValueError, RecursionError, LookupError, TypeError):
            return json.loads((folder / name).read_text(encoding="utf-8"))["training"]["deterministic"] is True
    return False


@app.command()
def demo(
    problem: Annotated[str, typer.Argument(help="One of the zoo's.")] = "heat",
    out: Annotated[Path, typer.Option(help="Folder for errors.json and the picture.")] = Path("runs/demo"),
    as_json: Json = False,
) -> None:
    """Attack three trained operators from the zoo and the recipe robust, and compare with the paper: no training."""
    from stablepdenet.experiments import demo as demonstration
    from stablepdenet.experiments.report.tables import print_errors

    worst, common, picture = demonstration.demonstrate(problem, out)
    if as_json:
        return typer.echo(json.dumps(worst + common, indent=1))
    first = f"{problem}, relative L2 error, seed 0"
    print_errors(worst, f"{first}: own worst case, {demonstration.SEARCHED} inputs")
    print_errors(
        common,
        f"{first}: clean, and one common perturbation, found against PI-DeepONet (the paper's: five seeds)",
        beside_paper=True,
    )
    typer.echo(f"Figure: {picture}    Rows: {out / 'errors.json'}")


def _summarise(
    problem: Problem, config: Config, operators: dict[str, AbstractOperator], folder: Path, as_json: bool
) -> None:
    """The clean error of what was trained."""
    from stablepdenet.auditing import audit
    from stablepdenet.experiments.report.tables import print_errors
    from stablepdenet.refining import warn_unsettled

    for operator in operators.values():
        warn_unsettled(operator, problem)
    found = audit(
        operators,
        problem,
        parts=["errors"],
        tests=None,
        eps=[],
        recipe=config.recipe,
        seed=config.seed,
        progress=silent,
    )
    rows = [row for row in found.rows if row["metric"] == "relative_l2"]
    if as_json:
        return typer.echo(json.dumps({"folder": str(folder), "rows": rows}, indent=1))
    print_errors(rows, f"{problem.name}, relative L2 error on {problem.tests} test inputs")
    typer.echo(f"Run: {folder}")
