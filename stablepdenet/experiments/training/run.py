"""A run folder: the resolved configuration, the log, the checkpoints.

RUN/config.json      what decides the run
RUN/log.csv          seconds, losses per block, Q and its share
RUN/checkpoints/     step-00050000/ …
"""

from __future__ import annotations

import csv
import math
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, final

from filelock import FileLock, Timeout

from stablepdenet.errors import CheckpointError, ConfigError, DamageError, StorageError
from stablepdenet.experiments.config import Config, flatten, override
from stablepdenet.files import read_json, storage, write_json, write_synced
from stablepdenet.training import checkpoint
from stablepdenet.training.run import AbstractRun, LogRow, Past
from stablepdenet.training.state import TrainState

# Columns that a run cannot go on without.
NEEDED = ("step", "seconds", "loss")


@final
class Run(AbstractRun):
    """A folder that holds one training."""

    def __init__(self, folder: Path, config: Config, stored: Any):
        # `stored` is config.json as it is: a setting that did not exist when it was written has its default value.
        self.folder, self.config, self.stored = folder, config, stored
        self.log, self.checkpoints = folder / "log.csv", folder / "checkpoints"
        self.checkpoint_every = config.training.checkpoint_every

    @classmethod
    def create(cls, folder: Path, config: Config) -> Run:
        """A new run; refuses a folder that holds one already."""
        if (folder / "config.json").exists():
            raise ConfigError(f"'{folder}' already holds a run: pass --resume to continue it, or choose another --out.")
        with storage(folder):
            folder.mkdir(parents=True, exist_ok=True)
            write_json(folder / "config.json", config.as_dict())
        return cls(folder, config, config.as_dict())

    @classmethod
    def open(cls, folder: Path) -> Run:
        """An existing run with its stored configuration."""
        stored = read_json(folder / "config.json")
        return cls(folder, load_config(stored, folder), stored)

    def require(self, config: Config) -> None:
        """Refuses to continue with another configuration, naming the first key that differs."""
        stored, given = flatten(self.config.as_dict()), flatten(config.as_dict())
        for key in sorted(stored.keys() | given.keys()):
            if stored.get(key) != given.get(key):
                raise ConfigError(
                    f"'{self.folder}' was trained with {key} = {stored.get(key)!r}, not {given.get(key)!r}: resume it "
                    "with its own configuration, or choose another --out."
                )

    def latest(self, template: TrainState) -> TrainState | None:
        """The newest checkpointed state that is not damaged, or None before the first."""
        damage = []
        for folder in reversed(checkpoint.existing(self.checkpoints)):
            try:
                state = checkpoint.load(folder, template, self.stored)
            except DamageError as error:
                damage.append(str(error))
                continue
            if damage:
                warnings.warn(f"{'; '.join(damage)}: '{folder}' is used instead.", stacklevel=2)
            return state
        if damage:
            raise CheckpointError(
                f"{'; '.join(damage)}: no checkpoint of '{self.folder}' is left. Delete '{self.checkpoints}' to train "
                "anew."
            )
        return None

    def warn_of_changes(self, step: int) -> None:
        """Says so where a run goes on under other versions or on more or fewer cores: its last digits may differ."""
        folder = self.checkpoints / checkpoint.name_of(step)
        if changed := checkpoint.changes(folder):
            warnings.warn(
                f"'{folder}' was written with {'; '.join(changed)}: the run goes on, but its last digits may not be "
                "those of a run that nothing interrupted.",
                stacklevel=2,
            )

    def save(self, state: TrainState) -> None:
        """Checkpoints `state`; the log up to it comes first."""
        with storage(self.folder):
            with self.log.open("rb") as file:
                os.fsync(file.fileno())
            checkpoint.save(self.checkpoints, state, self.stored, keep=self.config.training.checkpoints_kept)

    def append(self, row: LogRow) -> None:
        """Adds a line to the log."""
        with storage(self.folder):
            fresh = not self.log.exists() or not self.log.stat().st_size
            with self.log.open("a", newline="") as file:
                writer = csv.DictWriter(file, row)
                if fresh:
                    writer.writeheader()
                writer.writerow(row)

    def rewind(self, step: int) -> Past:
        """Drops log lines after `step`, which are taken again, and what a crash left of a line."""
        if not self.log.exists():
            if checkpoint.existing(self.checkpoints):
                warnings.warn(f"'{self.log}' is missing: the log, and the seconds in it, begin anew.", stacklevel=2)
            return Past()
        with storage(self.folder):
            header, *lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines() or [""]
            names = header.split(",")
            if any(name not in names for name in NEEDED):
                warnings.warn(f"'{self.log}' has lost its header: the log begins anew.", stacklevel=2)
                header, lines = "", []
            rows = [_numbers(line, names) for line in lines]
            kept = [(line, row) for line, row in zip(lines, rows, strict=True) if row and row["step"] <= step]
            text = "".join(f"{line}\r\n" for line in [header, *(line for line, _ in kept)] if line)
            write_synced(self.log, text.encode())
        return Past(kept[-1][1]["seconds"], kept[0][1]["loss"]) if kept else Past()


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """One process at a time in a run folder; the system takes the lock from a process that is no more."""
    with storage(folder):
        folder.mkdir(parents=True, exist_ok=True)
        lock = FileLock(folder / "lock")
        try:
            lock.acquire(timeout=0)
        except Timeout:
            raise StorageError(
                f"'{folder}' is being trained by another process: wait for it, or choose another --out."
            ) from None
    try:
        yield
    finally:
        lock.release()


def _numbers(line: str, names: list[str]) -> dict[str, float] | None:
    """The numbers of a log line, or None of one that is torn or never was one."""
    try:
        row = {name: float(cell) for name, cell in zip(names, line.split(","), strict=True) if cell}
        return row if all(math.isfinite(row[name]) for name in NEEDED) else None
    except (ValueError, KeyError):
        return None


def load_config(stored: Any, folder: Path) -> Config:
    """A Config from its stored form, checked like any other."""
    try:
        config = Config(problem={"name": str(stored["problem"]["name"]), **stored["problem"]})
        return override(config, {k: v for k, v in flatten(stored).items() if not k.startswith("problem.")})
    except (TypeError, KeyError, ValueError, AttributeError):
        raise CheckpointError(
            f"'{folder}' has a config.json that `train` did not write: choose another folder."
        ) from None
