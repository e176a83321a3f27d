"""Plans as JSON, and the file from which a search for a plan goes on."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from stablepdenet.errors import CheckpointError
from stablepdenet.files import storage, write_json
from stablepdenet.problems import Problem
from stablepdenet.spectral.choose import Trial
from stablepdenet.spectral.plan import Plan
from stablepdenet.spectral.setting import read_setting

FORMAT = "stablepdenet-trials-1"


def stored_plan(plan: Plan) -> dict[str, Any]:
    """What a plan of a known problem follows from."""
    return {
        "counts": plan.counts,
        "rough_counts": plan.rough_counts,
        "edges": plan.edges,
        "stages": plan.stages,
    }


def plan_from(stored: dict[str, Any], problem: Problem) -> Plan:
    """The plan that was stored."""
    counts, rough_counts, edges = (tuple(stored[name]) for name in ("counts", "rough_counts", "edges"))
    return Plan(read_setting(problem), counts, rough_counts, edges, int(stored["stages"]))


@final
@dataclass(frozen=True)
class TrialFile:
    """The trial that is due, in a file: for one problem and one tolerance."""

    path: Path
    problem: Problem
    tolerance: float

    def write(self, trial: Trial) -> None:
        """Keeps a trial in the place of the one before it."""
        known = {"format": FORMAT, "fingerprint": self.problem.fingerprint, "tolerance": self.tolerance}
        with storage(self.path.parent):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            write_json(self.path, {**known, **trial._asdict(), "plan": stored_plan(trial.plan)})

    def read(self) -> Trial | None:
        """The trial that is due; None where there is none, or for another problem or tolerance."""
        if not self.path.exists():
            return None
        try:
            stored = json.loads(self.path.read_text(encoding="utf-8"))
            if stored["format"] != FORMAT:
                raise ValueError
            if (stored["fingerprint"], stored["tolerance"]) != (self.problem.fingerprint, self.tolerance):
                return None
            plan, lost = plan_from(stored["plan"], self.problem), tuple(map(bool, stored["lost"]))
            return Trial(plan, int(stored["number"]), lost, float(stored["seconds"]))
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            raise CheckpointError(
                f"'{self.path}' does not hold a trial of `robust`: delete it, or name another file."
            ) from None
