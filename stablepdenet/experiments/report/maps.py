"""Figures of space and time: a solution, and where each method is off."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import matplotlib
import numpy as np
from jaxtyping import Float
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from numpy import ndarray

from stablepdenet.experiments.report.figures import STYLE, WIDTH, Look

# Errors are told apart down to this share of the largest one.
DEPTH = 1e-3
COLUMNS = 4


def map_figure(
    x: Float[ndarray, " n"],
    t: Float[ndarray, " k"],
    reference: Float[ndarray, "n k"],
    predictions: Mapping[str, Float[ndarray, "n k"]],
    *,
    looks: Mapping[str, Look],
) -> Figure:
    """The reference solution, and the errors |u - S| of all methods on one logarithmic colour scale."""
    errors = {method: np.abs(u - reference) for method, u in predictions.items()}
    largest = (
        max((np.max(error, where=np.isfinite(error), initial=0.0) for error in errors.values()), default=0.0) or 1.0
    )
    norm = LogNorm(DEPTH * largest, largest, clip=True)
    height = -(-(1 + len(errors)) // COLUMNS)
    with matplotlib.rc_context({**STYLE, "axes.spines.top": True, "axes.spines.right": True}):
        figure = Figure(figsize=(WIDTH, 2.6 * height), layout="constrained")
        first, *others = figure.subplots(height, COLUMNS, squeeze=False, sharex=True, sharey=True).flat
        shown = first.pcolormesh(x, t, reference.T, cmap="viridis", rasterized=True)
        figure.colorbar(shown, ax=first, location="bottom", label="$S(x, t)$", aspect=14, pad=0.03)
        first.set_title("reference")
        panels = dict(zip(errors, others, strict=False))
        for method, axis in panels.items():
            shown = axis.pcolormesh(x, t, errors[method].T, norm=norm, cmap="magma", rasterized=True)
            axis.set_title(looks[method].title)
        if panels:
            axes = list(panels.values())
            look: dict[str, Any] = {"aspect": 46, "pad": 0.03, "extend": "min", "extendfrac": 0.02}
            figure.colorbar(shown, ax=axes, location="bottom", label="$|u - S|$", **look)
        for axis in others[len(panels) :]:
            axis.set_visible(False)
        for axis in (first, *panels.values()):
            axis.set_xlabel("$x$")
        first.set_ylabel("$t$")
        return figure
