"""What tells two problems of one name apart: numbers that their equations give, not the programs that give them.

So another version of JAX, or another machine, finds the same."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np
from numpy import ndarray

from stablepdenet.operators import Functions

if TYPE_CHECKING:
    from stablepdenet.problems.base import Block, Problem

# Significant digits: machines round differently beyond them.
DIGITS = 6
# Solutions and inputs that residuals are tried on.
TRIED = 2


def fingerprint(problem: Problem) -> str:
    """A hash of residuals of random fields, of points, weights, the input's matrix, and which ansatz there is.

    Not of the ansatz's frame: a symmetry is the equation's own, and nothing is trained for it."""
    digest = hashlib.sha256(repr((problem.coordinates, problem.input.size)).encode())
    with jax.enable_x64(True):
        for block in (*problem.blocks, *problem.fine):
            digest.update(repr((block.name, block.weight, sorted(block.wanted(problem.coordinates).items()))).encode())
            digest.update(_rounded(block.points))
            digest.update(_rounded(problem.input.matrix(block.points[:, 0])))
            digest.update(_rounded(_residual(problem, block)))
    for part in (problem.ansatz.lift, problem.ansatz.envelope, problem.ansatz.features) if problem.ansatz else ():
        digest.update(_described(part, len(problem.coordinates)).encode())
    return digest.hexdigest()[:16]


def _described(part: Functions | None, dim: int) -> str:
    """Its name and how many functions it has: to compile them for a value would take seconds."""
    if part is None:
        return "none"
    name = getattr(part, "__qualname__", type(part).__qualname__)
    return f"{name} {jax.eval_shape(part, jax.ShapeDtypeStruct((1, dim), jnp.float32)).shape}"


def _residual(problem: Problem, block: Block) -> jax.Array:
    rng = np.random.default_rng(0)
    # The coordinates as they are: a residual may use NumPy on them.
    known = {name: block.points[:, i] for i, name in enumerate(problem.coordinates)}
    drawn = {name: rng.normal(size=(TRIED, len(block.points))) for name in block.parameters if name not in known}
    fixed = {name: known[name] for name in block.parameters if name in known}
    return block.residual(**{name: jnp.asarray(values) for name, values in drawn.items()}, **fixed)


def _rounded(values: jax.Array | ndarray) -> bytes:
    """The bytes of the numbers to a few digits; what is rounding beside the largest is zero."""
    values = np.asarray(values, np.float64)
    with np.errstate(all="ignore"):
        size = np.max(np.abs(values), initial=0.0)
        values = np.where(np.abs(values) < 1e-12 * size, 0.0, values)
        exponent = np.floor(np.log10(np.where(values == 0, 1.0, np.abs(values))))
        scaled = np.round(values / 10.0**exponent, DIGITS - 1) + 0.0
    return np.ascontiguousarray(np.stack([scaled, exponent])).tobytes()
