"""The exact solution operator of a linear problem."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import numpy as np
from jaxtyping import Float
from numpy import ndarray


class LinearReference:
    """S(a) = a M^T with the response matrix M of the unit inputs, in float64, computed when first asked for."""

    def __init__(self, build: Callable[[], Float[ndarray, "n m"]]):
        self._build = build

    @cached_property
    def matrix(self) -> Float[ndarray, "n m"]:
        return self._build()

    def __call__(self, a: Float[ndarray, "batch m"]) -> Float[ndarray, "batch n"]:
        return np.asarray(a, np.float64) @ self.matrix.T
