"""Making a refined operator: its directions, its test functions, and if asked for, slopes that make it fast."""

from __future__ import annotations

import dataclasses
import warnings
from typing import Any, TypeVar, cast

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from stablepdenet.errors import ConfigError
from stablepdenet.operators import AbstractBasisOperator, AbstractOperator, Functions, MovingFrameOperator
from stablepdenet.problems import Block, Problem
from stablepdenet.problems.physics import block_queries, block_residuals
from stablepdenet.projecting import project, warn_if_poor
from stablepdenet.refining.operator import FAR, SURE, RefinedOperator
from stablepdenet.refining.residuals import CUT, Part, all_tests, fields_of, limit, projected_residual
from stablepdenet.refining.slopes import States, make_slopes

# Of the fields that a residual is made of, in float32.
ROUNDING = 2e-6
# Inputs whose linearised residuals say which directions there are.
TRIED = 8
# Inputs that are asked whether their steps settle.
ASKED = 20
# Inputs whose Jacobians slopes are made of, and others that they are tried on: drawn, rough, and doubled ones.
KNOWN, OTHERS = 100, 10
# By how much a sure answer may differ from that by the exact Jacobian, of its size, and how many must be sure.
CLOSE, MOST = 1e-3, 0.9


Operator = TypeVar("Operator", bound=AbstractOperator)


def refine(
    operator: Any,
    problem: Problem,
    *,
    steps: int = 1,
    further: int = 0,
    basis: AbstractBasisOperator | Functions | None = None,
) -> RefinedOperator:
    """The operator with `steps` Gauss-Newton steps after it, and `further` ones for inputs that have not arrived by
    then; one is enough for a linear problem. Anything callable as (a, points) -> u that has no basis is projected onto
    that of `solve`, or onto the one given: by functions of the points, or by an operator that has it."""
    if basis is not None or not isinstance(operator, AbstractBasisOperator):
        refined = refine(project(operator, problem, basis), problem, steps=steps, further=further)
        warn_if_poor(refined, dataclasses.replace(refined, steps=steps + 1), problem)
        return refined
    problem = dataclasses.replace(problem, blocks=problem.refinement_blocks or problem.blocks, refinement_blocks=())
    size = problem.inputs.size
    a = problem.sample(TRIED, key=jax.random.key(0))
    c = operator.coefficients(a)
    free = c.shape[1] - (size if operator.lifted else 0)
    problem = _open(operator, problem, free)
    bases = [operator.features(query) for query in block_queries(problem)]
    plain = [Part(jax.tree.map(lambda e: e[:free], b), jax.tree.map(lambda e: e[free:], b), {}) for b in bases]
    tests = all_tests(operator, problem, plain, c[:1], a[:1])

    def residual(own: Float[Array, " free"], c: Float[Array, " k"], a: Float[Array, " m"]) -> Float[Array, " rows"]:
        return projected_residual(problem, tests, fields_of(plain, jnp.concatenate([own, c[free:]])[None])[1], a[None])[
            0
        ]

    slope = jax.jit(jax.jacfwd(residual))
    stacked = np.concatenate([np.asarray(slope(row[:free], row, of), np.float64) for row, of in zip(c, a, strict=True)])
    if not np.all(np.isfinite(stacked)):
        raise ConfigError(f"Problem '{problem.name}' has residuals that are not finite at its own inputs.")
    _, values, right = np.linalg.svd(stacked / np.sqrt(TRIED), full_matrices=False)
    # With more unknowns than equations, some would follow rounding.
    rank = min(len(stacked) // TRIED, max(1, int(np.sum(values > limit(CUT, c.dtype) * values[0]))))
    directions = (right[:rank] / values[:rank, None]).T
    turn = jnp.asarray(directions.T, c.dtype)
    parts = [part._replace(turned=jax.tree.map(lambda entry: turn @ entry, part.own)) for part in plain]
    return RefinedOperator(operator, turn.T, parts, tests, problem, steps, further)


def faster(operator: Operator) -> Operator:
    """A refined operator that answers many inputs faster, by slopes where these prove to be right; any other as it is.
    It takes some seconds to make, which a few thousand answers win back."""
    if isinstance(operator, MovingFrameOperator):
        return dataclasses.replace(operator, operator=faster(operator.operator))
    if isinstance(operator, RefinedOperator) and operator.steps:
        return cast(Operator, _with_slopes(operator))
    return operator


def _with_slopes(refined: RefinedOperator) -> RefinedOperator:
    known = _various(refined.problem, KNOWN, 2)
    c = refined.operator.coefficients(known)
    arrived = refined.after(refined.refined(c, known), c)
    nothing = c.at[:, : len(refined.directions)].set(0.0)
    states = States(jnp.concatenate([c, arrived, nothing]), jnp.concatenate([known] * 3))
    slopes = make_slopes(refined.problem, refined.tests, refined.parts, states, alone=refined.steps == 1)
    if slopes is None:
        return refined
    faster = dataclasses.replace(refined, slopes=slopes)
    return faster if _same(faster, refined) else refined


def _various(problem: Problem, count: int, seed: int) -> Float[Array, "inputs m"]:
    """Drawn, rough and doubled inputs."""
    drawn = problem.sample(count, key=jax.random.key(seed))
    signs = jax.random.rademacher(jax.random.key(seed + 1), drawn.shape, drawn.dtype)
    return jnp.concatenate([drawn, *(problem.admissible.snap(each) for each in (drawn * (1 + 0.3 * signs), 2 * drawn))])


def _same(faster: RefinedOperator, refined: RefinedOperator) -> bool:
    """Whether most answers are sure, and those are the answers by the exact Jacobian."""
    a = _various(refined.problem, OTHERS, 4)
    basis = refined.basis(jnp.asarray(np.concatenate([block.points for block in refined.problem.blocks])))

    c = refined.operator.coefficients(a)
    found, exact = faster.by_slopes(c, a), refined.refined(c, a)
    one, other = (jnp.einsum("nk...,bk->bn...", basis, refined.after(each, c)) for each in (found, exact))
    apart, size = (jnp.linalg.norm(each.reshape(len(a), -1), axis=1) for each in (one - other, other))
    # Where steps do not settle, none are right.
    lost = np.asarray(exact.moved > FAR) & (refined.steps > 1)
    sure, close = np.asarray(found.unsure <= SURE), np.asarray(apart <= CLOSE * size)
    return bool(np.mean(sure | lost) >= MOST and np.all(close | lost | ~sure))


def warn_unsettled(operator: AbstractOperator, problem: Problem) -> None:
    """Tries a refined operator on inputs of the problem's own, without labels; says so where steps do not settle."""
    refined = operator.operator if isinstance(operator, MovingFrameOperator) else operator
    if not isinstance(refined, RefinedOperator):
        return
    a = problem.sample(ASKED, key=jax.random.key(1))
    left = int(jnp.sum(~jax.jit(lambda a: refined.settled(a))(a)))
    if left:
        warnings.warn(
            f"Refining does not settle on {left} of {ASKED} inputs of '{problem.name}', whose answers are not to be "
            "trusted: its functions or its points are too few. Raise operator.width, or the number of points.",
            stacklevel=3,
        )


def _open(operator: AbstractBasisOperator, problem: Problem, free: int) -> Problem:
    """The problem without the blocks that the operator satisfies by its construction: those whose residual a change of
    coefficients leaves as it is, but for what rounding of the fields that it is made of can do to it."""
    a = problem.sample(1, key=jax.random.key(0))
    c = operator.coefficients(a)
    change = jax.random.normal(jax.random.key(1), (1, free))
    bases = [operator.features(query) for query in block_queries(problem)]
    before, after = ([{w: x @ e for w, e in basis.items()} for basis in bases] for x in (c, c.at[:, :free].add(change)))
    # Of one size with the change, but of random signs: nothing cancels, neither in a sum over functions nor of points.
    signs = iter(jax.random.split(jax.random.key(2), sum(map(len, bases))))
    noise = [
        {
            w: jax.random.rademacher(next(signs), (1, e.shape[1])) * (jnp.abs(change) @ jnp.abs(e[:free]))
            for w, e in b.items()
        }
        for b in bases
    ]
    residuals = block_residuals(problem)
    reached, rounded = jax.jvp(lambda fields: residuals(fields, a), (after,), (noise,))
    start = residuals(before, a)

    def is_open(block: Block) -> bool:
        moved = jnp.max(jnp.abs(reached[block.name] - start[block.name]))
        # Nor is it closed where that is not a number.
        return not bool(moved <= limit(ROUNDING, c.dtype) * jnp.max(jnp.abs(rounded[block.name])))

    kept = tuple(block for block in problem.blocks if is_open(block))
    return dataclasses.replace(problem, blocks=kept or problem.blocks)
