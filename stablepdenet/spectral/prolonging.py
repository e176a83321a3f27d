"""Solutions in the functions of one plan, taken into those of a finer one."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

from stablepdenet.spectral.plan import Plan
from stablepdenet.spectral.rows import Coefficients


def prolonged(coarse: Plan, finer: Plan, coefficients: Coefficients) -> Coefficients:
    """The same solution in finer functions of space and time; steps of the finer plan must lie within the others'."""
    places = coarse.space.within(finer.space)
    old, new = np.asarray(coarse.edges), np.asarray(finer.edges)
    step = np.clip(np.searchsorted(old, 0.5 * (new[:-1] + new[1:])) - 1, 0, len(old) - 2)
    found = []
    for each, clock in zip(coefficients, coarse.clocks, strict=True):
        turns = np.stack(
            [
                clock.restricted((begin - old[s]) / coarse.lengths[s], length / coarse.lengths[s])
                for begin, length, s in zip(new[:-1], finer.lengths, step, strict=True)
            ]
        )
        same = jnp.einsum("bsik,sij->bsjk", each[:, step], jnp.asarray(turns, each.dtype))
        wide = jnp.zeros((*same.shape[:3], finer.space.size), each.dtype)
        found.append(wide.at[..., jnp.asarray(places)].set(same))
    return tuple(found)
