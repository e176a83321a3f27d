"""What is known of solutions in closed form, for all sensor values at once."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy import ndarray

from stablepdenet.operators import Functions

# Solutions of the heat equation jump where time begins: there, a slightly later time stands for the limit.
LATER = 1e-24
# Standard deviations of the normal law that count.
REACH = 7.0


def evolved_hats(alpha: float, x: Float[ndarray, " m"]) -> Functions:
    """The initial value, continued by constants, as heat evolves it on the whole line: exact at t = 0 and in
    u_t = alpha u_xx.

    A piecewise-linear function is a sum of ramps max(x - x_i, 0), one for each kink; heat adds to a ramp
    s phi(d / s) - d Phi(-d / s), d = |x - x_i|, s^2 = 2 alpha t, with the normal law's Phi and phi. Sums of the ramps
    themselves would lose digits in their differences, how many depends on the processor: they are written as hats.
    """
    slopes = np.diff(np.eye(len(x)), axis=0) / np.diff(x)[:, None]
    kinks = np.diff(slopes, axis=0, prepend=0.0, append=0.0)

    def functions(points: Float[Array, "n dim"]) -> Float[Array, "n m"]:
        z = points[:, :1] - jnp.asarray(x, points.dtype)
        s = jnp.sqrt(2.0 * alpha * jnp.maximum(points[:, 1:], LATER))
        # At a kink both parts take the derivatives of its right side.
        d = jnp.where(z < 0, -z, z)
        added = s * jax.scipy.stats.norm.pdf(d / s) - d * jax.scipy.stats.norm.cdf(-d / s)
        return _hats(z, jnp.asarray(np.diff(x), points.dtype)) + added @ jnp.asarray(kinks, points.dtype)

    return functions


def _hats(z: Float[Array, "n m"], steps: Float[Array, " m-1"]) -> Float[Array, "n m"]:
    """The hat functions, constant beyond the ends, from the distances to all nodes."""
    inside = (z[:, :-1] >= 0) & (z[:, 1:] < 0)
    rising = jnp.where(inside, z[:, :-1] / steps, 0.0)
    first, last = z[:, :1] < 0, z[:, -1:] >= 0
    return jnp.concatenate([first, rising], axis=1) + jnp.concatenate([inside - rising, last], axis=1)


def periodic_hats(alpha: float, x: Float[ndarray, " m"], until: float) -> Functions:
    """The same for a period from the first sensor to the last: on so many periods as heat reaches in the time."""
    period, last = x[-1] - x[0], len(x) - 1
    more = max(1, math.ceil(REACH * math.sqrt(2.0 * alpha * until) / period))
    starts = period * np.arange(-more, more + 1)
    line = np.append((starts[:, None] + x[:-1]).ravel(), x[-1] + more * period)
    fold = np.tile(np.eye(last), (len(starts), 1))
    fold = np.concatenate([fold, fold[:1]])
    # The ends are one point: admissible values agree there, and each sensor has half a say.
    fold = np.concatenate([fold, np.zeros((len(line), 1))], axis=1)
    fold[:, last] = fold[:, 0] = 0.5 * fold[:, 0]
    hats = evolved_hats(alpha, line)
    return lambda points: hats(points) @ jnp.asarray(fold, points.dtype)
