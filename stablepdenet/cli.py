"""The command line: parsing and printing only. Data goes to stdout, progress and errors to stderr.

Exit codes: 0 done; 2 wrong usage or configuration; 3 unusable input file; 4 foreign or damaged run or checkpoint; 5
folder not writable; 6 a training that diverged; 130 and 143 stopped by Ctrl-C or SIGTERM with a resumable run.
"""

from __future__ import annotations

import functools
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from stablepdenet import __version__
from stablepdenet.errors import ConfigError, StorageError, UserError
from stablepdenet.signals import stop_requests

if TYPE_CHECKING:
    from stablepdenet.problems import Problem
    from stablepdenet.training import Report, TrainState

# jax takes half a second to import: commands import what they need when they run, so that --help answers at once.
app = typer.Typer(
    help="Label-free neural PDE operators that stay right under noisy, unseen and hostile inputs.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Json = Annotated[bool, typer.Option("--json", help="Print JSON on stdout.")]
Settings = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="E.g. training.steps=20000. Repeatable.")
]
Folder = Annotated[Path, typer.Argument(help="A run folder written by train.")]


def _stoppable(command: Callable[..., None]) -> Callable[..., None]:
    """Listens for signals from the start, before jax is imported and anything is compiled."""

    @functools.wraps(command)
    def listening(*arguments: Any, **options: Any) -> None:
        with stop_requests():
            command(*arguments, **options)

    return listening


@app.callback(invoke_without_command=True)
def _root(version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False) -> None:
    if version:
        typer.echo(__version__)
        raise typer.Exit


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
@_stoppable
def train(
    problem: Annotated[str, typer.Argument(help="A name from `stablepdenet list`.")],
    method: Annotated[
        str | None, typer.Option(help="pi, adv, stable (default), or all: they share the warm-up.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Decides every random number of the run. Default: 0.")] = None,
    out: Annotated[Path | None, typer.Option(help="Run folder. Default: runs/PROBLEM-METHOD-SEED.")] = None,
    config: Annotated[Path | None, typer.Option(help="A TOML file with the sections of `config.json`.")] = None,
    settings: Settings = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue the run in --out if there is one.")] = False,
    as_json: Json = False,
) -> None:
    """Train a method on a problem, from physics alone."""
    from stablepdenet.config import parse_settings, read_toml
    from stablepdenet.runs import holds_run, resolve, start

    if method not in (None, "pi", "adv", "stable", "all"):
        raise ConfigError(f"--method {method!r} must be one of pi, adv, stable, all.")
    together = method == "all"
    changes = {**(read_toml(config) if config else {}), **parse_settings(settings or [])}
    changes |= {"seed": seed} if seed is not None else {}
    changes |= {"method.name": method} if method and not together else {}
    setup, resolved = resolve(problem, changes)
    folder = out or Path("runs") / f"{problem}-{'all' if together else resolved.method.name}-{resolved.seed}"
    if holds_run(folder) and not resume:
        raise ConfigError(f"'{folder}' already holds a run: pass --resume to continue it, or choose another --out.")
    with _Reports() as reports:
        states = start(setup, resolved, folder, together=together, new_report=reports.new)
    _summarise(setup, states, folder, as_json)


@app.command()
@_stoppable
def resume(folder: Folder, as_json: Json = False) -> None:
    """Continue a stopped training, bit for bit."""
    from stablepdenet.runs import resume as continue_run

    with _Reports() as reports:
        problem, states = continue_run(folder, new_report=reports.new)
    _summarise(problem, states, folder, as_json)


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
    import jax.numpy as jnp
    import numpy as np

    from stablepdenet.evaluation import predict as solve
    from stablepdenet.reading import read_inputs
    from stablepdenet.runs import load_operator
    from stablepdenet.training.run import storage

    if output and output.suffix not in (".npy", ".csv"):
        raise ConfigError(f"--output '{output}' must end in .npy or .csv.")
    problem, operator = load_operator(folder)
    u = solve(operator, problem, jnp.asarray(read_inputs(inputs, problem.input.size)))
    header = ",".join([*problem.coordinates, *(f"u_{i}" for i in range(len(u)))])
    table = np.column_stack([problem.grid, u.T])
    with storage(output or Path(), "--output"):
        if output and output.suffix == ".npy":
            np.save(output, u.reshape(len(u), *map(len, problem.axes)))
        elif output:
            np.savetxt(output, table, delimiter=",", header=header, comments="", fmt="%.8g")
    if as_json:
        coordinates = {name: problem.grid[:, i].tolist() for i, name in enumerate(problem.coordinates)}
        typer.echo(json.dumps({"problem": problem.name, "coordinates": coordinates, "u": u.tolist()}))
    elif not output:
        np.savetxt(sys.stdout, table, delimiter=",", header=header, comments="", fmt="%.8g")


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


@app.command()
@_stoppable
def demo(
    out: Annotated[Path, typer.Option(help="Folder for the runs, errors.json and poisson.png.")] = Path("runs/demo"),
    steps: Annotated[int, typer.Option(help="Training steps for each method (the paper: 50,000).")] = 20_000,
    as_json: Json = False,
) -> None:
    """Train the three methods briefly on Poisson, attack them, and compare with the paper."""
    from stablepdenet import demo as demonstration
    from stablepdenet.runs import resolve, start

    problem, config = resolve("poisson", {"training.steps": steps, "training.warmup": min(5_000, steps // 4)})
    with _Reports() as reports:
        states = start(problem, config, out, together=True, new_report=reports.new)
    rows = demonstration.evaluate({name: state.operator for name, state in states.items()}, problem, config, out)
    if as_json:
        return typer.echo(json.dumps(rows, indent=1))
    title = f"Poisson, relative L2 error after {steps} steps, seed {config.seed} (the paper: 50000 steps, five seeds)"
    _print_errors(rows, title, beside_paper=True)
    typer.echo(f"Figure: {out / 'poisson.png'}    Rows: {out / 'errors.json'}")


class _Reports:
    """Progress displays of the trainings of one command; ends them however the command ends."""

    def __enter__(self) -> _Reports:
        self.open: list[Any] = []
        return self

    def new(self, name: str, config: Any) -> Report:
        from stablepdenet.training.progress import ProgressReport

        self.open.append(ProgressReport(f"{config.problem['name']} {name}", config.training.steps))
        return self.open[-1]

    def __exit__(self, *_: object) -> None:
        for report in self.open:
            report.close()


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


def _summarise(problem: Problem, states: dict[str, TrainState], folder: Path, as_json: bool) -> None:
    """The clean error of what was trained."""
    from stablepdenet.evaluation import common_attack_errors

    operators = {name: state.operator for name, state in states.items()}
    rows = common_attack_errors(operators, problem, (), key=next(iter(states.values())).key)
    if as_json:
        return typer.echo(json.dumps({"folder": str(folder), "rows": rows}, indent=1))
    _print_errors(rows, f"{problem.name}, relative L2 error on {problem.tests} test inputs", beside_paper=False)
    typer.echo(f"Run: {folder}")


def _print_errors(rows: list[Any], title: str, *, beside_paper: bool) -> None:
    from rich.console import Console
    from rich.table import Table

    from stablepdenet.methods import TITLES
    from stablepdenet.report import paper

    methods = list(dict.fromkeys(row["method"] for row in rows))
    theirs = [f"paper's {TITLES[m]}" for m in methods] if beside_paper else []
    table = Table("setting", *(TITLES[m] for m in methods), *theirs, title=title)
    for eps in dict.fromkeys(row["eps"] for row in rows):
        values = [next(r["value"] for r in rows if (r["method"], r["eps"]) == (m, eps)) for m in methods]
        if beside_paper:
            values += [paper.relative_l2(rows[0]["problem"], m, eps) for m in methods]
        table.add_row(f"eps = {eps:.2f}" if eps else "clean", *(f"{v:.4f}" for v in values))
    Console(width=None if sys.stdout.isatty() else 120).print(table)


def _fail(message: str, code: int) -> NoReturn:
    print(f"stablepdenet: {message}", file=sys.stderr)
    raise SystemExit(code)


def main() -> None:
    """Runs the command line; whatever is the user's to fix or to continue ends in one sentence."""
    try:
        code = app(standalone_mode=False)
    except UserError as error:
        _fail(str(error), error.exit_code)
    except typer.TyperException as error:
        message = error.format_message().replace("\n", " ")
        # Called without a command it has printed its help and has nothing to add.
        _fail(message, error.exit_code) if message else sys.exit(error.exit_code)
    except OSError as error:
        _fail(f"Cannot write the output: {error.strerror or error}.", StorageError.exit_code)
    except (typer.Abort, KeyboardInterrupt):
        _fail("Interrupted.", 130)
    raise SystemExit(code if isinstance(code, int) else 0)
