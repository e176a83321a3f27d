"""Fixed points of x -> x + f(x), from what f was where iterations have been (Anderson's mixing)."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

# Iterations that are remembered.
DEPTH = 8
# Of a remembered change's square: directions that are nearly the same do not count twice.
RIDGE = 1e-12

Unknowns = Float[Array, " n"]


class Mixed(NamedTuple):
    """Where iterations are: x and f(x); what x and f changed by lately, in units of the latter; how large f is, of x's
    size; and how many iterations there were."""

    x: Unknowns
    f: Unknowns
    steps: Float[Array, "depth n"]
    changes: Float[Array, "depth n"]
    moved: Float[Array, ""]
    number: Int[Array, ""]


def fixed_point(
    change: Callable[[Unknowns], Unknowns],
    start: Unknowns,
    *,
    size: Callable[[Unknowns], Float[Array, ""]],
    arrived: float,
    most: int,
    wanted: Bool[Array, ""] | bool = True,
) -> tuple[Unknowns, Float[Array, ""]]:
    """Where f(x) = 0, and the last |f(x)| / size(x). The next x is f further than where f would be smallest if it were
    linear along the remembered steps."""

    def iterate(at: Mixed) -> Mixed:
        gram = at.changes @ at.changes.T + RIDGE * jnp.eye(DEPTH)
        shares = _solved(gram, at.changes @ at.f)
        x = at.x + at.f - shares @ (at.steps + at.changes)
        f = change(x)
        norm = jnp.linalg.norm(f)
        difference = f - at.f
        unit = jnp.maximum(jnp.linalg.norm(difference), 1e-300)
        slot = at.number % DEPTH
        steps, changes = at.steps.at[slot].set((x - at.x) / unit), at.changes.at[slot].set(difference / unit)
        return Mixed(
            x=x,
            f=f,
            steps=steps,
            changes=changes,
            moved=norm / jnp.maximum(size(x), 1e-300),
            number=at.number + 1,
        )

    def unfinished(at: Mixed) -> Bool[Array, ""]:
        return (at.moved > arrived) & (at.number < most) & wanted

    f = change(start)
    nothing, norm = jnp.zeros((DEPTH, len(start))), jnp.linalg.norm(f)
    begin = Mixed(start, f, nothing, nothing, norm / jnp.maximum(size(start), 1e-300), jnp.asarray(0))
    end = jax.lax.while_loop(unfinished, iterate, begin)
    return end.x + end.f, end.moved


def _solved(matrix: Float[Array, "m m"], right: Float[Array, " m"]) -> Float[Array, " m"]:
    """By elimination: positive definite, so small that a library's call takes longer."""
    both = jnp.concatenate([matrix, right[:, None]], axis=1)
    for i in range(len(matrix)):
        row = both[i] / both[i, i]
        both = (both - both[:, i, None] * row).at[i].set(row)
    return both[:, -1]
