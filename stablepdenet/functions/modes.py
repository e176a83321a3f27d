"""Orthonormal modes on sensor grids, smoothest first."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float
from numpy import ndarray


def sine_modes(axes: Sequence[Float[ndarray, " _"]], band: int) -> Float[ndarray, "band m"]:
    """The first `band` products of sqrt(2) sin(n pi s), where s runs from 0 to 1 along each axis: orthonormal in the
    mean square over the box of the axes, in the order of the sum of n^2."""
    numbers = itertools.product(range(1, band + 1), repeat=len(axes))
    chosen = sorted(numbers, key=lambda each: (sum(n * n for n in each), each))[:band]
    places = [(axis - axis[0]) / (axis[-1] - axis[0]) for axis in axes]
    found = []
    for each in chosen:
        product = np.ones(1)
        for n, s in zip(each, places, strict=True):
            product = np.outer(product, np.sqrt(2.0) * np.sin(np.pi * n * s)).ravel()
        found.append(product)
    return np.stack(found)
