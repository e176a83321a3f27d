"""Which figures a campaign has: from stored results to pictures with captions."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from matplotlib.figure import Figure
from numpy import ndarray

from stablepdenet.experiments.report import names
from stablepdenet.experiments.report.figures import Look, curve_figure, looks_of, perturbation_figure
from stablepdenet.experiments.report.maps import map_figure
from stablepdenet.experiments.report.snapshot import Snapshot, profile
from stablepdenet.experiments.report.spreads import Curve, gains_figure, lipschitz_figure, training_figure
from stablepdenet.experiments.report.summary import Summary
from stablepdenet.experiments.results import Result

Looks = Mapping[str, Look]
GAINS = {"kappa_S": r"$\kappa_S$", "kappa_G": r"$\kappa_G$", "kappa_E": r"$\kappa_E$", "kappa_r": r"$\kappa_r$"}
LOSSES = {
    "loss": "training loss",
    "validation_clean": "validation loss, clean",
    "validation_attacked": "validation loss, attacked",
}


class Picture(NamedTuple):
    """A figure and what it shows, in the words of `names`."""

    figure: Figure
    caption: str


def field_pictures(fields: Mapping[str, ndarray], problem: str, seed: int, looks: Looks) -> Iterator[Picture]:
    """The paper's figures of one test input, clean and perturbed, and of the unseen ones."""
    shot = Snapshot.read(fields)
    if shot is None:
        return
    # A method may have fields but no rows.
    looks = looks_of(method for methods in shot.predictions.values() for method in methods) | dict(looks)
    title, place = names.problem_title(problem), f"seed {seed}"
    clean = "clean" in shot.inputs
    if shot.radii:
        radius = shot.radii[0]
        settings = {**({"clean": "clean"} if clean else {}), "perturbed": radius}
        yield Picture(
            _profiles(shot, settings, problem, looks, base="clean" if clean else None),
            f"{title}: a test input, clean and under the common perturbation (ε = {radius}), with the solutions"
            f"{shot.moment}. Grey: the clean input and its reference ({place}).",
        )
        yield from _maps(shot, radius, f"{title}: errors on the perturbed input (ε = {radius}; {place}).", looks)
    elif clean:
        figure = _profiles(shot, {"clean": "clean"}, problem, looks)
        yield Picture(figure, f"{title}: a test input and the solutions{shot.moment} ({place}).")
    if shot.unseen:
        figure = _profiles(shot, {name: name for name in shot.unseen}, problem, looks)
        listed = ", ".join(shot.unseen)
        yield Picture(figure, f"{title}: unseen inputs ({listed}) and the solutions{shot.moment} ({place}).")
        for name in shot.unseen:
            yield from _maps(shot, name, f"{title}: errors on the unseen input {name} ({place}).", looks)


def gains_pictures(summary: Summary, recipe: str, problem: str, looks: Looks) -> Iterator[Picture]:
    """The response gains under the common perturbation, at the paper's radii or what there is instead."""
    own = {
        place: mean
        for place, mean in summary.items()
        if place[:2] == (recipe, problem) and place.attack == "common" and place.metric in GAINS
    }
    radii = names.settings_in_order(place.setting for place in own)
    chosen = ([radius for radius in radii if radius in ("0.05", "0.10")] or radii)[:2]
    gains: dict[str, dict[str, dict[str, Sequence[float]]]] = {label: {} for label in GAINS.values()}
    for radius in chosen:
        for place, mean in own.items():
            if place.setting == radius:
                panel = gains[GAINS[place.metric]]
                panel.setdefault(radius, {})[place.method] = list(mean.values.values())
    if own:
        yield Picture(
            gains_figure(gains, looks=looks),
            f"{names.problem_title(problem)}: response gains under the common perturbation, "
            f"ε = {' and '.join(chosen)}. A point for each seed, a bar at their mean.",
        )


def radius_pictures(summary: Summary, recipe: str, problem: str) -> Iterator[Picture]:
    """Errors and gains over the radius, where more of them were measured than the tables' two."""
    rows = [
        {**place._asdict(), "value": mean.mean}
        for place, mean in summary.items()
        if place[:2] == (recipe, problem) and (place.setting == "clean" or names.is_radius(place.setting))
    ]
    figure = curve_figure(rows) if len({row["setting"] for row in rows} - {"clean"}) > 2 else None
    if figure:
        yield Picture(figure, f"{names.problem_title(problem)}: errors and gains over the radius, mean over the seeds.")


def training_pictures(results: Sequence[Result], looks: Looks) -> Iterator[Picture]:
    """Losses over the steps; all results are of one problem."""
    curves = {label: _curves(results, column) for column, label in LOSSES.items()}
    curves = {label: methods for label, methods in curves.items() if methods}
    warmups = {
        settings.get("training", {}).get("warmup") for result in results for settings in result.settings.values()
    }
    if curves:
        yield Picture(
            training_figure(curves, looks=looks, warmup=warmups.pop() if len(warmups) == 1 else None),
            f"{names.problem_title(results[0].problem)}: losses in training, the median over the seeds in the band of "
            "their range. From the dotted line on, the methods differ; with the sensitivity term, its share is "
            "included in the training loss.",
        )


def lipschitz_pictures(summary: Summary, recipe: str, looks: Looks) -> Iterator[Picture]:
    """Learned and exact Lipschitz constants of all problems."""
    learned: dict[str, dict[str, Sequence[float]]] = {}
    exact: dict[str, float] = {}
    for place, mean in summary.items():
        title = names.problem_title(place.problem)
        if place.recipe == recipe and place.metric == "lipschitz_mean":
            learned.setdefault(title, {})[place.method] = list(mean.values.values())
        elif place.recipe == recipe and place.metric == "lipschitz_exact_mean":
            exact[title] = mean.mean
    if learned:
        yield Picture(
            lipschitz_figure({name: (seeds, exact.get(name)) for name, seeds in learned.items()}, looks=looks),
            "Local Lipschitz constants, mean over the test inputs. A point for each seed, a bar at their mean; dashed: "
            "the exact constant.",
        )


def _profiles(
    shot: Snapshot, settings: Mapping[str, str], problem: str, looks: Looks, base: str | None = None
) -> Figure:
    """Inputs and solutions of some settings, by the names they get in the figure."""
    return perturbation_figure(
        shot.axes[0],
        {title: shot.inputs[name] for title, name in settings.items()},
        shot.axes[0],
        {title: profile(shot.references[name]) for title, name in settings.items()},
        {
            title: {method: profile(u) for method, u in shot.predictions[name].items()}
            for title, name in settings.items()
        },
        looks=looks,
        input_label=names.equation_of(problem).symbol,
        solution_label=shot.label,
        base=base,
    )


def _maps(shot: Snapshot, setting: str, caption: str, looks: Looks) -> Iterator[Picture]:
    if len(shot.axes) == 2:
        figure = map_figure(*shot.axes, shot.references[setting], shot.predictions[setting], looks=looks)
        yield Picture(figure, caption)


def _curves(results: Sequence[Result], column: str) -> dict[str, Curve]:
    """What was measured, by method and step; only positive numbers have a place on a logarithmic scale."""
    found: dict[str, dict[int, list[float]]] = {}
    for result in results:
        for method, curve in result.curves.items():
            for step, value in zip(curve.get("step", ()), curve.get(column, ()), strict=False):
                if step is not None and value is not None and 0 < value < math.inf:
                    found.setdefault(method, {}).setdefault(int(step), []).append(value)
    return {method: found[method] for method in names.methods_in_order(found)}
