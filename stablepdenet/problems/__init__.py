"""Problems: the paper's benchmarks by name, and what one of your own is made of."""

from __future__ import annotations

import difflib
import inspect
import math
from collections.abc import Callable, Mapping
from functools import partial

from stablepdenet.errors import ConfigError
from stablepdenet.problems.base import Block, Problem
from stablepdenet.problems.burgers import burgers
from stablepdenet.problems.heat import heat
from stablepdenet.problems.helmholtz import helmholtz
from stablepdenet.problems.poisson import poisson
from stablepdenet.problems.reference import LinearReference

PROBLEMS: dict[str, Callable[..., Problem]] = {
    "heat": heat,
    "poisson": poisson,
    "burgers": burgers,
    "helmholtz-3.5pi": partial(helmholtz, kappa=3.5 * math.pi, name="helmholtz-3.5pi"),
    "helmholtz-3pi+0.5": partial(helmholtz, kappa=3 * math.pi + 0.5, name="helmholtz-3pi+0.5"),
    "helmholtz-3pi+0.1": partial(helmholtz, kappa=3 * math.pi + 0.1, name="helmholtz-3pi+0.1"),
    "helmholtz": helmholtz,
}


def make_problem(name: str, options: Mapping[str, float] | None = None) -> Problem:
    """The registered problem `name`, e.g. `make_problem("helmholtz", {"kappa": 10.0})`."""
    if name not in PROBLEMS:
        near = difflib.get_close_matches(name, PROBLEMS, n=1, cutoff=0.5)
        hint = f" Did you mean '{near[0]}'?" if near else ""
        raise ConfigError(f"Unknown problem '{name}': choose one of {', '.join(PROBLEMS)}.{hint}")
    factory, options = PROBLEMS[name], dict(options or {})
    fixed = factory.keywords if isinstance(factory, partial) else {}
    known = {key: p.default for key, p in inspect.signature(factory).parameters.items() if key not in {"name", *fixed}}
    for key, value in options.items():
        if key not in known:
            raise ConfigError(f"Unknown key 'problem.{key}' for {name}: it has {', '.join(known)}.")
        kind = type(known[key])
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value <= 0:
            raise ConfigError(f"problem.{key} = {value!r} must be a positive {'whole ' if kind is int else ''}number.")
        if kind is int and (value != int(value) or value < 2):
            raise ConfigError(f"problem.{key} = {value!r} must be a whole number of at least 2.")
        options[key] = kind(value)
    return factory(**options)


__all__ = ["PROBLEMS", "Block", "LinearReference", "Problem", "burgers", "heat", "helmholtz", "make_problem", "poisson"]
