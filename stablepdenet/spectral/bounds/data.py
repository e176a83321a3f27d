"""Data of a problem as functions that are known exactly, and how far from these they may be: linear functions for the
values on the sides, polynomials between breaks inside."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from stablepdenet.functions.points import grid
from stablepdenet.spectral.bounds.cells import BETWEEN, Cells, at_places
from stablepdenet.spectral.bounds.enclosure import SAMPLED
from stablepdenet.spectral.bounds.form import Form


@runtime_checkable
class Axis(Protocol):
    """A coordinate in cells."""

    @property
    def cells(self) -> Cells: ...

    @property
    def periodic(self) -> bool: ...

    @property
    def length(self) -> float: ...


def corner_functions(axes: Sequence[Axis], points: Float[ndarray, "n space"]) -> Float[ndarray, "n corners"]:
    """Functions that are linear along each coordinate, one at a corner, zero at the others; constant along periods."""
    product = np.ones((len(points), 1))
    for number, axis in enumerate(axes):
        if not axis.periodic:
            share = (points[:, number] - axis.cells.edges[0]) / axis.length
            pair = np.stack([1.0 - share, share], axis=1)
            product = (product[:, :, None] * pair[:, None, :]).reshape(len(points), -1)
    return product


def corner_values(form: Form, axes: Sequence[Axis], a: Float[ndarray, "batch m"]) -> Float[ndarray, "batch corners"]:
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


def off_sides(
    form: Form, axes: Sequence[Axis], a: Float[ndarray, "batch m"], corners: Float[ndarray, "batch corners"]
) -> Float[ndarray, "batch 1"]:
    """How far the sides' values may be from those of the corners' functions."""
    found = []
    for (number, end), region in form.sides.items():
        along = [np.concatenate([axis.cells.edges, axis.cells.nodes, axis.cells.between]) for axis in axes]
        along[number] = axes[number].cells.edges[[-end]]
        where = grid(*along)
        found.append(np.abs(form.values(region, a, where) - corners @ corner_functions(axes, where).T))
    return SAMPLED * np.max(np.concatenate(found, axis=1), axis=1, keepdims=True)


def off_cells(
    axes: Sequence[Axis], values: Float[ndarray, "batch n"], others: Float[ndarray, "batch p"]
) -> Float[ndarray, "batch 1"]:
    """How far a function may be from polynomials of cells, by its values at the Gauss points, and at others."""
    found = values.reshape(len(values), *(len(axis.cells.nodes) for axis in axes))
    for number, axis in enumerate(axes):
        own = np.moveaxis(found, 1 + number, -1)
        own = own.reshape(*own.shape[:-1], axis.cells.count, -1) @ at_places(BETWEEN).T
        found = np.moveaxis(own.reshape(*own.shape[:-2], -1), -1, 1 + number)
    return SAMPLED * np.max(np.abs(found.reshape(len(values), -1) - others), axis=1, keepdims=True)
