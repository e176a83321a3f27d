"""Rows of several seeds -> means beside the paper's numbers."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from stablepdenet.errors import CheckpointError
from stablepdenet.experiments.report import names, paper
from stablepdenet.experiments.results import Result, path_of


class Place(NamedTuple):
    """What tells the numbers of a campaign apart, seeds aside."""

    recipe: str
    problem: str
    method: str
    attack: str
    setting: str
    metric: str


class Mean(NamedTuple):
    """A number by seed, its mean, and the paper's. `std` is the sample deviation: None with one seed."""

    values: dict[int, float]
    mean: float
    std: float | None
    paper: float | None
    ratio: float | None


Summary = dict[Place, Mean]


def summarise(results: Sequence[Result]) -> Summary:
    """Means over the seeds: recipes, problems, methods and settings in the order of the tables."""
    found: dict[Place, dict[int, float]] = {}
    for result in results:
        for place, value in _places(result):
            found.setdefault(place, {})[result.seed] = value
    return {place: _mean(place, found[place]) for place in _sorted(found)}


def as_json(summary: Summary) -> list[dict[str, Any]]:
    """The summary as plain objects; a radius is a number, that of clean inputs 0, and null where there is none."""
    return [
        {
            "recipe": place.recipe,
            "problem": place.problem,
            "method": place.method,
            "attack": place.attack,
            "setting": place.setting,
            "eps": _radius(place),
            "metric": place.metric,
            "mean": found.mean,
            "std": found.std,
            "seeds": len(found.values),
            "paper": found.paper,
            "ratio": found.ratio,
        }
        for place, found in summary.items()
    ]


def recipes_of(results: Iterable[Result | Place]) -> list[str]:
    """The paper's first."""
    return names.in_order((result.recipe for result in results), ["paper", "plain"])


def _places(result: Result) -> Iterable[tuple[Place, float]]:
    try:
        for row in result.rows:
            place = Place(result.recipe, result.problem, *(str(row[key]) for key in Place._fields[2:]))
            if math.isfinite(row["value"]):  # type: ignore[arg-type]
                yield place, float(row["value"])
    except (KeyError, TypeError, ValueError):
        path = path_of(Path(), result.recipe, result.problem, result.seed)
        raise CheckpointError(
            f"'{path}' has a row that no audit wrote: delete the file and run `stablepdenet reproduce` again."
        ) from None


def _mean(place: Place, values: dict[int, float]) -> Mean:
    mean = statistics.fmean(values.values())
    printed = paper.printed(*place[1:])
    return Mean(
        values,
        mean,
        statistics.stdev(values.values()) if len(values) > 1 else None,
        printed,
        mean / printed if printed else None,
    )


def _radius(place: Place) -> float | None:
    if place.attack != "none":
        return names.radius_of(place.setting)
    return 0.0 if place.setting == "clean" else None


def _sorted(places: Iterable[Place]) -> list[Place]:
    """By recipe, problem, method and setting; metrics and attacks stay as the audit has them."""
    places = list(places)
    orders = [
        recipes_of(places),
        names.problems_in_order(place.problem for place in places),
        names.methods_in_order(place.method for place in places),
    ]
    rank = [{name: number for number, name in enumerate(order)} for order in orders]
    return sorted(places, key=lambda place: [order[name] for order, name in zip(rank, place, strict=False)])
