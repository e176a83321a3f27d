"""The command that makes the paper's tables: reproduce."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from stablepdenet.cli.base import Settings, app
from stablepdenet.errors import UserError
from stablepdenet.system.signals import stop_requests


@app.command()
def reproduce(
    problems: Annotated[
        list[str] | None, typer.Argument(metavar="[PROBLEM...]", help="Default: the paper's six settings.")
    ] = None,
    more: Annotated[str, typer.Option("--problems", help="The same, with commas between.")] = "",
    recipe: Annotated[
        str, typer.Option(help="paper (pi, adv and stable), plain (the same with the bare trunk), or robust.")
    ] = "paper",
    seeds: Annotated[str, typer.Option(help="How many (5: 0 to 4), or which: 3,4 or 2-4; 3-3 for one.")] = "5",
    budget: Annotated[str, typer.Option(help="paper, or quick: a look at the whole way in minutes.")] = "paper",
    workers: Annotated[int, typer.Option(min=1, help="Trainings side by side, one core each.")] = 2,
    out: Annotated[Path, typer.Option(help="Rows go here, trainings below runs/ in it.")] = Path("results"),
    settings: Settings = None,
) -> None:
    """Train and audit a recipe over problems and seeds; finished ones are skipped, killed ones continued."""
    # From the start: jax is not imported yet.
    with stop_requests():
        from stablepdenet.cli.campaign import CampaignProgress
        from stablepdenet.experiments.campaign import make_jobs, parse_seeds, run_jobs
        from stablepdenet.experiments.config import parse_settings
        from stablepdenet.experiments.report import paper

        chosen = [*(problems or []), *(name.strip() for name in more.split(",") if name.strip())]
        chosen = list(dict.fromkeys(chosen)) or list(paper.tables()["relative_l2"])
        jobs, steps = make_jobs(chosen, parse_seeds(seeds), budget, parse_settings(settings or []), out, base=recipe)
        with CampaignProgress(jobs, steps) as show:
            outcome = run_jobs(jobs, workers, show)
    if outcome.stopped:
        raise _Ended("Stopped; the same command continues.", 128 + outcome.stopped)
    if outcome.failures:
        codes = {failure.code for failure in outcome.failures.values()}
        raise _Ended(
            f"{len(outcome.failures)} of {len(jobs)} failed; what they said is in error.txt beside their trainings "
            f"below {out / 'runs'}.",
            codes.pop() if len(codes) == 1 else 1,
        )
    typer.echo(f"{len(jobs)} of {len(jobs)} done. Tables and figures: stablepdenet report {out} -o report.html")


class _Ended(UserError):
    """A campaign that is not done."""

    def __init__(self, message: str, exit_code: int):
        super().__init__(message)
        self.exit_code = exit_code
