"""Figures over seeds: every seed a point, or a band."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from stablepdenet.experiments.report.figures import STYLE, WIDTH, Look, legend_below, log_scale, plain

# Values of the seeds, by method.
Seeds = Mapping[str, Sequence[float]]
# Values of the seeds, by step.
Curve = Mapping[int, Sequence[float]]

COLUMNS = 3


def gains_figure(gains: Mapping[str, Mapping[str, Seeds]], *, looks: Mapping[str, Look]) -> Figure:
    """Panels of gains over the radius, on one scale: `gains[label][radius][method]`."""
    radii = list(dict.fromkeys(radius for panel in gains.values() for radius in panel))
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(WIDTH, 2.6), layout="constrained")
        panels = figure.subplots(1, len(gains), squeeze=False, sharey=True)[0]
        for axis, (label, panel) in zip(panels, gains.items(), strict=True):
            for place, radius in enumerate(radii):
                _points(axis, panel.get(radius, {}), looks, place)
            axis.set(title=label, xlabel=r"$\varepsilon$", xlim=(-0.5, len(radii) - 0.5))
            axis.set_xticks(range(len(radii)), radii)
        panels[0].set_ylabel("gain")
        for axis in panels:
            log_scale(axis)
        legend_below(figure, panels)
        return figure


def lipschitz_figure(constants: Mapping[str, tuple[Seeds, float | None]], *, looks: Mapping[str, Look]) -> Figure:
    """A panel for each problem: the learned constants of every seed, and a line for the exact one."""
    height = -(-len(constants) // COLUMNS)
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(WIDTH, 2.0 * height + 0.4), layout="constrained")
        panels = list(figure.subplots(height, COLUMNS, squeeze=False).flat)
        for axis, (title, (learned, exact)) in zip(panels, constants.items(), strict=False):
            _points(axis, learned, looks, 0)
            if exact is not None:
                axis.axhline(exact, color="black", lw=1.2, ls="--", label="exact")
            axis.set(title=plain(title), xlim=(-0.5, 0.5), xticks=[])
            axis.margins(y=0.15)
        for axis in panels[len(constants) :]:
            axis.set_visible(False)
        for axis in panels[::COLUMNS]:
            axis.set_ylabel("Lipschitz constant")
        legend_below(figure, panels)
        return figure


def training_figure(
    curves: Mapping[str, Mapping[str, Curve]], *, looks: Mapping[str, Look], warmup: int | None
) -> Figure:
    """Panels of losses over the steps: `curves[label][method]`; the median of the seeds in the band of their range. A
    dotted line marks where the methods part."""
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(WIDTH, 2.7), layout="constrained")
        panels = figure.subplots(1, len(curves), squeeze=False, sharey=True, sharex=True)[0]
        for axis, (label, methods) in zip(panels, curves.items(), strict=True):
            for method, curve in methods.items():
                title, colour, _ = looks[method]
                steps = sorted(curve)
                axis.plot(steps, [np.median(curve[step]) for step in steps], color=colour, lw=1.2, label=title)
                low, high = ([edge(curve[step]) for step in steps] for edge in (min, max))
                axis.fill_between(steps, low, high, color=colour, alpha=0.2, lw=0)
            if warmup:
                axis.axvline(warmup, color="0.55", lw=0.8, ls=":")
            axis.set(title=label, xlabel="step")
        for axis in panels:
            log_scale(axis)
        panels[0].set_ylabel("loss")
        legend_below(figure, panels)
        return figure


def _points(axis: Axes, seeds: Seeds, looks: Mapping[str, Look], place: int) -> None:
    """The seeds around x = place, each method beside the other, over a bar at their mean."""
    slot = 0.8 / len(looks)
    for number, (method, (title, colour, marker)) in enumerate(looks.items()):
        values = seeds.get(method, ())
        if values:
            middle = place + slot * (number - (len(looks) - 1) / 2)
            x = middle + 0.6 * slot * np.linspace(-0.5, 0.5, len(values) + 2)[1:-1]
            axis.hlines(np.mean(values), middle - 0.4 * slot, middle + 0.4 * slot, color=colour, lw=1.2)
            axis.plot(x, values, ls="", marker=marker, color=colour, ms=4, mew=0, label=title)
