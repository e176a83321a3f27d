"""Training what a configuration describes, in memory or in a run folder."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from stablepdenet.errors import ConfigError
from stablepdenet.experiments.config import Config
from stablepdenet.experiments.training.making import SOLVED, make_program, state_shapes, untrained
from stablepdenet.experiments.training.run import Run, locked
from stablepdenet.problems import Problem, warn_of_contradictions
from stablepdenet.progress import Progress, silent
from stablepdenet.system.cores import usable
from stablepdenet.training.loop import BEGINNING, take_steps
from stablepdenet.training.memory import require_memory
from stablepdenet.training.state import TrainState


def train(
    problem: Problem,
    config: Config,
    *,
    run: Run | None = None,
    start: TrainState | None = None,
    progress: Progress = silent,
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
    return take_steps(program, state, run=run, past=past, task=config.display_name, progress=progress)


def train_in(
    folder: Path | str,
    problem: Problem,
    config: Config,
    *,
    start: TrainState | None = None,
    progress: Progress = silent,
) -> TrainState:
    """Trains in a run folder: begins there, or continues what is there if it has the same configuration."""
    _require_cores(config)
    with run_in(Path(folder), problem, config) as run:
        return train(problem, config, run=run, start=start, progress=progress)


@contextmanager
def run_in(folder: Path, problem: Problem, config: Config) -> Iterator[Run]:
    """The run in a folder, for one process at a time: a new one, or the one that is there if it has the same
    configuration."""
    problem.require(str(config.problem.get("fingerprint", problem.fingerprint)), f"The configuration for '{folder}'")
    with locked(folder):
        if (folder / "config.json").exists():
            run = Run.open(folder)
            run.require(config)
        else:
            run = Run.create(folder, config)
        yield run


def _require_cores(config: Config) -> None:
    if config.training.deterministic and len(usable()) > 1:
        raise ConfigError(
            "training.deterministic needs a process on one core: pass --deterministic, or start it by `taskset -c 0`, "
            "on a system that can keep a process to a core."
        )
