"""One job: train the three methods, measure them, write the results."""

from __future__ import annotations

import csv
import dataclasses
import importlib.metadata
from collections.abc import Callable
from pathlib import Path

from filelock import FileLock

from stablepdenet.campaign.plan import BUDGETS, Job, steps_of
from stablepdenet.config import Config, override
from stablepdenet.evaluation import audit
from stablepdenet.methods import METHODS
from stablepdenet.operators import AbstractOperator
from stablepdenet.problems import Problem
from stablepdenet.results import Result, fields_of, save_result
from stablepdenet.runs import label, resolve, start
from stablepdenet.training import Report
from stablepdenet.training.run import Row, storage
from stablepdenet.zoo import write_model

# Searches for the worst case take long: they are made on so many inputs at most.
FEW = 200
# Rows of the parameters after the last step stand beside those of the best ones.
LAST = "-last"
# Only this seed's solutions are kept for the figures, and its models for the zoo: they are large.
PICTURED = 0
PACKAGES = ("stablepdenet", "jax", "jaxlib", "equinox", "optax", "numpy", "scipy")

Tell = Callable[[str, int, int], None]


def run_job(job: Job, tell: Tell) -> None:
    """Trains, or continues training, and measures; `tell` hears of the stage, how far it is, and the training steps
    done in all."""
    problem, config = resolve(job.problem, {**job.changes, "seed": job.seed})
    problem = dataclasses.replace(problem, name=label(config))
    training = config.training
    with storage(job.runs):
        job.runs.mkdir(parents=True, exist_ok=True)

    def new_report(name: str, config: Config) -> Report:
        earlier = list(METHODS).index(name) * (training.steps - training.warmup) if name in METHODS else 0

        def report(row: Row) -> None:
            step = int(row["step"] or 0)
            tell(name, step, earlier + step)

        return report

    # A killed campaign may leave a worker behind that has not noticed yet.
    with FileLock(job.runs / "lock"):
        if job.done:
            return
        states = start(problem, config, job.runs, together=True, new_report=new_report)
        last = {name: state.operator for name, state in states.items()}
        best = {name: state.trained for name, state in states.items()}
        _measure(job, job.recipe + LAST, last, problem, config, tell, searched=("lipschitz",))
        if job.seed == PICTURED:
            for name, operator in best.items():
                path = Path(job.out) / "models" / job.recipe / f"{job.problem}-{name}.safetensors"
                write_model(operator, override(config, {"method.name": name}), path)
        searched, pictured = BUDGETS[job.budget].searched, job.seed == PICTURED
        _measure(job, job.recipe, best, problem, config, tell, searched=searched, pictured=pictured)


def _measure(
    job: Job,
    recipe: str,
    operators: dict[str, AbstractOperator],
    problem: Problem,
    config: Config,
    tell: Tell,
    *,
    searched: tuple[str, ...],
    pictured: bool = False,
) -> None:
    def progress(title: str, done: int, total: int) -> None:
        tell("audit", done, steps_of(config))

    tests = BUDGETS[job.budget].tests
    whole, sample = (
        audit(operators, problem, parts=parts, tests=number, recipe=recipe, seed=job.seed, progress=progress)
        for parts, number in ((("errors",), tests), (searched, min(FEW, tests or FEW)))
    )
    logs = {name: read_log(job.runs / name / "log.csv") for name in METHODS}
    result = Result(
        recipe=recipe,
        problem=job.problem,
        seed=job.seed,
        rows=whole.rows + sample.rows,
        settings={name: override(config, {"method.name": name}).as_dict() for name in METHODS},
        curves=logs,
        seconds={name: float(log["seconds"][-1] or 0) for name, log in logs.items()},
        versions={name: importlib.metadata.version(name) for name in PACKAGES},
        notes=list(dict.fromkeys(whole.notes + sample.notes)),
    )
    save_result(Path(job.out), result, fields_of(operators, problem, whole) if pictured else None)


def read_log(path: Path) -> dict[str, list[float | None]]:
    """The columns of a training log at the steps that were validated."""
    with path.open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["validation_clean"]]
    return {name: [float(row[name]) if row[name] else None for row in rows] for name in rows[0]}
