"""What a campaign consists of: one job for each problem and seed."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from stablepdenet.errors import ConfigError
from stablepdenet.experiments.config import SUITES, Config, flatten, override
from stablepdenet.experiments.recipes import RECIPES
from stablepdenet.experiments.results import load_result, path_of
from stablepdenet.experiments.runs import label, resolve
from stablepdenet.experiments.training import SOLVED
from stablepdenet.experiments.training.run import load_config
from stablepdenet.training.objectives import METHODS

# Rows of the parameters after the last step stand beside those of the best ones.
LAST = "-last"
# A campaign sets these itself.
OWN = ("seed", "recipe", "method.name", "problem.name", "problem.fingerprint")
LONGEST, MOST_SEEDS, LARGEST_SEED = 200, 10_000, 2**32 - 1


class Budget(NamedTuple):
    """What is changed in each recipe, how many test inputs are measured (None: as many as the paper has), and what
    parts of the audit are made on fewer."""

    changes: dict[str, dict[str, Any]]
    tests: int | None
    searched: tuple[str, ...]


SHORT: dict[str, dict[str, Any]] = {
    **{suite: {"training.steps": 5_000, "training.warmup": 1_000, "training.refresh": 500} for suite in SUITES},
    "robust": {"training.steps": 1_000},
}
BUDGETS = {
    "paper": Budget({recipe: {} for recipe in SHORT}, None, ("lipschitz", "attacks", "certificates", "unseen")),
    "quick": Budget(SHORT, 200, ("lipschitz",)),
}


@dataclass(frozen=True)
class Job:
    """A recipe on one problem from one seed (of a suite: its three methods): trained, audited, and written below
    `out`.

    `base` is the recipe, `recipe` its name with the settings that were changed; `label` is the problem with its options
    where they are not the paper's; `changes` are all settings that are not the recipe's own.
    """

    out: str
    base: str
    recipe: str
    problem: str
    label: str
    seed: int
    changes: dict[str, Any]
    budget: str

    @property
    def name(self) -> str:
        return f"{self.label} seed {self.seed}"

    @property
    def runs(self) -> Path:
        """Where it trains."""
        return Path(self.out) / "runs" / self.recipe / self.label / f"seed-{self.seed}"

    @property
    def path(self) -> Path:
        """Where its rows are."""
        return path_of(Path(self.out), self.recipe, self.label, self.seed)

    @property
    def done(self) -> bool:
        """They are written in one piece, the best parameters' last."""
        last = path_of(Path(self.out), self.recipe + LAST, self.label, self.seed)
        return self.path.exists() and (self.base not in SUITES or last.exists())

    def dump(self) -> str:
        """As text, for another process."""
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def load(cls, text: str) -> Job:
        return cls(**json.loads(text))


def make_jobs(
    problems: Sequence[str],
    seeds: Sequence[int],
    budget: str,
    changes: Mapping[str, Any],
    out: Path,
    *,
    base: str = "paper",
) -> tuple[list[Job], dict[str, int]]:
    """The jobs, whole seeds first (what is there early is comparable over problems), and how many training steps a job
    of each problem has. Every name and setting is checked here, and that what is done was done with them."""
    if budget not in BUDGETS:
        raise ConfigError(f"--budget {budget!r} must be one of {', '.join(BUDGETS)}.")
    own = next((key for key in changes if key in OWN), None)
    if own:
        raise ConfigError(f"--set {own} is for a campaign to set: choose problems and --seeds instead.")
    if base not in RECIPES:
        raise ConfigError(f"--recipe {base!r} must be one of {', '.join(RECIPES)}.")
    settings = {**BUDGETS[budget].changes[base], **changes}
    configs = {name: resolve(name, settings, recipe=base)[1] for name in problems}
    recipe = _recipe(base, budget, changes, next(iter(configs.values())))
    jobs = [
        Job(str(out), base, recipe, name, label(configs[name]), seed, settings, budget)
        for seed in seeds
        for name in problems
    ]
    for job in jobs:
        _require_same(job, override(configs[job.problem], {"seed": job.seed}))
    return jobs, {label(config): steps_of(config) for config in configs.values()}


def _recipe(base: str, budget: str, changes: Mapping[str, Any], config: Config) -> str:
    """A variation carries its settings in its name, so that its rows are never taken for the paper's."""
    name = base if budget == "paper" else f"{base}-{budget}"
    resolved = flatten(config.as_dict())
    if changes:
        name += f"[{','.join(f'{key}={resolved[key]}' for key in sorted(changes))}]"
    if "/" in name or len((name + LAST).encode()) > LONGEST:
        raise ConfigError(f"--set gives the recipe a name that no folder can have: {name!r}; change fewer settings.")
    return name


def _require_same(job: Job, config: Config) -> None:
    """Refuses results that other settings made: they would be averaged with the new ones."""
    if not job.done:
        return
    kept = load_result(job.path).settings
    # Read as a configuration: a setting that did not exist yet had its default value.
    stored = flatten(load_config(kept.get("pi", kept.get(job.base)), job.path).as_dict())
    wanted = flatten((override(config, {"method.name": "pi"}) if "pi" in kept else config).as_dict())
    for key in sorted(stored.keys() | wanted.keys()):
        if stored.get(key) != wanted.get(key):
            raise ConfigError(
                f"'{job.path}' was made with {key} = {stored.get(key)!r}, not {wanted.get(key)!r}: move it away, or "
                "choose another --out."
            )


def steps_of(config: Config) -> int:
    """The training steps of a job: its methods share the warm-up."""
    training = config.training
    if config.operator.kind == SOLVED:
        return 0
    if config.recipe not in SUITES:
        return training.steps
    return training.warmup + len(METHODS) * (training.steps - training.warmup)


def parse_seeds(text: str) -> list[int]:
    """`5` -> 0, 1, 2, 3, 4; `3,4` -> 3, 4; `2-4` -> 2, 3, 4."""
    try:
        parts = [f"0-{int(text) - 1}"] if text.isdecimal() else [part for part in text.split(",") if part.strip()]
        ends = [[int(end) for end in part.split("-")] for part in parts]
        ranges = [range(first, (last[0] if last else first) + 1) for first, *last in ends]
        if any(len(pair) > 2 for pair in ends) or any(not 0 <= end <= LARGEST_SEED for pair in ends for end in pair):
            raise ValueError
        if sum(map(len, ranges)) > MOST_SEEDS:
            raise ValueError
        seeds = [seed for part in ranges for seed in part]
        if not seeds or len(set(seeds)) < len(seeds):
            raise ValueError
    except ValueError:
        raise ConfigError(
            f"--seeds {text!r} must be a number of seeds (5: 0 to 4), a list (3,4) or a range (2-4; 3-3 for one), of "
            f"whole numbers up to {LARGEST_SEED}."
        ) from None
    return seeds
