"""The front of a Burgers solution, x_s(t) = argmax_x |u_x(x, t)|, and how far a perturbation moves it."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from numpy import ndarray


def front_positions(u: Float[ndarray, "batch n"], x: Float[ndarray, " n"]) -> Float[ndarray, " batch"]:
    """argmax_x |u_x| for solutions of period 1 on uniform x over one period, both ends included.

    u_x is a difference between neighbours, at the midpoint between them, and the maximum is refined by the parabola
    through |u_x| there and beside it. No difference reaches across the end of the period: a learned solution need not
    be quite periodic, and a jump there would pass for a front.
    """
    slope = np.abs(np.diff(np.asarray(u, np.float64), axis=1))
    intervals = slope.shape[1]
    peak = slope.argmax(axis=1)
    left, top, right = (slope[np.arange(len(u)), (peak + shift) % intervals] for shift in (-1, 0, 1))
    curvature = 2 * top - left - right
    # A solution without a slope has no curvature either: its front is in the first interval.
    offset = np.divide(right - left, 2 * curvature, out=np.zeros(len(u)), where=curvature > 0)
    return x[0] + (peak + 0.5 + offset) / intervals % 1


def displacement(clean: Float[ndarray, " batch"], perturbed: Float[ndarray, " batch"]) -> Float[ndarray, " batch"]:
    """Delta x_s = x_s(perturbed) - x_s(clean), the short way around the period: in [-1/2, 1/2)."""
    return (perturbed - clean + 0.5) % 1 - 0.5


def shock_errors(learned: Float[ndarray, " batch"], exact: Float[ndarray, " batch"]) -> Float[ndarray, " batch"]:
    """E_shock = |Delta x_s learned - Delta x_s exact| of two displacements per input, the short way around."""
    return np.abs(displacement(exact, learned))
