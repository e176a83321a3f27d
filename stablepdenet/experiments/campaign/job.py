"""One job: train the three methods, measure them, write the results."""

from __future__ import annotations

import csv
import dataclasses
import importlib.metadata
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from filelock import FileLock, Timeout

from stablepdenet.auditing import Audit, audit
from stablepdenet.auditing.session import BASELINE
from stablepdenet.errors import AuditError, CheckpointError, ConfigError
from stablepdenet.experiments.campaign.plan import BUDGETS, LAST, Job, steps_of
from stablepdenet.experiments.config import SUITES, Config, override
from stablepdenet.experiments.results import Result, fields_of, save_result
from stablepdenet.experiments.runs import resolve, solve_in, start
from stablepdenet.experiments.training import SOLVED, with_refinement
from stablepdenet.experiments.zoo import load_model, write_model
from stablepdenet.files import storage
from stablepdenet.operators import AbstractOperator
from stablepdenet.problems import Problem
from stablepdenet.progress import Progress, Report
from stablepdenet.training.objectives import METHODS

# Searches for the worst case take long: they are made on so many inputs at most.
FEW = 200
# An operator that refines its answers does much more for each.
FEWER = 50
# Only this seed's solutions are kept for the figures, and its models for the zoo: they are large.
PICTURED = 0
# What a job does beside training.
AUDIT, WAITING = "audit", "waiting"
PACKAGES = ("stablepdenet", "jax", "jaxlib", "equinox", "optax", "numpy", "scipy")


def run_job(job: Job, tell: Progress) -> None:
    """Trains, or continues training, and measures; `tell` hears how far it is, with the training steps done in all
    among the numbers."""
    problem, config = resolve(job.problem, {**job.changes, "seed": job.seed}, recipe=job.base)
    problem = dataclasses.replace(problem, name=job.label)
    training = config.training
    with storage(job.runs):
        job.runs.mkdir(parents=True, exist_ok=True)

    def progress(report: Report) -> None:
        earlier = list(METHODS).index(report.task) * (training.steps - training.warmup) if report.task in METHODS else 0
        tell(report._replace(numbers={"steps": earlier + report.done}))

    with _locked(job, tell):
        if job.done:
            return
        together = job.base in SUITES
        began = time.perf_counter()
        if config.operator.kind == SOLVED:
            states, best = {}, {config.display_name: solve_in(job.runs, problem, config)}
        else:
            states = start(problem, config, job.runs, together=together, progress=progress)
            best = {name: with_refinement(state.trained, problem, config) for name, state in states.items()}
        kept = {
            name: Kept(override(config, {"method.name": name}), job.runs / name)
            if together
            else Kept(config, job.runs, time.perf_counter() - began)
            for name in best
        }
        if together:
            last = {name: state.operator for name, state in states.items()}
            after, _ = _measure(job, job.recipe + LAST, last, problem, kept, tell, searched=("lipschitz",))
            save_result(Path(job.out), after)
        chosen, whole = _measure(job, job.recipe, best, problem, kept, tell, searched=BUDGETS[job.budget].searched)
        out, pictured = Path(job.out), job.seed == PICTURED
        for name, state in states.items() if pictured else ():
            path = out / "models" / job.recipe / f"{job.label}-{name}.safetensors"
            write_model(state.trained, kept[name].config, path)
        save_result(out, chosen, fields_of(best, problem, whole) if pictured else None)


class Kept(NamedTuple):
    """What is told of a method beside its rows: its configuration, the folder of its training, and the seconds it
    took if there was none."""

    config: Config
    folder: Path
    seconds: float = 0.0

    def curves(self) -> dict[str, list[float | None]]:
        """The columns of the training log at the steps that were validated."""
        if self.config.operator.kind == SOLVED:
            return {}
        with (self.folder / "log.csv").open(newline="") as file:
            rows = [row for row in csv.DictReader(file) if row.get("validation_clean")]
        if not rows:
            raise CheckpointError(f"'{self.folder / 'log.csv'}' tells nothing of the training: delete its folder.")
        return {name: [float(row[name]) if row[name] else None for row in rows] for name in rows[0]}


@contextmanager
def _locked(job: Job, tell: Progress) -> Iterator[None]:
    """One process at a time in a folder: a killed campaign may leave a worker behind that has not noticed yet."""
    lock = FileLock(job.runs / "job.lock")
    while True:
        try:
            with storage(job.runs):
                lock.acquire(timeout=1.0)
            break
        except Timeout:
            tell(Report(WAITING, 0, numbers={"steps": 0}))
    try:
        yield
    finally:
        lock.release()


def _measure(
    job: Job,
    recipe: str,
    operators: dict[str, AbstractOperator],
    problem: Problem,
    kept: dict[str, Kept],
    tell: Progress,
    *,
    searched: tuple[str, ...],
) -> tuple[Result, Audit]:
    """The result, and the audit of the whole test set. An audit that lacks something is none."""
    steps = steps_of(next(iter(kept.values())).config)

    def progress(report: Report) -> None:
        tell(report._replace(task=AUDIT, numbers={"steps": steps}))

    tests = BUDGETS[job.budget].tests
    few = min(FEW if job.base in SUITES else FEWER, tests or FEW)
    whole, sample = (
        audit(named, problem, parts=parts, tests=number, recipe=recipe, seed=job.seed, progress=progress)
        for named, parts, number in ((_baseline(job) | operators, ("errors",), tests), (operators, searched, few))
    )
    for found in (whole, sample):
        if found.stopped:
            raise KeyboardInterrupt
        if found.failures:
            raise AuditError(found.failures[0])
    curves = {name: own.curves() for name, own in kept.items()}
    result = Result(
        recipe=recipe,
        problem=job.label,
        seed=job.seed,
        rows=[row for row in whole.rows + sample.rows if row["method"] in kept],
        settings={name: own.config.as_dict() for name, own in kept.items()},
        curves=curves,
        seconds={name: (curves[name].get("seconds") or [own.seconds])[-1] or 0.0 for name, own in kept.items()},
        versions={name: importlib.metadata.version(name) for name in PACKAGES},
        notes=list(dict.fromkeys(whole.notes + sample.notes)),
    )
    return result, whole


def _baseline(job: Job) -> dict[str, AbstractOperator]:
    """What finds the common perturbation for a recipe that has no baseline of its own: the zoo's, of seed 0."""
    if job.base not in SUITES and job.label == job.problem:
        with suppress(ConfigError):  # a problem that the zoo does not have
            return {BASELINE: load_model(job.problem, BASELINE)}
    return {}
