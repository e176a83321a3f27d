"""The registered problems, by name."""

from __future__ import annotations

import difflib
import inspect
import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NoReturn

from stablepdenet.errors import ConfigError, shown
from stablepdenet.experiments.problems.burgers import ColeHopfReference, burgers
from stablepdenet.experiments.problems.heat import heat
from stablepdenet.experiments.problems.helmholtz import helmholtz
from stablepdenet.experiments.problems.poisson import poisson
from stablepdenet.problems import Problem

PROBLEMS: dict[str, Callable[..., Problem]] = {
    "heat": heat,
    "poisson": poisson,
    "burgers": burgers,
    "helmholtz-3.5pi": partial(helmholtz, kappa=3.5 * math.pi, name="helmholtz-3.5pi"),
    "helmholtz-3pi+0.5": partial(helmholtz, kappa=3 * math.pi + 0.5, name="helmholtz-3pi+0.5"),
    "helmholtz-3pi+0.1": partial(helmholtz, kappa=3 * math.pi + 0.1, name="helmholtz-3pi+0.1"),
    "helmholtz": helmholtz,
}


def make_problem(name: str, options: Mapping[str, Any] | None = None) -> Problem:
    """The registered problem `name`, e.g. `make_problem("helmholtz", {"kappa": 10.0})`."""
    complete = complete_options(name, options or {})
    return PROBLEMS[name](**complete)


def complete_options(name: str, options: Mapping[str, Any]) -> dict[str, int | float]:
    """All options of the problem `name`: its defaults with `options` over them, each checked."""
    factory = PROBLEMS.get(name) or _unknown(name)
    fixed = factory.keywords if isinstance(factory, partial) else {}
    known = {key: p.default for key, p in inspect.signature(factory).parameters.items() if key not in {"name", *fixed}}
    for key, value in options.items():
        if key not in known:
            raise ConfigError(f"Unknown key 'problem.{key}' for {name}: it has {', '.join(known)}.")
        whole = isinstance(known[key], int)
        # What has so many points, or sensors, does not fit into a machine.
        low, high = (2, 1_000_000) if whole else (0, 1e9)
        good = isinstance(value, int | float) and not isinstance(value, bool) and low <= value <= high
        if not good or not value or (whole and value != int(value)):
            kind = "whole number of at least 2" if whole else "positive number"
            raise ConfigError(f"problem.{key} = {shown(value)} must be a {kind}, and at most {high:g}.")
        known[key] = type(known[key])(value)
    return known


def _unknown(name: str) -> NoReturn:
    near = difflib.get_close_matches(name, PROBLEMS, n=1, cutoff=0.5)
    hint = f" Did you mean '{near[0]}'?" if near else ""
    raise ConfigError(f"Unknown problem '{name}': choose one of {', '.join(PROBLEMS)}.{hint}")


__all__ = [
    "PROBLEMS",
    "ColeHopfReference",
    "burgers",
    "complete_options",
    "heat",
    "helmholtz",
    "make_problem",
    "poisson",
]
