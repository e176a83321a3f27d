"""The command that makes the paper's tables: reproduce."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from stablepdenet.cli.base import Settings, app, stoppable
from stablepdenet.errors import ConfigError, UserError


@app.command()
@stoppable
def reproduce(
    problems: Annotated[
        list[str] | None, typer.Argument(metavar="[PROBLEM...]", help="Default: the paper's six settings.")
    ] = None,
    more: Annotated[str, typer.Option("--problems", help="The same, with commas between.")] = "",
    seeds: Annotated[str, typer.Option(help="How many (5: 0 to 4), or which: 3,4 or 2-4.")] = "5",
    budget: Annotated[str, typer.Option(help="paper, or quick: a look at the whole way in minutes.")] = "paper",
    workers: Annotated[int, typer.Option(min=1, help="Trainings side by side, one core each.")] = 2,
    out: Annotated[Path, typer.Option(help="Rows go here, trainings below runs/ in it.")] = Path("results"),
    settings: Settings = None,
) -> None:
    """Train and audit pi, adv and stable over problems and seeds; finished ones are skipped, killed ones continued."""
    from stablepdenet.campaign import make_jobs, parse_seeds, run_jobs, steps_of
    from stablepdenet.cli.campaign import CampaignProgress
    from stablepdenet.config import parse_settings
    from stablepdenet.report import paper
    from stablepdenet.runs import resolve

    chosen = [*(problems or []), *(name.strip() for name in more.split(",") if name.strip())]
    chosen = list(dict.fromkeys(chosen)) or list(paper.tables()["relative_l2"])
    jobs = make_jobs(chosen, parse_seeds(seeds), budget, parse_settings(settings or []), out)
    # Every name and setting is checked before the first training.
    steps = {name: steps_of(resolve(name, job.changes)[1]) for name, job in {job.problem: job for job in jobs}.items()}
    with CampaignProgress(jobs, steps) as show:
        outcome = run_jobs(jobs, workers, show)
    if outcome.stopped:
        raise _Stopped(outcome.stopped)
    for name, message in outcome.failures.items():
        typer.echo(f"{name} failed: {message}", err=True)
    if outcome.failures:
        raise ConfigError(
            f"{len(outcome.failures)} of {len(jobs)} trainings failed: the same command tries them again."
        )
    typer.echo(f"{len(jobs)} of {len(jobs)} done. Tables and figures: stablepdenet report {out} -o report.html")


class _Stopped(UserError):
    def __init__(self, signal_number: int):
        super().__init__("Stopped; the same command continues.")
        self.exit_code = 128 + signal_number
