"""The training loop: chunks of compiled steps, the log, checkpoints, stopping and resuming."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import jax
import jax.numpy as jnp

from stablepdenet.config import Config
from stablepdenet.errors import DivergenceError, Interrupted
from stablepdenet.problems import Problem
from stablepdenet.signals import stop_requests
from stablepdenet.training.program import Program
from stablepdenet.training.run import Row, Run
from stablepdenet.training.state import TrainState

Report = Callable[[Row], None]


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
    program = Program(problem, config)
    state = start if start is not None else program.initial()
    stored = run.latest(state) if run else None
    state = stored if stored is not None else state
    spent = run.rewind(int(state.step)) if run else 0.0
    training, step = config.training, int(state.step)
    # Without a run there is nothing to resume, and Ctrl-C should do what it does in any other Python code.
    with stop_requests() if run else nullcontext(lambda: None) as requested:
        while step < training.steps:
            began = time.perf_counter()
            stops = (training.log_every, training.checkpoint_every, training.validate_every)
            step = min(*(_next(step, every) for every in stops), program.boundary(step))
            state, terms = program.advance(state, step)
            found = None
            # Also where the warm-up ends: it may be a run of its own that several methods share.
            if step % training.validate_every == 0 or step in (training.warmup, training.steps):
                state, found = program.validate(state)
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
            _require_finite(row, state)
            signal_number = requested()
            if run:
                run.append(row)
                if step % training.checkpoint_every == 0 or step == training.steps or signal_number:
                    run.save(state)
            report(row)
            if run and signal_number:
                raise Interrupted(signal_number, run.folder)
    return state


def _next(step: int, every: int) -> int:
    return step - step % every + every


def _require_finite(row: Row, state: TrainState) -> None:
    """Stops where a loss, or a weight that the last update made, is not finite; nothing of it is stored."""
    bad = [name for name, value in row.items() if value is not None and not math.isfinite(value)]
    if not all(bool(jnp.all(jnp.isfinite(leaf))) for leaf in jax.tree.leaves(state.operator)):
        bad.append("a network weight")
    if bad:
        cause = next((name for name in bad if name.startswith("loss_")), bad[0])
        raise DivergenceError(
            f"Training stopped before step {row['step']}: {cause} is not finite; lower training.learning_rate or "
            "attack.eps."
        )


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
    if (folder / "config.json").exists():
        run = Run.open(folder)
        run.require(config)
    else:
        run = Run.create(folder, config)
    return train(problem, config, run=run, start=start, report=report)
