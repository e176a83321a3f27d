"""What residuals with constant coefficients say: the constants, and the problem's data as values at Gauss points.

Data that are no polynomials between breaks are known up to how far they are from these at further points.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float
from numpy import ndarray

from stablepdenet.functions.points import grid
from stablepdenet.spectral.bounds.cells import BETWEEN, at_places
from stablepdenet.spectral.bounds.enclosure import SAMPLED
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
    corners, nothing = _corners(form, axes, a), np.zeros((len(a), 1))
    lift = corners @ corner_functions(axes, nodes).T
    start, off_start = np.zeros(shape), nothing
    if form.start is not None:
        values = form.values(form.start, a, nodes)
        start, off_start = (values - lift).reshape(shape), _off(axes, values, form.values(form.start, a, between))
    return Data(
        k=tuple(k),
        c=c,
        corners=corners,
        start=start,
        source=(own.f - c * lift).reshape(shape),
        off_sides=_off_sides(form, axes, a, corners) if form.sides else nothing,
        off_start=off_start,
        off_source=_off(axes, own.f, other.f),
        sound=np.all([own.sound, other.sound, *same, *without], axis=0),
    )


def corner_functions(axes: list[Modes], points: Float[ndarray, "n space"]) -> Float[ndarray, "n corners"]:
    """Functions that are linear along each coordinate, one at a corner, zero at the others; constant along periods."""
    product = np.ones((len(points), 1))
    for number, axis in enumerate(axes):
        if not axis.periodic:
            share = (points[:, number] - axis.cells.edges[0]) / axis.length
            pair = np.stack([1.0 - share, share], axis=1)
            product = (product[:, :, None] * pair[:, None, :]).reshape(len(points), -1)
    return product


def _corners(form: Form, axes: list[Modes], a: Float[ndarray, "batch m"]) -> Float[ndarray, "batch corners"]:
    """The values at the corners, as a side says that has them; at the lower end of periods."""
    bounded = [number for number, axis in enumerate(axes) if not axis.periodic]
    if not bounded:
        return np.zeros((len(a), 1))
    found = []
    for corner in np.ndindex(*(2,) * len(bounded)):
        where = np.array([[axis.cells.edges[0] for axis in axes]])
        for number, end in zip(bounded, corner, strict=True):
            where[0, number] = axes[number].cells.edges[-end]
        found.append(form.values(form.sides[bounded[0], corner[0]], a, where))
    return np.concatenate(found, axis=1)


def _off_sides(
    form: Form, axes: list[Modes], a: Float[ndarray, "batch m"], corners: Float[ndarray, "batch corners"]
) -> Columns:
    """How far the sides' values may be from those of the corners' functions."""
    found = []
    for (number, end), region in form.sides.items():
        along = [np.concatenate([axis.cells.edges, axis.cells.nodes, axis.cells.between]) for axis in axes]
        along[number] = axes[number].cells.edges[[-end]]
        where = grid(*along)
        found.append(np.abs(form.values(region, a, where) - corners @ corner_functions(axes, where).T))
    return SAMPLED * np.max(np.concatenate(found, axis=1), axis=1, keepdims=True)


def _off(axes: list[Modes], values: Float[ndarray, "batch n"], others: Float[ndarray, "batch p"]) -> Columns:
    """How far a function may be from polynomials of cells, by its values at the Gauss points, and at others."""
    found = values.reshape(len(values), *(len(axis.cells.nodes) for axis in axes))
    for number, axis in enumerate(axes):
        own = np.moveaxis(found, 1 + number, -1)
        own = own.reshape(*own.shape[:-1], axis.cells.count, -1) @ at_places(BETWEEN).T
        found = np.moveaxis(own.reshape(*own.shape[:-2], -1), -1, 1 + number)
    return SAMPLED * np.max(np.abs(found.reshape(len(values), -1) - others), axis=1, keepdims=True)
