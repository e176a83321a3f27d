"""A process of a campaign: `python -m stablepdenet.experiments.campaign.worker CORE JOB` does one job on one core.

What is done goes to stdout, a line each: the stage, how far it is, and the training steps done in all.
"""

from __future__ import annotations

import os
import sys

from stablepdenet.system.compilation import keep_compiled
from stablepdenet.system.cores import keep_to


def main(core: int, text: str) -> None:
    """Pins the process before anything starts threads, then works; ends when its campaign has gone."""
    campaign = os.getppid()
    keep_to(core)
    keep_compiled()

    from stablepdenet.errors import UserError
    from stablepdenet.experiments.campaign.job import AUDIT, WAITING, run_job
    from stablepdenet.experiments.campaign.plan import Job
    from stablepdenet.progress import Report
    from stablepdenet.system.signals import stop_requests

    with stop_requests() as requested:

        def tell(report: Report) -> None:
            if os.getppid() != campaign:
                sys.exit("The campaign has gone.")
            print(report.task, report.done, report.numbers["steps"], flush=True)
            # A training stops by itself, with a checkpoint; nothing else has any.
            number_of_signal = requested()
            if number_of_signal and report.task in (AUDIT, WAITING):
                sys.exit(128 + number_of_signal)

        try:
            run_job(Job.load(text), tell)
        except UserError as error:
            print(error, file=sys.stderr)
            sys.exit(error.exit_code)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
