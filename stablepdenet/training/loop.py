"""The training loop: chunks of compiled steps, the log, checkpoints, stopping and resuming."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from shlex import quote

from stablepdenet.config import Config
from stablepdenet.cores import usable
from stablepdenet.errors import ConfigError, DivergenceError, Interrupted, StorageError
from stablepdenet.problems import Problem, warn_of_contradictions
from stablepdenet.signals import stop_requests
from stablepdenet.training.failure import culprit, examine, keep, locate
from stablepdenet.training.making import SOLVED
from stablepdenet.training.memory import require_memory
from stablepdenet.training.program import Program
from stablepdenet.training.run import Past, Row, Run, alone
from stablepdenet.training.state import TrainState

Report = Callable[[Row], None]
# A loss of so many times the first one does not come back.
EXPLODED = 1e6


def train(
    problem: Problem,
    config: Config,
    *,
    run: Run | None = None,
    start: TrainState | None = None,
    report: Report = lambda row: None,
) -> TrainState:
    """Trains to `config.training.steps` and returns the final state.

    With a `run`, the newest checkpoint is continued, and logs and checkpoints are kept; without one, everything stays
    in memory. `start` is where a run without checkpoints begins (a shared warm-up).
    """
    _require_cores(config)
    if config.operator.kind != SOLVED:  # `solve` looks by itself
        warn_of_contradictions(problem)
    program = Program(problem, config)
    require_memory(program)
    state = start if start is not None else program.initial()
    stored = run.latest(state) if run else None
    state = stored if stored is not None else state
    spent, first = run.rewind(int(state.step)) if run else Past()
    training, step = config.training, int(state.step)
    if run and stored is not None and step < training.steps:
        run.warn_of_changes(step)
    # Without a run there is nothing to resume, and Ctrl-C should do what it does in any other Python code.
    with stop_requests() if run else nullcontext(lambda: None) as requested:
        while step < training.steps:
            began = time.perf_counter()
            stops = (training.log_every, training.checkpoint_every, training.validate_every)
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
            if step % training.validate_every == 0 or step in (training.warmup, training.steps):
                state, found = program.validate(state)
                if not all(math.isfinite(value) for value in found):
                    raise DivergenceError(
                        f"Training stopped at step {step}: the loss on the validation functions is not finite; lower "
                        "training.learning_rate or attack.eps."
                    )
            losses = {f"loss_{name}": float(value) for name, value in terms.blocks.items()}
            spent += time.perf_counter() - began
            row = {
                "step": step,
                "seconds": round(spent, 3),
                "loss": float(terms.loss),
                **losses,
                "sensitivity": float(terms.sensitivity),
                "share": float(terms.share),
                "lambda_sens": float(state.lambda_sens),
                "validation_clean": float(found.clean) if found else None,
                "validation_attacked": float(found.attacked) if found else None,
            }
            signal_number = requested()
            if run:
                run.append(row)
                if step % training.checkpoint_every == 0 or step == training.steps or signal_number:
                    run.save(state)
            report(row)
            if run and signal_number:
                raise Interrupted(signal_number, run.folder)
    return state


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
    advice = "lower training.learning_rate or attack.eps"
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
    folder = Path(folder)
    _require_cores(config)
    problem.require(str(config.problem.get("fingerprint", problem.fingerprint)), f"The configuration for '{folder}'")
    with alone(folder):
        if (folder / "config.json").exists():
            run = Run.open(folder)
            run.require(config)
        else:
            run = Run.create(folder, config)
        return train(problem, config, run=run, start=start, report=report)
