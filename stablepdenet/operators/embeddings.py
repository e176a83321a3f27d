"""Fixed functions of the coordinates that a trunk may see instead of the coordinates themselves."""

from __future__ import annotations

from collections.abc import Callable

import jax.numpy as jnp
from jaxtyping import Array, Float

Embedding = Callable[[Float[Array, "n dim"]], Float[Array, "n features"]]


PLAIN = "coordinates"


def coordinates(points: Float[Array, "n dim"]) -> Float[Array, "n dim"]:
    """The coordinates as they are."""
    return points


def periodic(points: Float[Array, "n dim"]) -> Float[Array, "n features"]:
    """cos and sin of 2 pi x and 4 pi x, then the other coordinates: every function of them has period 1 in x.

    A tanh network on x itself learns the first harmonics of a periodic solution late, one after another.
    """
    phase = 2.0 * jnp.pi * points[:, :1] * jnp.arange(1, 3)
    return jnp.concatenate([jnp.cos(phase), jnp.sin(phase), points[:, 1:]], axis=1)


def waves(points: Float[Array, "n dim"]) -> Float[Array, "n features"]:
    """cos and sin of n pi x, n = 1..10, then the other coordinates: all the waves of the Helmholtz sources.

    A tanh network on x itself meets ten modes one after another, over more steps than the paper has.
    """
    phase = jnp.pi * points[:, :1] * jnp.arange(1, 11)
    return jnp.concatenate([jnp.cos(phase), jnp.sin(phase), points[:, 1:]], axis=1)


EMBEDDINGS: dict[str, Embedding] = {PLAIN: coordinates, "periodic": periodic, "waves": waves}
