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

from stablepdenet.campaign import Job, Worker

PLAIN_INTERVAL = 60.0  # seconds between plain lines


@final
class CampaignProgress:
    """Jobs done, time left, and what each worker does. `steps` says how many a job of each problem has.

    Time left is counted by steps; a problem that has not run yet is taken to be as fast as the others on average.
    """

    def __init__(self, jobs: Sequence[Job], steps: Mapping[str, int]):
        self.jobs, self.steps = jobs, steps
        self.left = {job.name: steps[job.problem] for job in jobs if not job.done}
        # Seconds and steps seen so far, by problem.
        self.seen: dict[str, tuple[float, int]] = {}
        self.moment, self.last_line = time.monotonic(), 0.0
        self.live = Live(console=Console(stderr=True), refresh_per_second=2) if sys.stderr.isatty() else None

    def __enter__(self) -> CampaignProgress:
        if self.live:
            self.live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.live:
            self.live.stop()

    def __call__(self, running: Sequence[Worker]) -> None:
        now = time.monotonic()
        passed, self.moment = now - self.moment, now
        active = {worker.job.name for worker in running}
        for job in self.jobs:
            if job.name in self.left and job.name not in active and job.done:
                del self.left[job.name]
        for worker in running:
            remaining = self.steps[worker.job.problem] - worker.steps
            taken = max(0, self.left[worker.job.name] - remaining)
            seconds, steps = self.seen.get(worker.job.problem, (0.0, 0))
            # Compiling, and steps that an earlier campaign took, say nothing of the speed.
            if steps or taken < self.steps[worker.job.problem] / 20:
                self.seen[worker.job.problem] = (seconds + passed, steps + taken)
            self.left[worker.job.name] = min(remaining, self.left[worker.job.name])
        whole = f"{len(self.jobs) - len(self.left)} of {len(self.jobs)} done{self._time_left(max(1, len(running)))}"
        lines = [f"{worker.job.name}: {worker.stage} {worker.number}" for worker in running]
        if self.live:
            self.live.update(Group(*map(Text, [whole, *lines])))
        elif now - self.last_line >= PLAIN_INTERVAL or not running:
            self.last_line = now
            # A reader of stderr that left must not end a campaign.
            with suppress(OSError):
                print("; ".join([whole, *lines]), file=sys.stderr, flush=True)

    def _time_left(self, workers: int) -> str:
        rates = {name: seconds / steps for name, (seconds, steps) in self.seen.items() if steps}
        if not rates:
            return ""
        usual = sum(rates.values()) / len(rates)
        problems = {job.name: job.problem for job in self.jobs}
        seconds = sum(steps * rates.get(problems[name], usual) for name, steps in self.left.items()) / workers
        return f", about {seconds / 60:.0f} min left" if seconds > 90 else ", about a minute left"
