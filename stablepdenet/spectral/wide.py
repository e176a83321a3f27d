"""float64 in programs that are float32: each number as the sum of two float32, which no program rounds on its way."""

from __future__ import annotations

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy import ndarray


class Wide(NamedTuple):
    """high + low: 48 bits of a float64."""

    high: Float[Array, ...] | Float[ndarray, ...]
    low: Float[Array, ...] | Float[ndarray, ...]


def split(tree: Any) -> Any:
    """The same with every float64 array in two parts."""

    def one(leaf: Any) -> Any:
        if not (isinstance(leaf, np.ndarray) and leaf.dtype == np.float64):
            return leaf
        high = leaf.astype(np.float32)
        return Wide(high, (leaf - high).astype(np.float32))

    return jax.tree.map(one, tree)


def join(tree: Any) -> Any:
    """The arrays in one part again; to be called inside of `jax.enable_x64(True)`."""

    def one(leaf: Any) -> Any:
        if isinstance(leaf, Wide):
            return jnp.asarray(leaf.high, jnp.float64) + jnp.asarray(leaf.low, jnp.float64)
        return jnp.asarray(leaf) if eqx.is_array_like(leaf) and not isinstance(leaf, bool) else leaf

    return jax.tree.map(one, tree, is_leaf=lambda leaf: isinstance(leaf, Wide))
