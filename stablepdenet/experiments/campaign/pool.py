"""Workers side by side, one pinned core each."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NamedTuple, final

from stablepdenet.errors import ConfigError
from stablepdenet.experiments.campaign.plan import Job
from stablepdenet.system.cores import usable
from stablepdenet.system.signals import stop_requests

POLL = 0.2  # seconds
PATIENCE = 20.0  # seconds for a worker to checkpoint before it is killed; killing loses work, never results


class FailedJob(NamedTuple):
    """What a worker said last, and its exit code."""

    message: str
    code: int


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
    threads: list[threading.Thread] = field(default_factory=list)

    @classmethod
    def start(cls, job: Job, slot: int, core: int) -> Worker:
        command = [sys.executable, "-m", "stablepdenet.experiments.campaign.worker", str(core), job.dump()]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        worker = cls(job, slot, process)
        for listen in (worker._listen, worker._collect):
            worker.threads.append(threading.Thread(target=listen, daemon=True))
            worker.threads[-1].start()
        return worker

    def _listen(self) -> None:
        for line in self.process.stdout or ():
            # Whatever else a library may print is read, so that the pipe never fills, and passed over.
            with suppress(ValueError):
                stage, number, steps = line.split()
                self.stage, self.number, self.steps = stage, int(number), int(steps)

    def _collect(self) -> None:
        self.messages.extend(line.rstrip() for line in self.process.stderr or () if line.strip())

    def ended(self) -> bool:
        """Whether the process is over; then all that it said has been read."""
        if self.process.poll() is None:
            return False
        for thread in self.threads:
            thread.join(timeout=PATIENCE)
        return True

    def failure(self) -> FailedJob:
        """Why it ended without its results; all that it said is kept beside its trainings."""
        with suppress(OSError):
            (self.job.runs / "error.txt").write_text("\n".join(self.messages) + "\n", encoding="utf-8")
        code = self.process.returncode
        said = self.messages[-1] if self.messages else f"it ended with code {code} and without a word"
        return FailedJob(said, code if code > 0 else 1)


@dataclass(frozen=True)
class CampaignOutcome:
    """How a campaign ended: the jobs that failed, and the signal that stopped it, if any."""

    failures: Mapping[str, FailedJob]
    stopped: int | None


Show = Callable[[Sequence[Worker], Mapping[str, FailedJob]], None]


def run_jobs(jobs: Sequence[Job], workers: int, show: Show) -> CampaignOutcome:
    """Runs what is not done, at most `workers` at a time; `show` is told several times a second who works and who
    failed."""
    cores = usable()
    if workers > len(cores):
        raise ConfigError(f"--workers {workers} is more than the {len(cores)} cores that this process may use.")
    waiting, running = list(jobs), list[Worker]()
    failures: dict[str, FailedJob] = {}
    with stop_requests() as requested:
        try:
            while (waiting or running) and not requested():
                # Somebody else may have done one: another campaign, or a worker that a killed one left behind.
                waiting = [job for job in waiting if not job.done]
                free = [slot for slot in range(workers) if slot not in {worker.slot for worker in running}]
                for slot in free[: len(waiting)]:
                    running.append(Worker.start(waiting.pop(0), slot, cores[slot]))
                time.sleep(POLL if running else 0.0)
                for worker in [worker for worker in running if worker.ended()]:
                    running.remove(worker)
                    if not worker.job.done and not requested():
                        failures[worker.job.name] = worker.failure()
                show(running, failures)
        finally:
            _end(running)
        return CampaignOutcome(failures, requested())


def _end(running: Sequence[Worker]) -> None:
    for worker in running:
        worker.process.terminate()
    limit = time.monotonic() + PATIENCE
    for worker in running:
        try:
            worker.process.wait(max(0.0, limit - time.monotonic()))
        except subprocess.TimeoutExpired:
            worker.process.kill()
