"""What residuals with constant coefficients say: the constants, and the problem's data as values at Gauss points."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float
from numpy import ndarray

from stablepdenet.functions.points import grid
from stablepdenet.spectral.bounds.data import corner_functions, corner_values, off_cells, off_sides
from stablepdenet.spectral.bounds.form import Form
from stablepdenet.spectral.bounds.modes import Columns, Modes

# How far a constant's values may be from each other, of their size: rounding.
SAME = 1e-11


class Data(NamedTuple):
    """Of all inputs: constants k of each coordinate and c; u at the corners; a - l and f - c l of `boxes.py` at Gauss
    points; the largest differences of sides, start and source from these; and for which inputs all is so."""

    k: tuple[Columns, ...]
    c: Columns
    corners: Float[ndarray, "batch corners"]
    start: Float[ndarray, "batch ..."]
    source: Float[ndarray, "batch ..."]
    off_sides: Columns
    off_start: Columns
    off_source: Columns
    sound: Bool[ndarray, " batch"]


def read_data(form: Form, axes: list[Modes], a: Float[ndarray, "batch m"]) -> Data:
    """From the residuals."""
    nodes, between = grid(*(axis.cells.nodes for axis in axes)), grid(*(axis.cells.between for axis in axes))
    shape = (len(a), *(len(axis.cells.nodes) for axis in axes))
    own, other = form.equation(a, nodes), form.equation(a, between)
    constants = [np.concatenate(pair, axis=1) for pair in zip((*own.k, own.c), (*other.k, other.c), strict=True)]
    same = [np.ptp(each, axis=1) <= SAME * np.max(np.abs(each), axis=1) for each in constants]
    without = [np.all(each == 0.0, axis=1) for each in (*own.b, *other.b)]
    *k, c = (each[:, :1] for each in constants)
    corners, nothing = corner_values(form, axes, a), np.zeros((len(a), 1))
    lift = corners @ corner_functions(axes, nodes).T
    start, off_start = np.zeros(shape), nothing
    if form.start is not None:
        values = form.values(form.start, a, nodes)
        start, off_start = (values - lift).reshape(shape), off_cells(axes, values, form.values(form.start, a, between))
    return Data(
        k=tuple(k),
        c=c,
        corners=corners,
        start=start,
        source=(own.f - c * lift).reshape(shape),
        off_sides=off_sides(form, axes, a, corners) if form.sides else nothing,
        off_start=off_start,
        off_source=off_cells(axes, own.f, other.f),
        sound=np.all([own.sound, other.sound, *same, *without], axis=0),
    )
