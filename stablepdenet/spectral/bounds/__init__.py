"""Guaranteed bounds of the errors of answers, for the problems whose equations allow them."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from stablepdenet.spectral.bounds import boxes, lines
from stablepdenet.spectral.bounds.enclosure import Enclosure, unknown
from stablepdenet.spectral.bounds.form import read_form
from stablepdenet.spectral.setting import Setting

__all__ = ["Enclosure", "enclosed", "error_bounds"]

# Inputs at once: some megabytes each.
CHUNK = 32


def error_bounds(setting: Setting, u: Any, a: Any, points: Any) -> Float[ndarray, " batch"]:
    """The relative L2 error over the points of any answers u to the inputs a, at most; infinite where none is known."""
    if read_form(setting) is None:
        return np.full(len(u), np.inf)
    return enclosed(setting, np.asarray(a, np.float64), np.asarray(points, np.float64)).bound(np.asarray(u, np.float64))


def enclosed(setting: Setting, a: Float[ndarray, "batch m"], points: Float[ndarray, "n dim"]) -> Enclosure:
    """Where the solutions are for certain; anywhere, if the problem is none of those that have bounds."""
    form = read_form(setting)
    if form is None:
        return unknown(len(a), len(points))
    ordinary = setting.time is None and len(form.columns) == 1 and len(form.sides) == 2
    find = lines.enclose if ordinary else boxes.enclose
    found = [find(form, a[begin : begin + CHUNK], points) for begin in range(0, len(a), CHUNK)]
    return Enclosure(*(np.concatenate(each) for each in zip(*found, strict=True)))
