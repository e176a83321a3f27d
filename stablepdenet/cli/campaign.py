"""How far a campaign is, on stderr: a line for the whole and one for each worker, or plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import final

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from stablepdenet.experiments.campaign import FailedJob, Job, Worker

PLAIN_INTERVAL = 60.0  # seconds between plain lines


@final
class CampaignProgress:
    """Jobs done, time left, and what each worker does. `steps` says how many a job of each problem has.

    Time left is counted by steps; a problem that has not run yet is taken to be as fast as the others on average.
    """

    def __init__(self, jobs: Sequence[Job], steps: Mapping[str, int]):
        self.jobs, self.steps = jobs, steps
        self.told: set[str] = set()
        # By worker, the steps it had and when, the last time we looked; by problem, seconds and steps seen in all.
        self.last: dict[int, tuple[int, float]] = {}
        self.seen: dict[str, tuple[float, int]] = {}
        self.last_line = 0.0
        self.live = Live(console=Console(stderr=True), refresh_per_second=2) if sys.stderr.isatty() else None

    def __enter__(self) -> CampaignProgress:
        if self.live:
            self.live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.live:
            self.live.stop()

    def __call__(self, running: Sequence[Worker], failures: Mapping[str, FailedJob]) -> None:
        now = time.monotonic()
        for worker in running:
            self._look(worker, now)
        done = sum(job.done for job in self.jobs)
        failed = f", {len(failures)} failed" if failures else ""
        whole = f"{done} of {len(self.jobs)} done{failed}{self._time_left(running, failures)}"
        lines = [f"{worker.job.name}: {worker.stage} {worker.number}" for worker in running]
        for name in failures.keys() - self.told:
            self.told.add(name)
            self._print(f"{name} failed: {failures[name].message}")
        if self.live:
            self.live.update(Group(*map(Text, [whole, *lines])))
        elif now - self.last_line >= PLAIN_INTERVAL or not running:
            self.last_line = now
            self._print("; ".join([whole, *lines]))

    def _look(self, worker: Worker, now: float) -> None:
        """Seconds and steps since the last look; the steps that an earlier campaign took, and compiling, come before
        the first one."""
        if not worker.steps:
            return
        before, moment = self.last.get(worker.process.pid, (worker.steps, now))
        seconds, steps = self.seen.get(worker.job.label, (0.0, 0))
        self.seen[worker.job.label] = (seconds + now - moment, steps + worker.steps - before)
        self.last[worker.process.pid] = (worker.steps, now)

    def _time_left(self, running: Sequence[Worker], failures: Mapping[str, FailedJob]) -> str:
        rates = {name: seconds / steps for name, (seconds, steps) in self.seen.items() if steps}
        left = [job for job in self.jobs if not job.done and job.name not in failures]
        if not rates or not left:
            return ""
        usual = sum(rates.values()) / len(rates)
        begun = {worker.job.name: worker.steps for worker in running}
        seconds = sum((self.steps[job.label] - begun.get(job.name, 0)) * rates.get(job.label, usual) for job in left)
        minutes = seconds / max(1, len(running)) / 60
        return f", about {minutes:.0f} min left" if minutes > 1.5 else ", about a minute left"

    def _print(self, line: str) -> None:
        # A reader of stderr that left must not end a campaign.
        with suppress(OSError):
            if self.live:
                self.live.console.print(line, markup=False)
            else:
                print(line, file=sys.stderr, flush=True)
