"""What a training may keep as it goes: a log, checkpoints, and what is left of a failure."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, NamedTuple

from stablepdenet.training.state import TrainState

# A line of the log. What was not measured at a step is None, an empty cell.
LogRow = dict[str, float | None]


class Past(NamedTuple):
    """What a log tells of a training: the seconds spent, and the first loss."""

    seconds: float = 0.0
    loss: float | None = None


class AbstractRun(ABC):
    """A folder that the loop writes to. `stored` is what decides the training, as checkpoints tell it."""

    folder: Path
    stored: Any
    checkpoint_every: int

    @abstractmethod
    def append(self, row: LogRow) -> None:
        """Adds a line to the log."""

    @abstractmethod
    def save(self, state: TrainState) -> None:
        """Checkpoints a state; the log up to it comes first."""
