"""How far long work is: one kind of report for trainings, audits, `robust` and campaigns, and one display of them."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple, final

if TYPE_CHECKING:
    from rich.progress import Progress as Bars
    from rich.progress import TaskID

PLAIN_INTERVAL = 10.0  # seconds between plain lines


class Report(NamedTuple):
    """What is being done, how far it is (`total` is 0 where nobody knows), what to say of it, and its numbers: of a
    training, a row of its log."""

    task: str
    done: int
    total: int = 0
    note: str = ""
    numbers: Mapping[str, float | None] = MappingProxyType({})


# Told of long work as it goes: any function of a report.
Progress = Callable[[Report], None]


def silent(report: Report) -> None:
    """Shows nothing."""


@contextmanager
def displayed(progress: Progress | None, title: str) -> Iterator[Progress]:
    """The given progress, or a display on stderr where there is none."""
    if progress is not None:
        yield progress
        return
    with closing(ShownProgress(title)) as display:
        yield display


@final
class ShownProgress:
    """A bar for each task in a terminal, plain lines elsewhere; on stderr, with the rate and the time left."""

    def __init__(self, title: str):
        self.title = title
        self.last_line, self.bars = time.monotonic(), _bars()
        # By task: its bar, and where and when it began. The first report comes after compiling.
        self.tasks: dict[str, TaskID] = {}
        self.began: dict[str, tuple[int, float]] = {}

    def close(self) -> None:
        """Ends the bars."""
        if self.bars:
            self.bars.stop()

    def __call__(self, report: Report) -> None:
        now = time.monotonic()
        first, began = self.began.setdefault(report.task, (report.done, now))
        rate = (report.done - first) / (now - began) if report.done > first and now > began else 0.0
        said = "  ".join(part for part in (report.note, f"{rate:.3g}/s" if rate and report.total else "") if part)
        if self.bars:
            self._move(self.bars, report, said)
        elif now - self.last_line >= PLAIN_INTERVAL or report.done == report.total:
            self.last_line = now
            left = f"{(report.total - report.done) / rate:.0f} s left" if rate and report.total else ""
            counted = f"{report.done}/{report.total}" if report.total else ""
            line = "  ".join(part for part in (self.title, report.task, counted, said, left) if part)
            # A reader of stderr that left must not end the work.
            with suppress(OSError):
                print(line, file=sys.stderr, flush=True)

    def _move(self, bars: Bars, report: Report, said: str) -> None:
        from rich.markup import escape

        if report.task not in self.tasks:
            title = escape(" ".join(part for part in (self.title, report.task) if part))
            self.tasks[report.task] = bars.add_task(title, total=None, said="")
        bars.update(self.tasks[report.task], completed=report.done, total=report.total or None, said=escape(said))


def _bars() -> Bars | None:
    """Bars, if somebody looks at them."""
    if not sys.stderr.isatty():
        return None
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = ("{task.description}", BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[said]}"))
    bars = Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True))
    bars.start()
    return bars
