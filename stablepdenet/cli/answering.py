"""Commands that answer: robust makes an operator without training, predict asks one."""

from __future__ import annotations

import io
import json
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stablepdenet.cli.base import PROBLEM, Json, Settings, app
from stablepdenet.errors import ConfigError

if TYPE_CHECKING:
    import numpy as np

    from stablepdenet.experiments.predicting import Prediction
    from stablepdenet.problems import Problem
    from stablepdenet.progress import Report

# Rows that a warning names.
SHOWN = 10
SUFFIXES = (".npy", ".npz", ".csv")


@app.command()
def robust(
    problem: Annotated[str, typer.Argument(help=PROBLEM)],
    out: Annotated[Path, typer.Option(help="The operator's file, for `predict` and `stablepdenet.load`.")],
    tolerance: Annotated[float, typer.Option(help="The relative L2 error that answers may have.")] = 1e-3,
    budget: Annotated[float, typer.Option(help="Seconds that making it may take.")] = 240.0,
    settings: Settings = None,
    as_json: Json = False,
) -> None:
    """Make an operator that estimates its errors from a problem's equations alone: no labels, no training. Stopped, the
    same command continues it."""
    from stablepdenet.experiments.config import parse_settings
    from stablepdenet.experiments.runs import posed
    from stablepdenet.progress import displayed
    from stablepdenet.robust import robust as make
    from stablepdenet.saving import save

    setup = posed(problem, parse_settings(settings or []))
    if out.is_dir():
        raise ConfigError(f"--out '{out}' is a folder: name a file, e.g. '{out / 'operator.safetensors'}'.")
    trials, said = out.with_name(f"{out.name}.trials.json"), list[Any]()
    try:
        with displayed(None, setup.name) as shown:

            def tell(report: Report) -> None:
                said.append(report)
                shown(report)

            operator = make(setup, tolerance=tolerance, budget=budget, trials=trials, progress=tell)
    except KeyboardInterrupt:
        typer.echo(f"stablepdenet: Stopped; the same command goes on from '{trials}'.", err=True)
        raise typer.Exit(130) from None
    save(operator, out, setup)
    trials.unlink(missing_ok=True)
    last = said[-1]
    if as_json:
        reached = {"problem": setup.name, "file": str(out), "tolerance": tolerance, **last.numbers}
        return typer.echo(json.dumps(_plain(reached), indent=1))
    typer.echo(f"{setup.name}: {last.note}; {tolerance:g} was asked for")
    typer.echo(f"Operator: {out}")


@app.command()
def predict(
    source: Annotated[Path, typer.Argument(metavar="RUN|FILE", help="A run folder, or an operator's file.")],
    inputs: Annotated[Path, typer.Option("--input", help=".npy or .csv, one input per row.")],
    output: Annotated[
        Path | None,
        typer.Option(
            help="Write .npy (inputs x grid) or .csv here, and estimates beside it, or .npz with both, instead of CSV "
            "to stdout."
        ),
    ] = None,
    problem: Annotated[str | None, typer.Option(help=f"Of a file: {PROBLEM}")] = None,
    settings: Settings = None,
    estimate: Annotated[
        bool | None,
        typer.Option(
            help="Estimate errors. A run needs a judge for it, made once, in minutes. Default: where there is one."
        ),
    ] = None,
    tolerance: Annotated[
        float | None, typer.Option(help="The estimated error that is trusted. Default: what the judge was made for.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Solve for given inputs on the problem's grid, and say how wrong each answer is estimated to be."""
    from stablepdenet.experiments.config import parse_settings
    from stablepdenet.experiments.predicting import open_source
    from stablepdenet.experiments.predicting import predict as answer
    from stablepdenet.experiments.reading import read_inputs
    from stablepdenet.experiments.runs import posed
    from stablepdenet.files import storage

    if output and output.suffix not in SUFFIXES:
        raise ConfigError(f"--output '{output}' must end in one of {', '.join(SUFFIXES)}.")
    if settings and not problem:
        raise ConfigError("--set is for --problem: a run knows its own settings.")
    if tolerance is not None and not tolerance > 0:
        raise ConfigError(f"--tolerance {tolerance} must be a positive number.")
    setup = posed(problem, parse_settings(settings or [])) if problem else None
    opened = open_source(source, setup, estimate)
    a = read_inputs(inputs, opened.problem.inputs.size)
    found = answer(opened, a, tolerance)
    _warn(found, opened.problem)
    if output:
        with storage(output, "--output"):
            _write(found, opened.problem, output)
    if as_json:
        typer.echo(json.dumps(_told(found, opened.problem)))
    elif not output:
        sys.stdout.write(_table(found, opened.problem))


def _warn(found: Prediction, problem: Problem) -> None:
    """Names the rows whose answers are not to be trusted, and why."""
    import numpy as np

    judged = found.estimate is not None
    if np.any(found.outside):
        largest = {name: np.max(of) for name, of in found.beyond.items() if np.max(of) > 1.0}
        most = ", ".join(f"{name} up to {of:.3g} times" for name, of in largest.items())
        seen, so = (
            ("the estimates were tried on", "their estimates may be too small")
            if judged
            else ("this model was trained on", "its answers to them are guesses")
        )
        of = "tried input" if judged else "training function"
        warnings.warn(
            f"{_some(found.outside)} lie outside of what {seen} ({most} that of any {of}): {so}.", stacklevel=1
        )
    if np.any(found.foreign):
        warnings.warn(
            f"{_some(found.foreign)} are not admissible: '{problem.name}' is posed for inputs whose "
            f"{problem.admissible.condition}, and its answers to others mean nothing.",
            stacklevel=1,
        )
    if found.estimate is not None and np.any(found.missed):
        worst = np.max(found.estimate[found.missed])
        largest_of = f"up to {worst:.2g}" if np.isfinite(worst) else "of some not known"
        warnings.warn(
            f"{_some(found.missed)} have an estimated relative error above {found.tolerance:g} ({largest_of}): their "
            "answers are not to be trusted.",
            stacklevel=1,
        )


def _some(which: np.ndarray) -> str:
    """How many inputs are meant, and which."""
    rows = _rows(which)
    named = ", ".join(map(str, rows[:SHOWN])) + (" and others" if len(rows) > SHOWN else "")
    return f"{len(rows)} of {len(which)} inputs (row {named})"


def _rows(which: np.ndarray) -> list[int]:
    """Counted from 1, as in a file."""
    return [number + 1 for number, meant in enumerate(which) if meant]


def _write(found: Prediction, problem: Problem, output: Path) -> None:
    """The answers, and what is estimated of them beside or with them."""
    import numpy as np

    from stablepdenet.files import write_synced

    def on_axes(fields: np.ndarray) -> np.ndarray:
        return fields.reshape(len(fields), *map(len, problem.axes), *fields.shape[2:])

    buffer, beside = io.BytesIO(), output.with_suffix(f".estimate{output.suffix}")
    if output.suffix == ".npz":
        axes = dict(zip(problem.coordinates, problem.axes, strict=True))
        own = {"estimate": found.estimate, "trusted": found.trusted} if found.estimate is not None else {}
        own |= {"errors": on_axes(found.errors)} if found.errors is not None else {}
        own |= {"bound": found.bound} if found.bound is not None else {}
        np.savez(buffer, allow_pickle=False, **axes, u=on_axes(found.u), **own)
        return write_synced(output, buffer.getvalue())
    if output.suffix == ".npy":
        np.save(buffer, on_axes(found.u))
        write_synced(output, buffer.getvalue())
    else:
        write_synced(output, _table(found, problem).encode())
    if found.estimate is None:
        # One of another answer must not stand beside this.
        return beside.unlink(missing_ok=True)
    if output.suffix == ".npy":
        buffer = io.BytesIO()
        np.save(buffer, found.estimate)
        return write_synced(beside, buffer.getvalue())
    lines = [f"{own:.8g},{int(sound)}\n" for own, sound in zip(found.estimate, found.trusted, strict=True)]
    return write_synced(beside, "".join(["estimate,trusted\n", *lines]).encode())


def _table(found: Prediction, problem: Problem) -> str:
    """A line for each point, a column for each input and component."""
    import numpy as np

    names = [*problem.coordinates, *(f"{name}_{row}" for row in range(len(found.u)) for name in problem.solution)]
    values, text = np.moveaxis(found.u, 0, 1).reshape(len(problem.grid), -1), io.StringIO()
    table = np.column_stack([problem.grid, values])
    np.savetxt(text, table, delimiter=",", header=",".join(names), comments="", fmt="%.8g")
    return text.getvalue()


def _told(found: Prediction, problem: Problem) -> dict[str, Any]:
    """For machines. JSON has neither infinity nor NaN: what is not finite is null."""
    import numpy as np

    judged, finite = found.estimate is not None, np.isfinite(found.u)
    return {
        "problem": problem.name,
        "coordinates": {name: problem.grid[:, i].tolist() for i, name in enumerate(problem.coordinates)},
        "outside_rows": _rows(found.outside),
        "inadmissible_rows": _rows(found.foreign),
        "untrusted_rows": _rows(~found.trusted) if judged else None,
        "tolerance": found.tolerance if judged else None,
        "estimate": [_number(each) for each in found.estimate.tolist()] if found.estimate is not None else None,
        "bound": [_number(each) for each in found.bound.tolist()] if found.bound is not None else None,
        "u": (found.u if np.all(finite) else np.where(finite, found.u, np.array(None))).tolist(),
    }


def _plain(told: dict[str, Any]) -> dict[str, Any]:
    return {key: _number(value) if isinstance(value, float) else value for key, value in told.items()}


def _number(value: float) -> float | None:
    return value if abs(value) < float("inf") else None
