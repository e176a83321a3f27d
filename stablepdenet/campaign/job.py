"""One job: train the three methods, measure them, write the results."""

from __future__ import annotations

import csv
import dataclasses
import importlib.metadata
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from stablepdenet.campaign.plan import BUDGETS, LAST, Job, steps_of
from stablepdenet.config import Config, override
from stablepdenet.errors import AuditError
from stablepdenet.evaluation import Audit, audit
from stablepdenet.methods import METHODS
from stablepdenet.operators import AbstractOperator
from stablepdenet.problems import Problem
from stablepdenet.results import Result, fields_of, save_result
from stablepdenet.runs import resolve, start
from stablepdenet.training import Report
from stablepdenet.training.run import Row, storage
from stablepdenet.zoo import write_model

# Searches for the worst case take long: they are made on so many inputs at most.
FEW = 200
# Only this seed's solutions are kept for the figures, and its models for the zoo: they are large.
PICTURED = 0
PACKAGES = ("stablepdenet", "jax", "jaxlib", "equinox", "optax", "numpy", "scipy")

Tell = Callable[[str, int, int], None]


def run_job(job: Job, tell: Tell) -> None:
    """Trains, or continues training, and measures; `tell` hears of the stage, how far it is, and the training steps
    done in all."""
    problem, config = resolve(job.problem, {**job.changes, "seed": job.seed})
    problem = dataclasses.replace(problem, name=job.label)
    training = config.training
    with storage(job.runs):
        job.runs.mkdir(parents=True, exist_ok=True)

    def new_report(name: str, config: Config) -> Report:
        earlier = list(METHODS).index(name) * (training.steps - training.warmup) if name in METHODS else 0

        def report(row: Row) -> None:
            step = int(row["step"] or 0)
            tell(name, step, earlier + step)

        return report

    with _alone(job, tell):
        if job.done:
            return
        states = start(problem, config, job.runs, together=True, new_report=new_report)
        last = {name: state.operator for name, state in states.items()}
        best = {name: state.trained for name, state in states.items()}
        after, _ = _measure(job, job.recipe + LAST, last, problem, config, tell, searched=("lipschitz",))
        chosen, whole = _measure(job, job.recipe, best, problem, config, tell, searched=BUDGETS[job.budget].searched)
        out, pictured = Path(job.out), job.seed == PICTURED
        for name, operator in best.items() if pictured else ():
            path = out / "models" / job.recipe / f"{job.label}-{name}.safetensors"
            write_model(operator, override(config, {"method.name": name}), path)
        save_result(out, after)
        save_result(out, chosen, fields_of(best, problem, whole) if pictured else None)


@contextmanager
def _alone(job: Job, tell: Tell) -> Iterator[None]:
    """One process at a time in a folder: a killed campaign may leave a worker behind that has not noticed yet."""
    lock = FileLock(job.runs / "lock")
    while True:
        try:
            lock.acquire(timeout=1.0)
            break
        except Timeout:
            tell("waiting", 0, 0)
    try:
        yield
    finally:
        lock.release()


def _measure(
    job: Job,
    recipe: str,
    operators: dict[str, AbstractOperator],
    problem: Problem,
    config: Config,
    tell: Tell,
    *,
    searched: tuple[str, ...],
) -> tuple[Result, Audit]:
    """The result, and the audit of the whole test set. An audit that lacks something is none."""

    def progress(title: str, done: int, total: int) -> None:
        tell("audit", done, steps_of(config))

    tests = BUDGETS[job.budget].tests
    whole, sample = (
        audit(operators, problem, parts=parts, tests=number, recipe=recipe, seed=job.seed, progress=progress)
        for parts, number in ((("errors",), tests), (searched, min(FEW, tests or FEW)))
    )
    for found in (whole, sample):
        if found.stopped:
            raise KeyboardInterrupt
        if found.failures:
            raise AuditError(found.failures[0])
    logs = {name: read_log(job.runs / name / "log.csv") for name in METHODS}
    result = Result(
        recipe=recipe,
        problem=job.label,
        seed=job.seed,
        rows=whole.rows + sample.rows,
        settings={name: override(config, {"method.name": name}).as_dict() for name in METHODS},
        curves=logs,
        seconds={name: float(log["seconds"][-1] or 0) for name, log in logs.items()},
        versions={name: importlib.metadata.version(name) for name in PACKAGES},
        notes=list(dict.fromkeys(whole.notes + sample.notes)),
    )
    return result, whole


def read_log(path: Path) -> dict[str, list[float | None]]:
    """The columns of a training log at the steps that were validated."""
    with path.open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["validation_clean"]]
    return {name: [float(row[name]) if row[name] else None for row in rows] for name in rows[0]}
