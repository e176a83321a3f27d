"""Residual blocks, their discrete norms, and the physics loss."""

from __future__ import annotations

from collections.abc import Callable

import jax.numpy as jnp
from jaxtyping import Array, Float

from stablepdenet.operators import AbstractOperator, Fields, Query
from stablepdenet.problems import Problem

Residuals = dict[str, Float[Array, "batch n *channels"]]
ResidualMap = Callable[[Float[Array, "batch m"]], Residuals]
BlockNorms = dict[str, Float[Array, " batch"]]


def residual_map(operator: AbstractOperator, problem: Problem) -> ResidualMap:
    """a -> {q: r_q(a)}, the residuals of every block at its collocation points (eq:block-residual).

    What depends on the points alone (a DeepONet's trunk with its derivatives) is computed here, once; each call of the
    result pays for the inputs only. A step that needs clean and attacked residuals, and an attack that needs many,
    share it.
    """
    evaluate = operator.prepare(block_queries(problem))
    residuals = block_residuals(problem)
    return lambda a: residuals(evaluate(a), a)


def block_queries(problem: Problem) -> list[Query]:
    """What the blocks ask of the solution, block by block, component by component."""
    return [query for bound in problem.bound for query in bound.queries]


def block_residuals(problem: Problem) -> Callable[[list[Fields], Float[Array, "batch m"]], Residuals]:
    """(u's derivatives as `block_queries` asks for them, a) -> {q: F_q(u, a)} (eq:residual-blocks); one row of inputs
    may stand for all rows of solutions."""
    blocks = [(bound, bound.inputs()) for bound in problem.bound]

    def residuals(solution: list[Fields], a: Float[Array, "inputs m"]) -> Residuals:
        fields = iter(solution)
        return {bound.block.name: bound([next(fields) for _ in bound.queries], inputs(a)) for bound, inputs in blocks}

    return residuals


def block_norms(residuals: Residuals) -> BlockNorms:
    """{q: ||r_q||^2_{2,N_q}} per input: squares summed over channels, averaged over points (eq:block-discrete-l2)."""
    norms = {}
    for name, residual in residuals.items():
        squares = residual**2 if residual.ndim == 2 else jnp.sum(residual**2, axis=2)
        norms[name] = jnp.mean(squares, axis=1)
    return norms


def weighted_sum(norms: BlockNorms, problem: Problem) -> Float[Array, " batch"]:
    """sum_q w_q ||r_q||^2_{2,N_q} for each input (eq:physics-loss)."""
    terms = [block.weight * norms[block.name] for block in problem.blocks]
    return sum(terms[1:], terms[0])


def physics_loss(residuals: Residuals, problem: Problem) -> Float[Array, " batch"]:
    """L_phys(theta; a) for each input (eq:physics-loss)."""
    return weighted_sum(block_norms(residuals), problem)
