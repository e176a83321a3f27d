"""Figures from numbers: one colour per method throughout, colour-blind safe."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib
import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter
from numpy import ndarray

from stablepdenet.experiments.report.names import method_title, methods_in_order

# Okabe and Ito's palette; the last three are for methods that are not the paper's.
COLOURS = {"pi": "#D55E00", "adv": "#0072B2", "stable": "#009E73"}
MARKERS = {"pi": "s", "adv": "^", "stable": "o"}
OTHERS = (("#CC79A7", "D"), ("#E69F00", "v"), ("#56B4E9", "P"))
GREY = "0.55"
STYLE: dict[Any, Any] = {
    "font.size": 9,
    "axes.titlesize": 9,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.6,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "legend.frameon": False,
    "legend.fontsize": 8,
    "svg.hashsalt": "figure",
}
WIDTH = 7.2  # inches


class Look(NamedTuple):
    """How a method appears in every figure."""

    title: str
    colour: str
    marker: str


def looks_of(methods: Iterable[str]) -> dict[str, Look]:
    """One look for each method; the paper's have theirs whatever the others are."""
    ordered = methods_in_order(methods)
    own = [name for name in ordered if name not in COLOURS]
    colours = COLOURS | {name: OTHERS[i % len(OTHERS)][0] for i, name in enumerate(own)}
    markers = MARKERS | {name: OTHERS[i % len(OTHERS)][1] for i, name in enumerate(own)}
    return {name: Look(plain(method_title(name)), colours[name], markers[name]) for name in ordered}


def plain(text: str) -> str:
    """A name that matplotlib must not read as mathematics."""
    return text.replace("$", r"\$")


def perturbation_figure(
    x_input: Float[ndarray, " m"],
    inputs: Mapping[str, Float[ndarray, " m"]],
    x: Float[ndarray, " n"],
    references: Mapping[str, Float[ndarray, " n"]],
    predictions: Mapping[str, Mapping[str, Float[ndarray, " n"]]],
    *,
    looks: Mapping[str, Look],
    input_label: str,
    solution_label: str = "$u(x)$",
    base: str | None = None,
) -> Figure:
    """The paper's Fig. 1dpoisson: a row per setting (clean, perturbed); left the input, right the predictions and the
    reference solved for that input. `predictions[setting][method]` are values at x. Rows other than the `base` show its
    input and reference in grey, so that the change is seen."""
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(WIDTH, 2.2 * len(inputs) + 0.4), layout="constrained")
        rows = figure.subplots(len(inputs), 2, squeeze=False, sharex=True, sharey="col")
        every = max(1, len(np.atleast_1d(x)) // 12)
        for (left, right), setting in zip(rows, inputs, strict=True):
            if base is not None and setting != base:
                left.plot(x_input, inputs[base], color=GREY, lw=1.0, ls="--")
                right.plot(x, references[base], color=GREY, lw=1.6, ls="--", label=f"reference, {base} input")
            left.plot(x_input, inputs[setting], color="black", lw=1.2)
            right.plot(x, references[setting], color="black", lw=2.2, label="reference")
            for number, (method, u) in enumerate(predictions[setting].items()):
                title, colour, marker = looks[method]
                # Shifted, so that markers of curves that agree stand side by side.
                marks = (number * every // max(1, len(looks)), every)
                right.plot(x, u, color=colour, lw=1.2, marker=marker, ms=3.5, markevery=marks, label=title)
            left.set(title=f"{plain(setting)} input", ylabel=input_label)
            right.set(title=f"solutions, {plain(setting)} input", ylabel=solution_label)
        for axis in rows.flat:
            axis.margins(x=0.01)
        for axis in rows[-1]:
            axis.set_xlabel("$x$")
        legend_below(figure, rows.flat)
        return figure


def log_scale(axis: Axes) -> None:
    """A logarithmic y axis; where it spans less than two decades, numbers between the powers of ten."""
    axis.set_yscale("log")
    low, high = axis.get_ylim()
    if high < 100 * low:
        axis.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.yaxis.set_major_formatter("{x:g}")
    axis.yaxis.set_minor_formatter(NullFormatter())


def legend_below(figure: Figure, axes: Iterable[Axes]) -> None:
    """One legend for all axes, outside of them, where it covers no data."""
    handles = {name: line for axis in axes for line, name in zip(*axis.get_legend_handles_labels(), strict=True)}
    figure.legend(handles.values(), handles, loc="outside lower center", ncols=min(5, len(handles) or 1))


def curve_figure(rows: Sequence[Mapping[str, Any]]) -> Figure | None:
    """Errors and gains over the radius: each model's worst case (solid) and the common perturbation (dashed); black is
    the response that physics asks for. None where the rows hold no curve."""
    styles = {"whitebox": "-", "common": "--"}
    gains = [row for row in rows if row["attack"] in styles and row["metric"] == "kappa_E"]
    methods = list(dict.fromkeys(row["method"] for row in gains))
    curves = {
        (method, attack, metric): _curve(rows, method, attack, metric)
        for method in methods
        for attack in styles
        for metric in ("relative_l2", "kappa_E", "kappa_S")
    }
    if max((len(eps) for eps, _ in curves.values()), default=0) < 3:
        return None
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(WIDTH, 3.4), layout="constrained")
        left, right = figure.subplots(1, 2)
        for method, look in looks_of(methods).items():
            for attack, style in styles.items():
                for axis, metric in ((left, "relative_l2"), (right, "kappa_E")):
                    name = f"{look.title}, {attack}" if axis is left else None
                    line = {"color": look.colour, "marker": look.marker, "ms": 3.5, "label": name}
                    axis.plot(*curves[method, attack, metric], ls=style, lw=1.2, **line)
        # The same for all models under the common perturbation.
        right.plot(*curves[methods[0], "common", "kappa_S"], color="black", lw=2.2, label=r"$\kappa_S$, common")
        for axis, name in ((left, "relative $L^2$ error"), (right, r"response error $\kappa_E$")):
            axis.set(xlabel=r"radius $\varepsilon$", ylabel=name)
            log_scale(axis)
        figure.legend(loc="outside lower center", ncols=4, fontsize=7)
        return figure


def _curve(rows: Sequence[Mapping[str, Any]], method: str, attack: str, metric: str) -> tuple[list[float], list[float]]:
    place = {"method": method, "attack": attack, "metric": metric}
    found = {float(row["setting"]): row["value"] for row in rows if place.items() <= row.items()}
    clean = {**place, "attack": "none", "setting": "clean"}
    for row in rows:
        if clean.items() <= row.items():
            found[0.0] = row["value"]
    return sorted(found), [found[eps] for eps in sorted(found)]


def save_figure(figure: Figure, path: Path) -> None:
    """Writes the figure in the format that the file's ending names."""
    with matplotlib.rc_context(STYLE):
        figure.savefig(path, dpi=160)
