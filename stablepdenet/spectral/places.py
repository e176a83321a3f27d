"""Solutions at points: which time step each lies in, and the functions there."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int
from numpy import ndarray

from stablepdenet.operators import Derivative
from stablepdenet.spectral.beginning import Beginning, beginnings
from stablepdenet.spectral.plan import Plan

# Points that are evaluated at a time, where they are no grid.
CHUNK = 256


class Places(NamedTuple):
    """Where points lie: the step of each time, the functions there, and which time and place each point is. Where
    `which` is None, times and places are those of the points one by one. `start` has the values that are known."""

    step: Int[Array, " times"]
    time: tuple[Float[Array, "times _"], ...]
    space: Float[Array, "places k"]
    which: tuple[Int[Array, " n"], Int[Array, " n"]] | None
    start: tuple[Beginning | None, ...]


def places_of(plan: Plan, points: Float[ndarray, "n dim"], index: Derivative) -> Places:
    """Tables of a derivative at known points, in JAX's default dtype."""
    time, columns, edges = plan.setting.time, plan.setting.columns, np.asarray(plan.edges)
    times, of_time = np.unique(points[:, time] if time is not None else np.zeros(len(points)), return_inverse=True)
    where, of_place = np.unique(points[:, columns], axis=0, return_inverse=True)
    grid = len(times) * len(where) <= 4 * len(points)
    if not grid:
        times, where = (points[:, time] if time is not None else np.zeros(len(points))), points[:, columns]
    step = np.clip(np.searchsorted(edges, times) - 1, 0, len(edges) - 2)
    length = plan.lengths[step]
    theta = (times - edges[step]) / length if time is not None else np.zeros(len(times))
    order = index.count(time) if time is not None else 0
    tables = [clock.values(theta, order) / length[:, None] ** order for clock in plan.clocks]
    inner = tuple(columns.index(column) for column in index if column != time)
    space = plan.space.values(where, inner)
    which = (jnp.asarray(of_time.ravel()), jnp.asarray(of_place.ravel())) if grid else None
    start = (None,) * len(tables) if index else beginnings(plan.setting, points)
    return Places(jnp.asarray(step), tuple(map(jnp.asarray, tables)), jnp.asarray(space), which, start)


def traced_places(plan: Plan, points: Float[Array, "n dim"]) -> Places:
    """The same at points that are not known before a program runs; nothing is known of the values there."""
    time, edges = plan.setting.time, jnp.asarray(plan.edges, points.dtype)
    times = points[:, time] if time is not None else jnp.zeros(len(points), points.dtype)
    step = jnp.clip(jnp.searchsorted(edges, times) - 1, 0, len(plan.edges) - 2)
    theta = (times - edges[step]) / jnp.asarray(plan.lengths, points.dtype)[step]
    theta = theta if time is not None else jnp.zeros_like(times)
    space = plan.space.traced(points[:, jnp.asarray(plan.setting.columns, int)])
    return Places(step, tuple(clock.traced(theta) for clock in plan.clocks), space, None, (None,) * len(plan.clocks))


def field_at(places: Places, coefficients: Float[Array, "batch steps size k"], number: int) -> Float[Array, "batch n"]:
    """One component at the points, as its functions are there."""
    time = places.time[number]
    if places.which is not None:
        now = jnp.einsum("btik,ti->btk", coefficients[:, places.step], time)
        of_time, of_place = places.which
        return (now @ places.space.T)[:, of_time, of_place]

    def some(rows: tuple[Array, Array, Array]) -> Float[Array, " batch"]:
        step, time, space = rows
        return jnp.einsum("bik,i,k->b", coefficients[:, step], time, space)

    return jax.lax.map(some, (places.step, time, places.space), batch_size=CHUNK).T
