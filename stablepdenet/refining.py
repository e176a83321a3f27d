"""Refining: the physics used once more, at inference. Label-free, for any operator with a basis, trained or solved."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy import ndarray

from stablepdenet.operators import AbstractBasisOperator, Fields, nested_derivatives
from stablepdenet.physics import block_queries, block_residuals
from stablepdenet.problems import Problem

# Inputs on which the directions are chosen.
TRIED = 64
# Of the largest singular value: below is float32's rounding.
CUT = 1e-6


class RefinedOperator(AbstractBasisOperator):
    """An operator whose coefficients take `steps` Gauss-Newton steps on the physics residual, in the space of its own
    basis, from where it would have stood:

        c <- c - W (J W)^+ r(c, a),   r = (sqrt(w_q / N_q) F_q(sum_j c_j phi_j, a))_q,   J = dr/dc.

    It is an operator like any other: attacks and audits go through the steps. W spans the directions that the residual
    can tell apart, scaled so that J W is near orthonormal; `refine` says which these are.
    """

    operator: AbstractBasisOperator
    directions: Float[Array, "k rank"]
    features: list[Fields]
    problem: Problem = eqx.field(static=True)
    steps: int = eqx.field(static=True)

    def basis(self, points: Float[Array, "n dim"]) -> Float[Array, "n k"]:
        return self.operator.basis(points)

    def coefficients(self, a: Float[Array, "batch m"]) -> Float[Array, "batch k"]:
        # One input at a time: the Jacobian of each is as large as the basis on all points.
        return jax.lax.map(lambda row: self._refined(self.operator.coefficients(row[None])[0], row), a)

    def _refined(self, c: Float[Array, " k"], a: Float[Array, " m"]) -> Float[Array, " k"]:
        for _ in range(self.steps):
            residual, along = jax.linearize(lambda c: weighted_residual(self.problem, self.features, c, a), c)
            columns = jax.vmap(along)(self.directions.T)
            gram = columns @ columns.T
            # W makes the Gram matrix near the identity; the ridge is for inputs far from those it was made for.
            ridge = jnp.finfo(gram.dtype).eps * jnp.trace(gram) * jnp.eye(len(gram))
            c = c - self.directions @ jnp.linalg.solve(gram + ridge, columns @ residual)
        return c


def weighted_residual(
    problem: Problem, features: list[Fields], c: Float[Array, " k"], a: Float[Array, " m"]
) -> Float[Array, " rows"]:
    """sqrt(w_q / N_q) F_q at all points of all blocks: its square is the physics loss (eq:physics-loss)."""
    solution = [{word: c[None] @ entry for word, entry in fields.items()} for fields in features]
    found = block_residuals(problem)(solution, a[None])
    parts = [jnp.sqrt(block.weight / len(block.points)) * found[block.name].ravel() for block in problem.blocks]
    return jnp.concatenate(parts)


def refine(operator: AbstractBasisOperator, problem: Problem, *, steps: int = 1) -> RefinedOperator:
    """The operator with `steps` Gauss-Newton steps after it; one is enough for a linear problem.

    The directions are right singular vectors of the linearised residual on the basis. Small singular values answer
    a rough input by large coefficients, so only the leading ones are kept, as many as generalised cross-validation asks
    for: the smallest ||r - U_k U_k^T r||^2 / (1 - k / N)^2, averaged over inputs with random perturbations.
    """
    features = [
        query.answer({word: entry.T for word, entry in found.items()})
        for query in block_queries(problem)
        for found in [nested_derivatives(operator.basis, jnp.asarray(query.points), query.words)]
    ]

    def residual(c: Float[Array, " k"], a: Float[Array, " m"]) -> Float[Array, " rows"]:
        return weighted_residual(problem, features, c, a)

    of_inputs, of_noise = jax.random.split(jax.random.key(0))
    a = problem.sample(TRIED, key=of_inputs)
    attack = problem.attack
    start = attack.attacked(attack.project(attack.start(a, key=of_noise), a), a).inputs
    misfits = np.asarray(jax.jit(jax.vmap(residual))(operator.coefficients(start), start), np.float64)
    count = operator.basis(jnp.asarray(problem.grid[:1])).shape[1]
    jacobian = jax.jit(jax.jacfwd(residual))(jnp.zeros(count), jnp.zeros(problem.input.size))
    left, values, right = np.linalg.svd(np.asarray(jacobian, np.float64), full_matrices=False)
    rank = _rank(misfits @ left, np.sum(misfits**2), values, len(jacobian))
    directions = jnp.asarray((right[:rank] / values[:rank, None]).T, jnp.float32)
    return RefinedOperator(operator, directions, features, problem, steps)


def _rank(shares: Float[ndarray, "tried rank"], whole: float, values: Float[ndarray, " rank"], rows: int) -> int:
    """How many directions generalised cross-validation keeps; `shares` are the misfits' parts along each."""
    most = max(1, min(int(np.sum(values > CUT * values[0])), rows - 1))
    left_over = whole - np.cumsum(np.sum(shares**2, axis=0))[:most]
    scores = np.maximum(left_over, 0.0) / (1.0 - np.arange(1, most + 1) / rows) ** 2
    return 1 + int(np.argmin(scores))
