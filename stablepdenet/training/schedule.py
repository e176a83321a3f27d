"""How long a training is, and how many functions it sees."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Schedule:
    """Algorithm 2's numbers: `steps` in all, of which `warmup` = j0 are clean; attacks are renewed every `refresh` = M.

    `cache` says what a refresh attacks: the whole training `set`, from which each step draws its batch, or one `batch`,
    reused for M steps. Every `validate_every` steps the loss on `validation` functions of their own is taken, every
    `log_every` steps there is a row to report.
    """

    steps: int
    warmup: int
    refresh: int
    functions: int
    batch: int
    validation: int
    validate_every: int
    log_every: int
    cache: Literal["set", "batch"] = "set"

    @property
    def batches(self) -> int:
        """How many batches an epoch has."""
        return self.functions // self.batch
