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

    A piecewise-linear function is a sum of ramps max(z, 0), z = x - x_i, one for each kink; heat turns a ramp into
    z Phi(z / s) + s phi(z / s), s^2 = 2 alpha t, with the normal law's Phi and phi. That is the ramp itself and a bump,
    s (phi(q) - q Phi(-q)), q = |z| / s. The ramps add up to the initial value, which is taken as it is: their
    differences would lose digits, and only the small bumps are left to be summed.
    """
    slopes = np.diff(np.eye(len(x)), axis=0) / np.diff(x)[:, None]
    kinks = np.diff(slopes, axis=0, prepend=0.0, append=0.0)

    def functions(points: Float[Array, "n dim"]) -> Float[Array, "n m"]:
        z = points[:, :1] - jnp.asarray(x, points.dtype)
        s = jnp.sqrt(2.0 * alpha * jnp.maximum(points[:, 1:], LATER))
        # Not the absolute value: its derivative at zero is none of the two sides', and the hats take the right one.
        q = jnp.where(z >= 0, z, -z) / s
        bumps = s * (jax.scipy.stats.norm.pdf(q) - q * jax.scipy.stats.norm.cdf(-q))
        return _hats(points[:, 0], x) + bumps @ jnp.asarray(kinks, points.dtype)

    return functions


def _hats(at: Float[Array, " n"], x: Float[ndarray, " m"]) -> Float[Array, "n m"]:
    """The hat functions of the sensors x, constant beyond them; at a sensor, their slopes are those to its right."""
    sensors = jnp.asarray(x, at.dtype)
    right = jnp.searchsorted(sensors, at, side="right")
    left = jnp.clip(right - 1, 0, len(x) - 1)
    right = jnp.clip(right, 0, len(x) - 1)
    # Beyond the ends both are the same sensor.
    inside = left < right
    share = jnp.where(inside, (at - sensors[left]) / jnp.where(inside, sensors[right] - sensors[left], 1.0), 0.0)
    numbers = jnp.arange(len(x))
    rising = jnp.where(numbers == right[:, None], share[:, None], 0.0)
    return jnp.where(numbers == left[:, None], 1.0 - share[:, None], 0.0) + rising


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
