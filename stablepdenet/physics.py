"""Residual blocks, their discrete norms, and the physics loss."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float

from stablepdenet.errors import ConfigError
from stablepdenet.operators import SUM, AbstractOperator, Derivative, Fields, Query
from stablepdenet.problems import Block, Problem
from stablepdenet.problems.linear import Coefficient

Residuals = dict[str, Float[Array, "batch n *channels"]]
ResidualMap = Callable[[Float[Array, "batch m"]], Residuals]
BlockNorms = dict[str, Float[Array, " batch"]]


def residual_map(operator: AbstractOperator, problem: Problem) -> ResidualMap:
    """a -> {q: r_q(a)}, the residuals of every block at its collocation points (eq:block-residual).

    What depends on the points alone (a DeepONet's trunk with its derivatives) is computed here, once; each call of the
    result pays for the inputs only. A step that needs clean and attacked residuals, and an attack that needs many,
    share it.
    """
    evaluate = operator.on(block_queries(problem))
    residuals = block_residuals(problem)
    return lambda a: residuals(evaluate(a), a)


def block_queries(problem: Problem) -> list[Query]:
    """What each block asks of the solution: its points, the linear part of its residual in one piece, and the
    derivatives in the rest of it."""
    queries = []
    for block in problem.blocks:
        words, linear = block.wanted(problem.coordinates), block.linear_part(problem.coordinates)
        rest = dict.fromkeys(word for name, word in words.items() if name not in linear)
        combination: dict[Derivative, Coefficient] = {}
        for name, coefficient in linear.items():  # u_xt and u_tx are one word
            combination[words[name]] = combination.get(words[name], 0.0) + coefficient
        queries.append(Query(block.points, tuple(rest), combination))
    return queries


def block_residuals(problem: Problem) -> Callable[[list[Fields], Float[Array, "batch m"]], Residuals]:
    """(u's derivatives as `block_queries` asks for them, a) -> {q: F_q(u, a)} (eq:residual-blocks); one row of inputs
    may stand for all rows of solutions."""
    wanted = [block.wanted(problem.coordinates) for block in problem.blocks]
    linear = [block.linear_part(problem.coordinates) for block in problem.blocks]
    values = {
        block.name: jnp.asarray(problem.input.matrix(block.points[:, 0])).T
        for block in problem.blocks
        if "a" in block.parameters
    }

    def residuals(solution: list[Fields], a: Float[Array, "inputs m"]) -> Residuals:
        result = {}
        for block, names, known, fields in zip(problem.blocks, wanted, linear, solution, strict=True):
            rows = len(next(iter(fields.values()), a))
            # F(u, a) = (its linear part) + F(0 in place of that part's terms, a).
            arguments: dict[str, Any] = {
                name: jnp.zeros_like(fields[SUM]) if name in known else fields[word] for name, word in names.items()
            }
            for parameter in block.parameters:
                if parameter == "a":
                    arguments["a"] = jnp.broadcast_to(a @ values[block.name], (rows, len(block.points)))
                elif parameter in problem.coordinates:
                    column = problem.coordinates.index(parameter)
                    arguments[parameter] = block.points[:, column]
            rest = _checked(block, block.residual(**arguments), rows)
            result[block.name] = fields[SUM] + rest if known else rest
        return result

    return residuals


def _checked(block: Block, residual: Any, batch: int) -> Float[Array, "batch n *channels"]:
    shape = jnp.shape(residual)
    if len(shape) not in (2, 3) or shape[0] != batch:
        raise ConfigError(
            f"The residual of block '{block.name}' has shape {shape}: it must return (batch, points) or "
            f"(batch, points, channels), with the batch of {batch} inputs first."
        )
    return residual


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
