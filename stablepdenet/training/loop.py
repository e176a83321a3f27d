"""The training loop: chunks of compiled steps, the log, checkpoints, stopping."""

from __future__ import annotations

import math
import time
from contextlib import nullcontext
from shlex import quote

from stablepdenet.errors import DivergenceError, Interrupted, StorageError
from stablepdenet.progress import Progress, Report
from stablepdenet.system.signals import stop_requests
from stablepdenet.training.failure import culprit, examine, keep, locate
from stablepdenet.training.objectives import Terms
from stablepdenet.training.program import Program, Validation
from stablepdenet.training.run import AbstractRun, LogRow, Past
from stablepdenet.training.state import TrainState

# A loss of so many times the first one does not come back.
EXPLODED = 1e6
BEGINNING = Past()
ADVICE = "lower the learning rate (training.learning_rate) or the attack's eps (attack.eps)"


def take_steps(
    program: Program,
    state: TrainState,
    *,
    run: AbstractRun | None = None,
    past: Past = BEGINNING,
    task: str = "training",
    progress: Progress,
) -> TrainState:
    """All steps from a state to the end of the schedule. A `run` keeps the log and checkpoints; `past` is what its log
    tells of the steps before."""
    spent, first = past
    schedule, step = program.schedule, int(state.step)
    stops = [schedule.log_every, schedule.validate_every, *([run.checkpoint_every] if run else [])]
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
                if step % run.checkpoint_every == 0 or step == schedule.steps or signal_number:
                    run.save(state)
            note = f"loss {row['loss']:.3e}  share of Q {row['share']:.1%}"
            progress(Report(task, step, schedule.steps, note, row))
            if run and signal_number:
                raise Interrupted(signal_number, run.folder)
    return state


def _row(step: int, spent: float, terms: Terms, state: TrainState, found: Validation | None) -> LogRow:
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


def _next(step: int, every: int) -> int:
    return step - step % every + every


def _divergence(
    program: Program, state: TrainState, stop: int, limit: float, run: AbstractRun | None
) -> DivergenceError:
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
