"""The training loop: chunks of compiled steps, the log, checkpoints, stopping and resuming."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from shlex import quote

from stablepdenet.config import Config
from stablepdenet.cores import usable
from stablepdenet.errors import ConfigError, DivergenceError, Interrupted, StorageError
from stablepdenet.methods import Terms
from stablepdenet.problems import Problem, warn_of_contradictions
from stablepdenet.signals import stop_requests
from stablepdenet.training.failure import culprit, examine, keep, locate
from stablepdenet.training.making import SOLVED, make_program, state_shapes, untrained
from stablepdenet.training.memory import require_memory
from stablepdenet.training.program import Program, Validation
from stablepdenet.training.run import Past, Row, Run, alone
from stablepdenet.training.state import TrainState

Report = Callable[[Row], None]
# A loss of so many times the first one does not come back.
EXPLODED = 1e6
BEGINNING = Past()
ADVICE = "lower the learning rate (training.learning_rate) or the attack's eps (attack.eps)"


def train(
    problem: Problem,
    config: Config,
    *,
    run: Run | None = None,
    start: TrainState | None = None,
    report: Report = lambda row: None,
) -> TrainState:
    """Trains what the configuration describes to its last step and returns the final state.

    With a `run`, the newest checkpoint is continued, and logs and checkpoints are kept; without one, everything stays
    in memory. `start` is where a run without checkpoints begins (a shared warm-up).
    """
    _require_cores(config)
    if config.operator.kind == SOLVED:
        raise ConfigError("operator.kind = solved has nothing to train: solve(problem) gives that operator.")
    warn_of_contradictions(problem)
    program = make_program(problem, config)
    require_memory(program, state_shapes(problem, config))
    state = start if start is not None else program.initial(untrained(problem, config))
    stored = run.latest(state) if run else None
    state = stored if stored is not None else state
    past = run.rewind(int(state.step)) if run else BEGINNING
    if run and stored is not None and int(state.step) < config.training.steps:
        run.warn_of_changes(int(state.step))
    return take_steps(program, state, run=run, past=past, report=report)


def take_steps(
    program: Program, state: TrainState, *, run: Run | None = None, past: Past = BEGINNING, report: Report
) -> TrainState:
    """All steps from a state to the end of the schedule. A `run` keeps the log and checkpoints; `past` is what its log
    tells of the steps before."""
    spent, first = past
    schedule, step = program.schedule, int(state.step)
    stops = [schedule.log_every, schedule.validate_every, *([run.config.training.checkpoint_every] if run else [])]
    # Without a run there is nothing to resume, and Ctrl-C should do what it does in any other Python code.
    with stop_requests() if run else nullcontext(lambda: None) as requested:
        while step < schedule.steps:
            began = time.perf_counter()
            # The first step alone: its loss is what later ones are measured by.
            step = min(*(_next(step, every) for every in stops), program.boundary(step)) if step else 1
            before = state
            state, terms = program.advance(before, step)
            limit = math.inf if first is None else EXPLODED * first
            if not program.sound(state, terms, limit):
                raise _divergence(program, before, step, limit, run)
            first = first if first is not None else float(terms.loss)
            found = None
            # Also where the warm-up ends: it may be a run of its own that several methods share.
            if step % schedule.validate_every == 0 or step in (schedule.warmup, schedule.steps):
                state, found = program.validate(state)
                if not all(math.isfinite(value) for value in found if value is not None):
                    raise DivergenceError(
                        f"Training stopped at step {step}: its loss on validation functions is not finite; {ADVICE}."
                    )
            spent += time.perf_counter() - began
            row = _row(step, spent, terms, state, found)
            signal_number = requested()
            if run:
                run.append(row)
                if step % run.config.training.checkpoint_every == 0 or step == schedule.steps or signal_number:
                    run.save(state)
            report(row)
            if run and signal_number:
                raise Interrupted(signal_number, run.folder)
    return state


def _row(step: int, spent: float, terms: Terms, state: TrainState, found: Validation | None) -> Row:
    """A line of the log."""
    attacked = found.attacked if found else None
    return {
        "step": step,
        "seconds": round(spent, 3),
        "loss": float(terms.loss),
        **{f"loss_{name}": float(value) for name, value in terms.blocks.items()},
        "sensitivity": float(terms.sensitivity),
        "share": float(terms.share),
        "lambda_sens": float(state.lambda_sens),
        "validation_clean": float(found.clean) if found else None,
        "validation_attacked": float(attacked) if attacked is not None else None,
    }


def _require_cores(config: Config) -> None:
    if config.training.deterministic and len(usable()) > 1:
        raise ConfigError(
            "training.deterministic needs a process on one core: pass --deterministic, or start it by `taskset -c 0`, "
            "on a system that can keep a process to a core."
        )


def _next(step: int, every: int) -> int:
    return step - step % every + every


def _divergence(program: Program, state: TrainState, stop: int, limit: float, run: Run | None) -> DivergenceError:
    """Finds the step between a sound state and `stop`, keeps it for a replay, and says what went wrong."""
    failure = locate(program, state, stop, limit)
    if failure is None:
        return DivergenceError(f"Training stopped before step {stop}: its numbers are not finite, but not again.")
    advice = ADVICE
    if run:
        try:
            keep(run, failure)
            advice += f"; `stablepdenet replay {quote(str(run.folder))}` takes that step again in float64"
        except StorageError as error:  # the news of the training matters more
            advice += f". It could not be kept for a replay ({str(error).rstrip('.')})"
    step, findings = int(failure.state.step) + 1, examine(program, failure)
    what = "is not finite" if not all(f.finite for f in findings) else "exploded"
    return DivergenceError(f"Training stopped before step {step}: {culprit(findings)} {what}; {advice}.")


def train_in(
    folder: Path | str,
    problem: Problem,
    config: Config,
    *,
    start: TrainState | None = None,
    report: Report = lambda row: None,
) -> TrainState:
    """Trains in a run folder: begins there, or continues what is there if it has the same configuration."""
    _require_cores(config)
    with run_in(Path(folder), problem, config) as run:
        return train(problem, config, run=run, start=start, report=report)


@contextmanager
def run_in(folder: Path, problem: Problem, config: Config) -> Iterator[Run]:
    """The run in a folder, for one process at a time: a new one, or the one that is there if it has the same
    configuration."""
    problem.require(str(config.problem.get("fingerprint", problem.fingerprint)), f"The configuration for '{folder}'")
    with alone(folder):
        if (folder / "config.json").exists():
            run = Run.open(folder)
            run.require(config)
        else:
            run = Run.create(folder, config)
        yield run
