"""What is known of a solution for certain: it is within a radius of a center, at every point."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from numpy import ndarray

# Of centers, in float64: far more than what is seen.
ROUNDING = 1e-11
# By how much a maximum may be larger than that of the points where it was looked for.
SAMPLED = 2.0


class Enclosure(NamedTuple):
    """|true solution - center| <= radius at some points, for some inputs."""

    center: Float[ndarray, "batch n"]
    radius: Float[ndarray, "batch n"]

    def bound(self, u: Float[ndarray, "batch n"]) -> Float[ndarray, " batch"]:
        """The relative L2 error of answers over the points, at most: (|u - center| + |radius|) / (|center| - |radius|);
        infinite where the solution may be zero, or nothing is known."""
        size, wide = np.linalg.norm(self.center, axis=1), np.linalg.norm(self.radius, axis=1)
        wide = wide + ROUNDING * size
        least, most = size - wide, np.linalg.norm(np.asarray(u, np.float64) - self.center, axis=1) + wide
        with np.errstate(divide="ignore", invalid="ignore"):
            found = np.where(most == 0.0, 0.0, np.where(least > 0.0, most / least, np.inf))
        return np.where(np.isfinite(found), found, np.inf)


def unknown(inputs: int, points: int) -> Enclosure:
    """Of solutions of which nothing is known."""
    return Enclosure(np.zeros((inputs, points)), np.full((inputs, points), np.inf))
