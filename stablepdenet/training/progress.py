"""Progress on stderr: a bar in a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from contextlib import suppress
from typing import final

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from stablepdenet.training.run import LogRow

PLAIN_INTERVAL = 10.0  # seconds between plain lines


@final
class ProgressReport:
    """Shows each log row of one training: loss, share of Q, steps per second, time left."""

    def __init__(self, title: str, steps: int):
        self.title, self.steps = title, steps
        self.began, self.last_line = time.monotonic(), 0.0
        self.first: int | None = None
        self.bar: Progress | None = None
        if sys.stderr.isatty():
            columns = (
                TextColumn("{task.description}"),
                BarColumn(),
                TextColumn("{task.completed}/{task.total}"),
                TextColumn("{task.fields[numbers]}"),
                TimeRemainingColumn(),
            )
            self.bar = Progress(*columns, console=Console(stderr=True))
            self.task = self.bar.add_task(title, total=steps, numbers="")
            self.bar.start()

    def __call__(self, row: LogRow) -> None:
        step, now = int(row["step"] or 0), time.monotonic()
        if self.first is None:
            # The first chunk compiles: the rate is measured from its end.
            self.first, self.began = step, now
            if self.bar:
                self.bar.reset(self.task, completed=step)
        rate = (step - self.first) / (now - self.began) if step > self.first else 0.0
        numbers = f"loss {row['loss']:.3e}  share of Q {row['share']:.1%}  {rate:.0f} steps/s"
        if self.bar:
            self.bar.update(self.task, completed=step, numbers=numbers)
            if step == self.steps:
                self.bar.stop()
        elif now - self.last_line >= PLAIN_INTERVAL or step == self.steps:
            self.last_line = now
            left = f"{(self.steps - step) / rate:.0f} s left" if rate else ""
            # A reader of stderr that left must not end a training.
            with suppress(OSError):
                print(f"{self.title}  {step}/{self.steps}  {numbers}  {left}".rstrip(), file=sys.stderr, flush=True)

    def close(self) -> None:
        """Ends the bar where a training ends early."""
        if self.bar:
            self.bar.stop()
