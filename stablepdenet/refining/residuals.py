"""The residual that answers are refined on: that of all blocks, projected onto the functions of the answers."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy import ndarray

from stablepdenet.operators import AbstractBasisOperator, Fields
from stablepdenet.problems import Problem
from stablepdenet.problems.physics import Residuals, block_residuals

# Of the largest singular value: what is below, float32 cannot tell from rounding; float64 can tell more.
CUT = 1e-5

# The test functions of a block, or None where there are fewer points than functions.
Tests = Float[Array, "_ _"] | None


class Part(NamedTuple):
    """What a query of the problem's blocks asks for: of the functions whose coefficients are free, of the lift's, and
    of the free ones along the directions."""

    own: Fields
    lift: Fields
    turned: Fields


def projected_residual(
    problem: Problem, tests: list[Tests], fields: list[Fields], a: Float[Array, "inputs m"]
) -> Float[Array, "batch rows"]:
    """sqrt(w_q / N_q) P_q F_q of all blocks. One row of inputs may stand for all fields. Without P its square is the
    physics loss (eq:physics-loss)."""
    return projected(problem, tests, block_residuals(problem)(fields, a))


def projected(problem: Problem, tests: list[Tests], found: Residuals) -> Float[Array, "batch rows"]:
    """The same of residuals at the points."""
    rows = []
    for block, own in zip(problem.blocks, tests, strict=True):
        residual = found[block.name]
        residual = jnp.sqrt(block.weight / residual.shape[1]) * residual
        if own is not None:
            residual = jnp.einsum("tn,bn...->bt...", own, residual)
        rows.append(residual.reshape(len(residual), -1))
    return jnp.concatenate(rows, axis=1)


def fields_of(parts: list[Part], c: Float[Array, "batch k"]) -> tuple[list[Fields], list[Fields]]:
    """Those of the lift alone, and of all coefficients."""
    nothing, fields = [], []
    for part in parts:
        free = len(next(iter(part.own.values())))
        nothing.append({index: c[:, free:] @ entry for index, entry in part.lift.items()})
        fields.append({index: nothing[-1][index] + c[:, :free] @ entry for index, entry in part.own.items()})
    return nothing, fields


def jacobian(
    problem: Problem, tests: list[Tests], parts: list[Part], fields: list[Fields], a: Float[Array, "1 m"]
) -> Float[Array, "rank rows"]:
    """What a step along each direction does to the residual of one input."""
    turned = [part.turned for part in parts]
    rank = len(next(iter(turned[0].values())))
    # All columns as one batch: a vmap of the derivative has a dimension of one that slows its gradients.
    many = jax.tree.map(lambda field: jnp.broadcast_to(field, (rank, *field.shape[1:])), fields)
    return jax.jvp(lambda fields: projected_residual(problem, tests, fields, a), (many,), (turned,))[1]


def all_tests(
    operator: AbstractBasisOperator, problem: Problem, parts: list[Part], c: Float[Array, "1 k"], a: Float[Array, "1 m"]
) -> list[Tests]:
    """Those of every block. A block may pair its points, as periodic ones do: the first points of its pairs count."""
    free = len(next(iter(parts[0].own.values())))
    shapes = jax.eval_shape(lambda c, a: block_residuals(problem)(fields_of(parts, c)[1], a), c, a)
    return [_tests(operator, block.points[: shapes[block.name].shape[1]], free) for block in problem.blocks]


def _tests(operator: AbstractBasisOperator, points: Float[ndarray, "n dim"], free: int) -> Tests:
    """An orthonormal basis of the functions' values at the points, of all components."""
    if len(points) <= free:
        return None
    values = np.asarray(operator.basis(jnp.asarray(points)))[:, :free]
    left, sizes, _ = np.linalg.svd(values.reshape(len(points), -1).astype(np.float64), full_matrices=False)
    return jnp.asarray(left[:, sizes > limit(CUT, values.dtype) * sizes[0]].T, values.dtype)


def limit(single: float, dtype: Any) -> float:
    """A limit of rounding for float32, as it is for another dtype."""
    return single * float(jnp.finfo(dtype).eps / jnp.finfo(jnp.float32).eps)
