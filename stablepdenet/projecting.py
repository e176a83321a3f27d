"""Projecting: the answers of any operator in functions that its problem is solved in, so that they can be refined."""

from __future__ import annotations

import dataclasses
import math
import warnings
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy import ndarray

from stablepdenet.errors import ConfigError
from stablepdenet.operators import (
    AbstractBasisOperator,
    AbstractOperator,
    Ansatz,
    Derivative,
    Fields,
    FunctionOperator,
    Functions,
    HostOperator,
    Query,
    as_operator,
    table,
)
from stablepdenet.problems import Problem
from stablepdenet.problems.physics import physics_loss, residual_map
from stablepdenet.solving import fixed_functions

# How many times larger than a function the terms that it is a sum of may be: of the digits of float32, it leaves two.
SUMMED = 1e5
# Points that show whether something is an operator at all.
SHOWN = 5
# Warn above this share, of a refined answer or of the residual that zero has, for so many inputs of the problem's own.
POOR, ASKED = 0.05, 20

Tables = dict[Derivative, Float[ndarray, "n k"]]


class ProjectedOperator(AbstractBasisOperator):
    """The answers u of another operator in fixed functions phi, by least squares at points of the domain:

        c(a) = P (u(a) - lift a),   P = (phi M)^+,   G(a) = lift a + phi M c(a).

    P is kept as two factors, an orthonormal one first: in one piece, its large numbers would cancel in float32.

    M mixes the functions so that what the equations ask for, values and derivatives, is orthonormal at the blocks'
    points. For polynomials of high degree it is what makes steps possible in float32: their derivatives differ in size
    by many powers of ten, and those of smooth functions would be lost among them. So derivatives are made in float64
    where points are known.

    Gradients in the input go through the other operator. One without, on the host, counts as constant.
    """

    operator: AbstractOperator
    functions: Functions
    mixture: Float[ndarray, "k free"]
    points: Float[Array, "n dim"]
    inverse: tuple[Float[Array, "values rank"], Float[Array, "rank free"]]
    # The lift's functions, and their values at the points.
    lift: Functions | None
    lifting: Float[Array, "m values"] | None

    @property
    def lifted(self) -> bool:
        return self.lift is not None

    def coefficients(self, a: Float[Array, "batch m"]) -> Float[Array, "batch k"]:
        seen = jax.lax.stop_gradient(a) if isinstance(self.operator, HostOperator) else a
        u = self.operator(seen, self.points).reshape(len(a), -1)
        if self.lifting is not None:
            u = u - a @ self.lifting
        first, second = self.inverse
        own = u @ first @ second
        return jnp.concatenate([own, a], axis=1) if self.lifted else own

    def basis(self, points: Float[Array, "n dim"]) -> Float[Array, "n k *components"]:
        found = jnp.einsum("nk...,kf->nf...", self.functions(points), jnp.asarray(self.mixture, points.dtype))
        return found if self.lift is None else jnp.concatenate([found, self.lift(points)], axis=1)

    def features(self, query: Query) -> Fields:
        if any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves((self, query.points))):
            return super().features(query)  # what nobody knows yet has no tables
        found = {index: self.mixture.T @ entry for index, entry in _derivatives(self.functions, query).items()}
        if self.lift is not None:
            lift = _derivatives(self.lift, query)
            found = {index: np.concatenate([found[index], lift[index]]) for index in found}
        return query.answer({index: jnp.asarray(entry) for index, entry in found.items()})


def project(
    operator: Any, problem: Problem, basis: AbstractBasisOperator | Functions | None = None
) -> ProjectedOperator:
    """Anything callable as (a, points) -> u, in the functions that `solve` takes: the ansatz's, or polynomials and
    waves, times the envelope. Others may be given, as functions of the points in their place or as an operator whose
    basis is taken as it is."""
    blocks = problem.refinement_blocks or problem.blocks
    points = np.concatenate([block.points for block in blocks])
    operator = as_operator(operator, problem.inputs.size, points[:SHOWN], len(problem.solution))
    functions, lift = _space(problem, basis)
    numbers = range(len(problem.solution))
    tables = [table(functions, points, _asked(problem, number), number) for number in numbers]
    mixture = _mixture(problem, tables)
    left, sizes, right = np.linalg.svd(_flat(tables) @ mixture, full_matrices=False)
    seen = sizes > np.finfo(float).eps * len(left) * sizes[0]
    inverse = jnp.asarray(left[:, seen]), jnp.asarray(right[seen] / sizes[seen, None])
    lifting = jnp.asarray(_flat([table(lift, points, ((),), number) for number in numbers]).T) if lift else None
    return ProjectedOperator(operator, functions, mixture, jnp.asarray(points), inverse, lift, lifting)


def warn_if_poor(refined: AbstractOperator, longer: AbstractOperator, problem: Problem) -> None:
    """Says so, without labels, where answers to inputs of the problem's own still change with one more step, as those
    of the `longer` operator have it, or leave much of the residual. That the other operator was wrong is no reason."""
    posed = dataclasses.replace(problem, blocks=problem.refinement_blocks or problem.blocks, refinement_blocks=())
    a = problem.sample(ASKED, key=jax.random.key(1))
    points = jnp.asarray(np.concatenate([block.points for block in posed.blocks]))
    nothing = FunctionOperator(lambda a, points: jnp.zeros((len(a), len(points), len(problem.solution))))

    def measured(a: Float[Array, "batch m"]) -> tuple[list[Array], list[Array]]:
        answers = [operator(a, points).reshape(len(a), -1) for operator in (refined, longer)]
        return answers, [jnp.sum(physics_loss(residual_map(each, posed)(a), posed)) for each in (refined, nothing)]

    # One program: piece by piece, JAX would compile one for each operation.
    (u, after), (left, whole) = jax.tree.map(np.asarray, jax.jit(measured)(a))
    # Also where an answer is not a number.
    moving = ~(np.linalg.norm(after - u, axis=1) <= POOR * np.linalg.norm(after, axis=1))
    if np.any(moving):
        warnings.warn(
            f"One more step still changes {np.sum(moving)} of {ASKED} refined answers of '{problem.name}' by more than "
            f"{POOR:.0%}: raise steps=, or further=.",
            stacklevel=3,
        )
    elif not left <= POOR**2 * whole:
        warnings.warn(
            f"Refined answers leave {math.sqrt(left / whole):.0%} of the residual of '{problem.name}', and may be "
            "wrong: give the problem more points, or other functions by basis=.",
            stacklevel=3,
        )


def _space(problem: Problem, basis: AbstractBasisOperator | Functions | None) -> tuple[Functions, Functions | None]:
    """The functions and the lift."""
    if isinstance(basis, AbstractBasisOperator):
        given, size = basis.basis, problem.inputs.size
        if not basis.lifted:
            return given, None
        return lambda points: given(points)[:, :-size], lambda points: given(points)[:, -size:]
    ansatz = problem.ansatz or Ansatz()
    if basis is not None:
        ansatz = dataclasses.replace(ansatz, features=basis)
    return fixed_functions(dataclasses.replace(problem, ansatz=ansatz)), ansatz.lift


def _mixture(problem: Problem, tables: Sequence[Tables]) -> Float[ndarray, "k free"]:
    """M with M^T A^T A M = 1, for the rows A of the functions' values and derivatives in the tables."""
    lengths = [high - low for low, high in problem.domain.intervals]
    # As if all intervals were of length one, whatever the units.
    rows = [math.prod(lengths[column] for column in word) * e for found in tables for word, e in found.items()]
    stacked = np.concatenate(rows) / math.sqrt(len(rows[0]))
    if not np.all(np.isfinite(stacked)):
        raise ConfigError(
            f"The functions to refine '{problem.name}' in have values or derivatives that are not finite."
        )
    # Derivatives of high modes are large: columns of one size keep the small ones exact.
    scale = np.linalg.norm(stacked, axis=0)
    scale[scale == 0] = 1.0
    _, sizes, right = np.linalg.svd(stacked / scale, full_matrices=False)
    some = sizes > np.finfo(float).eps * len(stacked) * sizes[0]
    mixture = (right[some] / sizes[some, None] / scale).T
    values = np.concatenate([found[()] for found in tables]) / math.sqrt(len(rows[0]))
    return mixture[:, np.linalg.norm(values, ord=2) * np.linalg.norm(mixture, axis=0) < SUMMED]


def _flat(tables: Sequence[Tables]) -> Float[ndarray, "values k"]:
    """The values at all points, of all components there."""
    values = np.stack([found[()] for found in tables], axis=1)
    return values.reshape(-1, values.shape[-1])


def _asked(problem: Problem, number: int) -> Sequence[Derivative]:
    """A component itself, and all its derivatives that any block asks for."""
    words = [word for block in problem.blocks for word in problem.terms(block).words.get(number, ())]
    return list(dict.fromkeys([(), *words]))


def _derivatives(functions: Functions, query: Query) -> dict[Derivative, Float[ndarray, "k n"]]:
    points = np.asarray(query.points)
    return {index: e.T for index, e in table(functions, points, query.multi_indices, query.component).items()}
