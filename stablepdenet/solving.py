"""Solving instead of training: for a linear PDE and coefficients linear in the input, the physics loss is a linear
least-squares problem."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from numpy import ndarray

from stablepdenet.errors import ConfigError
from stablepdenet.operators import Derivative, Functions, LinearOperator, box_functions, each_component, table
from stablepdenet.problems import BoundBlock, Problem, warn_of_contradictions

# Singular values below this part of the largest are rounding. Further cuts are for coefficients so large that float32
# could not add up their functions.
CUTS = (1e-13, 1e-11, 1e-9, 1e-7)
# How far float32 may be from float64 in an answer, of its size.
FLOAT32 = 1e-4
# How well a linear residual must add up, but for rounding, whatever the unit.
LINEAR, ROUNDING = 1e-8, 1e-14
SIZES = (1e-3, 1.0, 1e3, 1e6)
# Warn above this share of the residual, as these inputs of the problem's own see it.
POOR, TRIED = 2e-3, 8
# Functions at most: their values at all points are in memory at once.
MOST = 1_000
# Points for each function, where points have several coordinates.
POINTS_EACH = 4


def solve(problem: Problem) -> LinearOperator:
    """The minimiser of the physics loss, averaged over independent inputs of mean square one, among all operators
    G(a) = lift(a) + sum_j (a C + c)_j phi_j (eq:physics-loss).

    With residual rows A of the functions phi, M of the unit inputs and r of zero, weighted by sqrt(w_q / N_q), it is
    the least-squares solution of A C^T = -M and A c = -r. One factorisation in float64; no labels, no attack, no step.
    The functions are the ansatz's times its envelope, or polynomials, in periodic directions waves.
    """
    if not is_linear(problem):
        raise ConfigError(
            f"Problem '{problem.name}' is not linear in its solution and inputs: train an operator for it instead."
        )
    warn_of_contradictions(problem)
    lift = problem.ansatz.lift if problem.ansatz else None
    features = fixed_functions(problem)
    bound = [BoundBlock(problem, block) for block in problem.refinement_blocks or problem.blocks]
    parts = [_rows(problem, each, features, lift) for each in bound]
    of_features, of_rest, of_inputs = (np.concatenate(rows) for rows in zip(*parts, strict=True))
    if len(of_features) < of_features.shape[1]:
        raise ConfigError(
            f"Problem '{problem.name}' has {len(of_features)} equations for {of_features.shape[1]} functions: give its "
            "blocks more points."
        )
    # Derivatives of high modes are large: columns of one size make the cut-off meaningful.
    scale = np.linalg.norm(of_features, axis=0)
    scale[scale == 0] = 1.0
    left, values, right = np.linalg.svd(of_features / scale, full_matrices=False)
    drawn = np.asarray(problem.sample(TRIED, key=jax.random.key(0)), np.float64)
    for cut in CUTS:
        kept = values > cut * values[0]
        found = (right[kept].T / values[kept] @ (left[:, kept].T @ -of_rest)) / scale[:, None]
        operator = LinearOperator(found[:, :-1].T, found[:, -1], features, lift, problem.domain.dimension)
        if _float32_holds(operator, bound, drawn):
            break
    _tell_if_poor(problem, drawn, np.concatenate([of_inputs, of_rest[:, -1:]], axis=1), of_features @ found + of_rest)
    return operator


def _float32_holds(operator: LinearOperator, bound: list[BoundBlock], a: Float[ndarray, "inputs m"]) -> bool:
    """Whether an answer is the same in float32 as in float64, at the points of the largest block."""
    points = max((each.block.points for each in bound), key=len)
    with jax.enable_x64(True):
        basis = np.asarray(operator.basis(jnp.asarray(points, jnp.float64)))
        coefficients = np.asarray(operator.coefficients(jnp.asarray(a, jnp.float64)))
    exact = np.einsum("bk,nk...->bn...", coefficients, basis)
    rounded = np.einsum("bk,nk...->bn...", coefficients.astype(np.float32), basis.astype(np.float32))
    return bool(np.linalg.norm(rounded - exact) <= FLOAT32 * np.linalg.norm(exact))


def _tell_if_poor(
    problem: Problem, a: Float[ndarray, "inputs m"], before: Float[ndarray, "rows _"], after: Float[ndarray, "rows _"]
) -> None:
    """Warns where the functions phi leave much of the residual that zero has."""
    with_constant = np.concatenate([a, np.ones((len(a), 1))], axis=1).T
    whole = np.linalg.norm(before @ with_constant)
    share = np.linalg.norm(after @ with_constant) / whole if whole else 0.0
    if share > POOR:
        warnings.warn(
            f"Problem '{problem.name}' was solved, but {share:.1%} of its residual is left, and errors may be larger: "
            "its solutions are not smooth enough for the functions they are made of. Give the problem more points, or "
            "an ansatz that knows them better.",
            stacklevel=3,
        )


def is_linear(problem: Problem) -> bool:
    """Whether every residual is linear in the solution, its derivatives and the inputs together: tried on random
    numbers."""
    return all(is_linear_block(bound) for bound in problem.bound)


def is_linear_block(bound: BoundBlock) -> bool:
    """F(2 u + 3 v) - F(0) = 2 (F(u) - F(0)) + 3 (F(v) - F(0)), for numbers of every size."""
    rng = np.random.default_rng(0)
    mixture = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [2.0, 3.0]])
    # All sizes at once, as a compilation takes longer than the numbers.
    rows = np.concatenate([size * mixture for size in SIZES])
    shape = (2, len(bound.block.points))
    # u_xt and u_tx are one function.
    words = {term: rows @ rng.normal(size=shape) for term in dict.fromkeys(bound.terms.solution.values())}
    inputs = {name: rows @ rng.normal(size=shape) for name in bound.places}
    found = _residual(bound, {name: words[term] for name, term in bound.terms.solution.items()}, inputs)
    # What is not linear may overflow.
    with np.errstate(over="ignore", invalid="ignore"):
        for rest, *others in found.reshape(len(SIZES), len(mixture), -1):
            u, v, both = np.stack(others) - rest
            allowed = LINEAR * np.max(np.abs([u, v, both])) + ROUNDING * np.max(np.abs([rest, *others]))
            if not np.all(np.abs(both - 2.0 * u - 3.0 * v) <= allowed):
                return False
    return True


def fixed_functions(problem: Problem) -> Functions:
    """The functions phi: the ansatz's, or products of polynomials and waves on the domain, as many as the points can
    hold; times the envelope."""
    ansatz = problem.ansatz
    if ansatz and ansatz.features:
        features = ansatz.features
    else:
        counts = [_count(problem)] * problem.domain.dimension
        features = each_component(box_functions(problem.domain, counts), len(problem.solution))
    envelope = ansatz.envelope if ansatz else None
    if envelope is None:
        return features
    if len(problem.solution) == 1:
        return lambda points: envelope(points) * features(points)
    return lambda points: envelope(points)[:, None, :] * features(points)


def _count(problem: Problem) -> int:
    """How many functions of each coordinate. On n equally spaced points of one coordinate least squares is stable up to
    degree 2 sqrt(n)."""
    blocks, dimension = problem.refinement_blocks or problem.blocks, problem.domain.dimension
    # Points on a side say nothing of the degree across it.
    most = max([len(b.points) for b in blocks if np.all(np.ptp(b.points, axis=0) > 0)], default=1)
    allowed = 2.0 * math.sqrt(most) if dimension == 1 else (most / POINTS_EACH) ** (1.0 / dimension)
    largest = (MOST / len(problem.solution)) ** (1.0 / dimension)
    return max(1, min(int(allowed), int(largest) - (dimension == 1)))


def _rows(
    problem: Problem, bound: BoundBlock, features: Functions, lift: Functions | None
) -> tuple[Float[ndarray, "rows k"], Float[ndarray, "rows _"], Float[ndarray, "rows m"]]:
    """sqrt(w / N) F at all points: of each function; of each unit input with its lift, and of zero; of each unit input
    without its lift."""
    block, size = bound.block, problem.inputs.size
    found = _residual_of(bound, features, np.zeros((1, size)))
    at_rest = _residual_of(bound, None, np.zeros((1, size)))
    unit = _residual_of(bound, None, np.eye(size))
    lifted = _residual_of(bound, lift, np.eye(size)) if lift else unit
    root = math.sqrt(block.weight / found.shape[1])

    def matrix(rows: Float[ndarray, "k n *channels"]) -> Float[ndarray, "rows k"]:
        return root * rows.reshape(len(rows), -1).T

    rest = np.concatenate([lifted - at_rest, at_rest])
    return matrix(found - at_rest), matrix(rest), matrix(unit - at_rest)


def _residual_of(
    bound: BoundBlock, functions: Functions | None, a: Float[ndarray, "inputs m"]
) -> Float[ndarray, "k n *channels"]:
    """F of some functions of the point, each with its own input or all with one; of zero, without functions."""
    points = bound.block.points
    tables: dict[tuple[int, Derivative], Float[ndarray, "k n"]] = {}
    for number, words in bound.terms.words.items():
        found = table(functions, points, words, number) if functions else {}
        tables |= {(number, word): found[word].T if functions else np.zeros((len(a), len(points))) for word in words}
    fields = {name: tables[term] for name, term in bound.terms.solution.items()}
    with jax.enable_x64(True):
        inputs = {name: np.asarray(values) for name, values in bound.inputs()(jnp.asarray(a)).items()}
    # An equation without the solution is the same for all functions.
    batch = max(len(values) for values in (*fields.values(), *inputs.values()))
    rows = _residual(bound, fields, inputs)
    return np.broadcast_to(rows, (batch, *rows.shape[1:]))


def _residual(
    bound: BoundBlock, fields: Mapping[str, Float[ndarray, "k n"]], inputs: Mapping[str, Float[ndarray, "_ n"]]
) -> Float[ndarray, "k rows *channels"]:
    """F in float64."""
    with jax.enable_x64(True):
        arrays = [{name: jnp.asarray(values) for name, values in each.items()} for each in (fields, inputs)]
        return np.asarray(jax.jit(bound.plain)(*arrays), np.float64)
