"""What a campaign consists of: one job for each problem and seed."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from stablepdenet.config import Config
from stablepdenet.errors import ConfigError
from stablepdenet.methods import METHODS
from stablepdenet.results import path_of


class Budget(NamedTuple):
    """What is changed in every problem, how many test inputs are measured (None: as many as the paper has), and what
    parts of the audit are made on fewer."""

    changes: dict[str, Any]
    tests: int | None
    searched: tuple[str, ...]


BUDGETS = {
    "paper": Budget({}, None, ("lipschitz", "attacks", "unseen")),
    "quick": Budget({"training.steps": 5_000, "training.warmup": 1_000, "training.refresh": 500}, 200, ("lipschitz",)),
}


@dataclass(frozen=True)
class Job:
    """The three methods on one problem from one seed: trained, audited, and written below `out`.

    `changes` are the settings that differ from the paper's.
    """

    out: str
    recipe: str
    problem: str
    seed: int
    changes: dict[str, Any]
    budget: str

    @property
    def name(self) -> str:
        return f"{self.problem} seed {self.seed}"

    @property
    def runs(self) -> Path:
        """Where it trains."""
        return Path(self.out) / "runs" / self.recipe / self.problem / f"seed-{self.seed}"

    @property
    def done(self) -> bool:
        """Its rows are written last."""
        return path_of(Path(self.out), self.recipe, self.problem, self.seed).exists()

    def dump(self) -> str:
        """As text, for another process."""
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def load(cls, text: str) -> Job:
        return cls(**json.loads(text))


def make_jobs(
    problems: Sequence[str], seeds: Sequence[int], budget: str, changes: Mapping[str, Any], out: Path
) -> list[Job]:
    """The jobs, whole seeds first: what is there early is comparable over problems."""
    if budget not in BUDGETS:
        raise ConfigError(f"--budget {budget!r} must be one of {', '.join(BUDGETS)}.")
    recipe = "paper" if budget == "paper" else f"paper-{budget}"
    if changes:
        # A variation carries its settings in its name, so that its rows are never taken for the paper's.
        recipe += f"[{','.join(f'{key}={value}' for key, value in sorted(changes.items()))}]"
    if "/" in recipe:
        raise ConfigError(f"--set values must not hold a slash: they name a folder, '{recipe}'.")
    settings = {**BUDGETS[budget].changes, **changes}
    return [Job(str(out), recipe, name, seed, settings, budget) for seed in seeds for name in problems]


def steps_of(config: Config) -> int:
    """The training steps of a job: its methods share the warm-up."""
    training = config.training
    return training.warmup + len(METHODS) * (training.steps - training.warmup)


def parse_seeds(text: str) -> list[int]:
    """`5` -> 0, 1, 2, 3, 4; `3,4` -> 3, 4; `2-4` -> 2, 3, 4."""
    try:
        if text.isdecimal():
            seeds = list(range(int(text)))
        else:
            ends = [part.split("-") for part in text.split(",") if part.strip()]
            seeds = [seed for first, *last in ends for seed in range(int(first), int(*last or (first,)) + 1)]
        if not seeds or len(set(seeds)) < len(seeds):
            raise ValueError
    except (TypeError, ValueError):
        raise ConfigError(
            f"--seeds {text!r} must be a number of seeds (5: 0 to 4), a list (3,4) or a range (2-4)."
        ) from None
    return seeds
