"""Guaranteed bounds of the errors of answers, for the problems whose equations allow them."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from stablepdenet.spectral.bounds import boxes, lines, planes
from stablepdenet.spectral.bounds.enclosure import Enclosure, unknown
from stablepdenet.spectral.bounds.form import Form, read_form
from stablepdenet.spectral.setting import Setting

__all__ = ["Enclosure", "cheap_enclosure", "enclosed", "error_bounds"]

# Inputs at once, in one coordinate and in two: some megabytes each.
CHUNKS = (128, 16)


def error_bounds(setting: Setting, u: Any, a: Any, points: Any) -> Float[ndarray, " batch"]:
    """The relative L2 error over the points of any answers u to the inputs a, at most; infinite where none is known."""
    if read_form(setting) is None:
        return np.full(len(u), np.inf)
    return enclosed(setting, np.asarray(a, np.float64), np.asarray(points, np.float64)).bound(np.asarray(u, np.float64))


def cheap_enclosure(
    setting: Setting, a: Float[ndarray, "batch m"], points: Float[ndarray, "n dim"]
) -> Enclosure | None:
    """The same where it takes milliseconds an input: in one coordinate of space. None elsewhere."""
    form = read_form(setting)
    return None if form is None or len(form.columns) > 1 else enclosed(setting, a, points)


def enclosed(setting: Setting, a: Float[ndarray, "batch m"], points: Float[ndarray, "n dim"]) -> Enclosure:
    """Where the solutions are for certain; anywhere, if the problem is none of those that have bounds."""
    form = read_form(setting)
    if form is None:
        return unknown(len(a), len(points))
    chunk = CHUNKS[len(form.columns) - 1]
    found = [_enclosed(form, a[begin : begin + chunk], points) for begin in range(0, len(a), chunk)]
    return Enclosure(*(np.concatenate(each) for each in zip(*found, strict=True)))


def _enclosed(form: Form, a: Float[ndarray, "batch m"], points: Float[ndarray, "n dim"]) -> Enclosure:
    bounded = form.setting.time is None and len(form.sides) == 2 * len(form.columns)
    if bounded and len(form.columns) == 1:
        return lines.enclose(form, a, points)
    found = boxes.enclose(form, a, points)
    others = ~np.all(np.isfinite(found.radius), axis=1)
    if not (bounded and np.any(others)):
        return found
    center, radius = found.center.copy(), found.radius.copy()
    center[others], radius[others] = planes.enclose(form, a[others], points)
    return Enclosure(center, radius)
