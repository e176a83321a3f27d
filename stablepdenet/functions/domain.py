"""Where a PDE is posed: a box of named coordinates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

import numpy as np
from jaxtyping import Bool, Float
from numpy import ndarray

from stablepdenet.errors import ConfigError

Interval = tuple[float, float]
# What a point may lie outside of the box by, as a part of its length: rounding.
ROUNDING = 1e-9


@final
class Box:
    """A product of intervals, one for each coordinate, some of them periods:

        Box(x=(0, 1), t=(0, 2), periodic="x")

    Coordinates are single letters; their order is the order of the columns of points.
    """

    def __init__(self, *, periodic: str = "", **intervals: Interval):
        if not intervals:
            raise ConfigError("A Box needs an interval for each coordinate, e.g. Box(x=(0, 1), t=(0, 1)).")
        for name, interval in intervals.items():
            ends = np.asarray(interval, np.float64)
            if len(name) != 1 or ends.shape != (2,) or not np.all(np.isfinite(ends)) or not ends[0] < ends[1]:
                raise ConfigError(
                    f"Box({name}={interval}): a coordinate is one letter with an interval (low, high), low < high."
                )
        unknown = [name for name in periodic if name not in intervals]
        if unknown:
            raise ConfigError(f"Box(periodic={periodic!r}): '{unknown[0]}' is none of its coordinates.")
        self.coordinates: tuple[str, ...] = tuple(intervals)
        self.intervals: tuple[Interval, ...] = tuple((float(low), float(high)) for low, high in intervals.values())
        self.periodic: tuple[bool, ...] = tuple(name in periodic for name in intervals)

    def __repr__(self) -> str:
        ends = [
            f"{name}=({low:g}, {high:g})" for name, (low, high) in zip(self.coordinates, self.intervals, strict=True)
        ]
        periods = "".join(name for name, is_period in zip(self.coordinates, self.periodic, strict=True) if is_period)
        return f"Box({', '.join([*ends, *([f'periodic={periods!r}'] if periods else [])])})"

    @property
    def dimension(self) -> int:
        """How many coordinates there are."""
        return len(self.coordinates)

    def columns(self, names: Sequence[str]) -> list[int]:
        """The columns of points that hold these coordinates."""
        missing = next((name for name in names if name not in self.coordinates), None)
        if missing is not None:
            raise ConfigError(f"'{missing}' is none of the coordinates {', '.join(self.coordinates)}.")
        return [self.coordinates.index(name) for name in names]

    def contains(self, points: Float[ndarray, "n dim"]) -> Bool[ndarray, " n"]:
        """Which points lie inside or on a side."""
        low, high = np.asarray(self.intervals).T
        room = ROUNDING * (high - low)
        return np.all((points >= low - room) & (points <= high + room), axis=1)
