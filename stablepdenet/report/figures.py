"""Figures from numbers: one colour per method throughout, colour-blind safe."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from jaxtyping import Float
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter
from numpy import ndarray

from stablepdenet.methods import TITLES

# Okabe and Ito's palette.
COLOURS = {"pi": "#D55E00", "adv": "#0072B2", "stable": "#009E73"}
MARKERS = {"pi": "s", "adv": "^", "stable": "o"}
STYLE: dict[Any, Any] = {
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    "svg.hashsalt": "figure",
}


def perturbation_figure(
    x_input: Float[ndarray, " m"],
    inputs: Mapping[str, Float[ndarray, " m"]],
    x: Float[ndarray, " n"],
    references: Mapping[str, Float[ndarray, " n"]],
    predictions: Mapping[str, Mapping[str, Float[ndarray, " n"]]],
    *,
    input_label: str,
) -> Figure:
    """The paper's Fig. 1dpoisson: a row per setting (clean, perturbed); left the input, right the predictions and the
    reference solved for that input. `predictions[setting][method]` are values at x."""
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(7.2, 2.5 * len(inputs)), layout="constrained")
        rows = figure.subplots(len(inputs), 2, squeeze=False, sharex=True)
        for (left, right), setting in zip(rows, inputs, strict=True):
            left.plot(x_input, inputs[setting], color="black", lw=1.2)
            left.set_title(f"{setting} input", loc="left")
            left.set_ylabel(input_label)
            right.plot(x, references[setting], color="black", lw=2.2, label="reference")
            for method, u in predictions[setting].items():
                every = max(1, len(np.atleast_1d(x)) // 12)
                right.plot(
                    x,
                    u,
                    color=COLOURS[method],
                    lw=1.2,
                    marker=MARKERS[method],
                    ms=3.5,
                    markevery=every,
                    label=TITLES[method],
                )
            right.set_title(f"solutions, {setting} input", loc="left")
            right.set_ylabel("$u(x)$")
        for axis in rows[-1]:
            axis.set_xlabel("$x$")
        rows[0][1].legend(fontsize=8)
        return figure


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
        figure = Figure(figsize=(7.2, 3.4), layout="constrained")
        left, right = figure.subplots(1, 2)
        for number, method in enumerate(methods):
            look = {"color": COLOURS.get(method, f"C{number}"), "marker": MARKERS.get(method, "o"), "ms": 3.5}
            for attack, style in styles.items():
                for axis, metric in ((left, "relative_l2"), (right, "kappa_E")):
                    name = f"{TITLES.get(method, method)}, {attack}" if axis is left else None
                    axis.plot(*curves[method, attack, metric], ls=style, lw=1.2, label=name, **look)
        # The same for all models under the common perturbation.
        right.plot(*curves[methods[0], "common", "kappa_S"], color="black", lw=2.2, label=r"$\kappa_S$, common")
        for axis, name in ((left, "relative $L^2$ error"), (right, r"response error $\kappa_E$")):
            axis.set(xlabel=r"radius $\varepsilon$", ylabel=name, yscale="log")
            axis.yaxis.set_minor_formatter(NullFormatter())
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
