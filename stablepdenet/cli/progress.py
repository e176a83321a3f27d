"""Progress of an audit on stderr: a bar in a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from contextlib import suppress
from typing import final

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

PLAIN_INTERVAL = 10.0  # seconds between plain lines


@final
class TaskProgress:
    """Shows which task of an audit runs, and how many are left."""

    def __init__(self, title: str):
        self.title, self.last_line = title, time.monotonic()
        self.bar: Progress | None = None
        if sys.stderr.isatty():
            columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
            self.bar = Progress(*columns, console=Console(stderr=True), transient=True)
            self.task = self.bar.add_task(escape(title))

    def __enter__(self) -> TaskProgress:
        if self.bar:
            self.bar.start()
        return self

    def __call__(self, task: str, done: int, total: int) -> None:
        now = time.monotonic()
        if self.bar:
            self.bar.update(self.task, description=escape(f"{self.title}  {task}"), completed=done, total=total)
        elif now - self.last_line >= PLAIN_INTERVAL:
            self.last_line = now
            # A reader of stderr that left must not end an audit.
            with suppress(OSError):
                print(f"{self.title}  {done}/{total}  {task}", file=sys.stderr, flush=True)

    def __exit__(self, *_: object) -> None:
        if self.bar:
            self.bar.stop()
