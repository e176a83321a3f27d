"""Point sets: where residual blocks are collocated and solutions are compared. All float64 numpy, all deterministic."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

Interval = tuple[float, float]
UNIT: Interval = (0.0, 1.0)


def uniform(num: int, interval: Interval = UNIT, *, endpoint: bool = True) -> Float[ndarray, " num"]:
    """`num` equally spaced points of an interval."""
    return np.linspace(*interval, num, endpoint=endpoint)


def grid(*axes: Float[ndarray, " _"]) -> Float[ndarray, "points dim"]:
    """The tensor product of one-dimensional point sets; the first coordinate varies slowest."""
    return np.stack([axis.ravel() for axis in np.meshgrid(*axes, indexing="ij")], axis=1)


def midpoints(axis: Float[ndarray, " num"]) -> Float[ndarray, " more"]:
    """The points of an axis and those halfway between."""
    return np.sort(np.concatenate([axis, 0.5 * (axis[1:] + axis[:-1])]))


def trapezoid(axis: Float[ndarray, " num"]) -> Float[ndarray, " num"]:
    """The weights of the trapezoidal rule on an axis."""
    half = np.diff(axis) / 2
    return np.append(half, 0) + np.insert(half, 0, 0)


def gauss(num: int) -> Float[ndarray, " num"]:
    """The Gauss-Legendre nodes of the unit interval."""
    return 0.5 * (np.polynomial.legendre.leggauss(num)[0] + 1.0)


def rows(num: int, times: Float[ndarray, " times"]) -> Float[ndarray, "points 2"]:
    """`num` equally spaced points of the period (0, 1) at each time, shifted from one time to the next by the golden
    section, so that all of them together leave no gap."""
    shifts = np.arange(len(times)) * (np.sqrt(5.0) - 1.0) / 2.0 % 1.0
    return np.stack([((np.arange(num) + shifts[:, None]) / num).ravel(), np.repeat(times, num)], axis=1)


def hammersley(num: int, box: Sequence[Interval] = (UNIT,)) -> Float[ndarray, "num dim"]:
    """The Hammersley set in any dimension: (i + 1/2) / num beside the Halton sequence of the remaining coordinates.

    The half-cell shift keeps every point strictly inside, where the differential equation holds.
    """
    # Halton starts at the corner 0; skipping it keeps these coordinates inside as well.
    halton = [radical_inverse(np.arange(1, num + 1), base) for base in _primes(len(box) - 1)]
    columns = [(np.arange(num) + 0.5) / num, *halton]
    lower, upper = np.asarray(box, np.float64).T
    return lower + (upper - lower) * np.stack(columns, axis=1)


def radical_inverse(index: Int[ndarray, " num"], base: int) -> Float[ndarray, " num"]:
    """sum_k d_k base^-(k+1) for the digits d_k of each index in `base`, lowest first (van der Corput).

    scipy.stats has it, too, but takes half a second to import: half of what importing this library takes.
    """
    result, scale = np.zeros(len(index)), 1.0
    while np.any(index):
        index, digit = np.divmod(index, base)
        scale /= base
        result += scale * digit
    return result


def _primes(count: int) -> list[int]:
    found: list[int] = []
    candidate = 2
    while len(found) < count:
        if all(candidate % prime for prime in found):
            found.append(candidate)
        candidate += 1
    return found


def initial(x: Float[ndarray, " num"], time: float = 0.0) -> Float[ndarray, "num 2"]:
    """Space-time points (x, time)."""
    return np.stack([x, np.full_like(x, time)], axis=1)


def boundary(interval: Interval = UNIT, times: Float[ndarray, " num"] | None = None) -> Float[ndarray, "points dim"]:
    """Both ends of an interval; with `times`, the left side at all times, then the right side."""
    ends = np.asarray(interval, np.float64)
    if times is None:
        return ends[:, None]
    return grid(ends, times)


def periodic(times: Float[ndarray, " num"], interval: Interval = UNIT) -> Float[ndarray, "twice 2"]:
    """Pairs for a periodic block: row i is (left, t_i), row i + len(times) is (right, t_i)."""
    return boundary(interval, times)
