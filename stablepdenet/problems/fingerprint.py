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
from stablepdenet.problems.bound import BoundBlock

if TYPE_CHECKING:
    from stablepdenet.problems.base import Problem

# Significant digits: machines round differently beyond them.
DIGITS = 6
# Solutions and inputs that residuals are tried on, and points that an ansatz is.
TRIED, PLACES = 2, 3


def fingerprint(problem: Problem) -> str:
    """A hash of the domain, of residuals of random fields and inputs, of points and weights, and of the values of the
    ansatz. Not of its frame: a symmetry is the equation's own, and nothing is trained for it."""
    inputs = [(name, problem.inputs[name].of, problem.inputs[name].size) for name in problem.inputs]
    digest = hashlib.sha256(repr((problem.domain, problem.solution, inputs)).encode())
    with jax.enable_x64(True):
        for block in (*problem.blocks, *problem.refinement_blocks):
            bound = BoundBlock(problem, block)
            digest.update(repr((block.name, block.weight, sorted(bound.terms.solution.items()))).encode())
            digest.update(_rounded(block.points))
            digest.update(_rounded(_residual(problem, bound)))
        for part in (problem.ansatz.lift, problem.ansatz.envelope, problem.ansatz.features) if problem.ansatz else ():
            digest.update(_rounded(_values(problem, part)) if part else b"none")
    return digest.hexdigest()[:16]


def _values(problem: Problem, part: Functions) -> jax.Array:
    """At a few points inside of the domain: where time begins, an ansatz may jump."""
    low, high = np.asarray(problem.domain.intervals).T
    places = np.random.default_rng(1).uniform(0.2, 0.8, size=(PLACES, problem.domain.dimension))
    return part(jnp.asarray(low + (high - low) * places))


def _residual(problem: Problem, bound: BoundBlock) -> jax.Array:
    """Of fields without any relation, at inputs without any."""
    rng = np.random.default_rng(0)
    fields = {name: jnp.asarray(rng.normal(size=(TRIED, len(bound.block.points)))) for name in bound.terms.solution}
    return bound.plain(fields, bound.inputs()(jnp.asarray(rng.normal(size=(TRIED, problem.inputs.size)))))


def _rounded(values: jax.Array | ndarray) -> bytes:
    """The bytes of the numbers to a few digits; what is rounding beside the largest is zero."""
    values = np.asarray(values, np.float64)
    with np.errstate(all="ignore"):
        size = np.max(np.abs(values), initial=0.0)
        values = np.where(np.abs(values) < 1e-12 * size, 0.0, values)
        exponent = np.floor(np.log10(np.where(values == 0, 1.0, np.abs(values))))
        scaled = np.round(values / 10.0**exponent, DIGITS - 1) + 0.0
    return np.ascontiguousarray(np.stack([scaled, exponent])).tobytes()
