"""The three methods from one seed, with the warm-up that they share trained once."""

from __future__ import annotations

import shutil
from pathlib import Path

from stablepdenet.experiments.config import Config, override
from stablepdenet.experiments.training.running import train, train_in
from stablepdenet.files import storage
from stablepdenet.problems import Problem
from stablepdenet.progress import Progress, silent
from stablepdenet.training.objectives import METHODS
from stablepdenet.training.state import TrainState


def train_suite(
    problem: Problem,
    config: Config,
    *,
    folder: Path | None = None,
    progress: Progress = silent,
) -> dict[str, TrainState]:
    """Trains pi, adv and stable; with a `folder`, in `warmup`, `pi`, `adv`, `stable` below it, continuing whatever is
    unfinished.

    Each method's result is bit for bit that of training it alone: before step j0 they are the same training.
    """

    def run(name: str, config: Config, start: TrainState | None) -> TrainState:
        if folder is None:
            return train(problem, config, start=start, progress=progress)
        if start is not None and not (folder / name / "config.json").exists():
            # Each log tells its whole training, the shared part included; copied again until the run has begun.
            with storage(folder):
                (folder / name).mkdir(exist_ok=True)
                shutil.copy(folder / "warmup" / "log.csv", folder / name)
        return train_in(folder / name, problem, config, start=start, progress=progress)

    start, shared = None, config.training.warmup
    if shared:
        start = run("warmup", override(config, {"method.name": "pi", "training.steps": shared}), None)
    return {name: run(name, override(config, {"method.name": name}), start) for name in METHODS}
