"""Workers side by side, one pinned core each."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import final

from stablepdenet.campaign.plan import Job
from stablepdenet.signals import stop_requests

POLL = 0.2  # seconds
PATIENCE = 20.0  # seconds for a worker to checkpoint before it is killed; killing loses work, never results


@final
@dataclass
class Worker:
    """A job under way in a process of its own, and what it last told."""

    job: Job
    slot: int
    process: subprocess.Popen[str]
    stage: str = "starting"
    number: int = 0
    steps: int = 0  # of all its trainings
    messages: list[str] = field(default_factory=list)

    @classmethod
    def start(cls, job: Job, slot: int, core: int) -> Worker:
        command = [sys.executable, "-m", "stablepdenet.campaign.worker", str(core), job.dump()]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        worker = cls(job, slot, process)
        for listen in (worker._listen, worker._collect):
            threading.Thread(target=listen, daemon=True).start()
        return worker

    def _listen(self) -> None:
        for line in self.process.stdout or ():
            stage, number, steps = line.split()
            self.stage, self.number, self.steps = stage, int(number), int(steps)

    def _collect(self) -> None:
        self.messages.extend(line.strip() for line in self.process.stderr or () if line.strip())


@dataclass(frozen=True)
class Outcome:
    """How a campaign ended: the jobs that failed with what they said, and the signal that stopped it, if any."""

    failures: dict[str, str]
    stopped: int | None


def run_jobs(jobs: Sequence[Job], workers: int, show: Callable[[Sequence[Worker]], None]) -> Outcome:
    """Runs what is not done, at most `workers` at a time; `show` is given the running ones several times a second."""
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else list(range(os.cpu_count() or 1))
    waiting = [job for job in jobs if not job.done]
    running: list[Worker] = []
    failures: dict[str, str] = {}
    with stop_requests() as requested:
        try:
            while (waiting or running) and not requested():
                free = [slot for slot in range(workers) if slot not in {worker.slot for worker in running}]
                for slot in free[: len(waiting)]:
                    running.append(Worker.start(waiting.pop(0), slot, cores[slot % len(cores)]))
                time.sleep(POLL)
                for worker in [worker for worker in running if worker.process.poll() is not None]:
                    running.remove(worker)
                    if not worker.job.done:
                        failures[worker.job.name] = (worker.messages or ["it ended without a word"])[-1]
                show(running)
        finally:
            _end(running)
        return Outcome(failures, requested())


def _end(running: Sequence[Worker]) -> None:
    for worker in running:
        worker.process.terminate()
    limit = time.monotonic() + PATIENCE
    for worker in running:
        try:
            worker.process.wait(max(0.0, limit - time.monotonic()))
        except subprocess.TimeoutExpired:
            worker.process.kill()
