"""Solving instead of training: for a linear PDE and coefficients linear in the input, the physics loss is a linear
least-squares problem."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping

import jax
import numpy as np
from jaxtyping import Float
from numpy import ndarray

from stablepdenet.errors import ConfigError
from stablepdenet.operators import (
    BoxFunctions,
    Derivative,
    Functions,
    LinearOperator,
    evaluated,
    table,
)
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
        if _float32_holds(operator, problem, drawn):
            break
    _tell_if_poor(problem, drawn, np.concatenate([of_inputs, of_rest[:, -1:]], axis=1), of_features @ found + of_rest)
    return operator


def _float32_holds(operator: LinearOperator, problem: Problem, a: Float[ndarray, "inputs m"]) -> bool:
    """Whether an answer is the same in float32 as in float64, at the points of the largest block."""
    points = max((block.points for block in problem.refinement_blocks or problem.blocks), key=len)
    parts = [operator.functions] if operator.lift is None else [operator.functions, operator.lift]
    coefficients = a @ operator.matrix + operator.constant
    if operator.lifted:
        coefficients = np.concatenate([coefficients, a], axis=1)
    wrong = whole = 0.0
    for number in range(len(problem.solution)):
        basis = np.concatenate([table(part, points, ((),), number)[()] for part in parts], axis=1)
        exact = coefficients @ basis.T
        wrong += np.sum((coefficients.astype(np.float32) @ basis.astype(np.float32).T - exact) ** 2)
        whole += np.sum(exact**2)
    return bool(wrong <= FLOAT32**2 * whole)


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
        counts = (_count(problem),) * problem.domain.dimension
        features = BoxFunctions(problem.domain, counts, len(problem.solution))
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
    unit = np.eye(problem.inputs.size)
    nothing = np.zeros((1 + len(unit), len(bound.block.points)))
    own, lifted = ({} if each is None else _tables(bound, each) for each in (features, lift))
    fields = {}
    for name, term in bound.terms.solution.items():
        fields[name] = np.concatenate([own[term], nothing, *([lifted[term]] if lift else [])])
    # An equation may be without the solution.
    functions = jax.eval_shape(features, jax.ShapeDtypeStruct((1, problem.domain.dimension), float)).shape[1]
    a = np.concatenate([np.zeros((functions + 1, len(unit))), unit, *([unit] if lift else [])])
    # One program for all rows: compiling it takes longer than the numbers.
    found = evaluated(lambda fields, a: bound.plain(fields, bound.inputs()(a)), fields, a)
    found = np.asarray(found) * math.sqrt(bound.block.weight / found.shape[1])
    of_functions, at_rest, *of_inputs = np.split(found, np.cumsum([functions, 1, len(unit)]))

    def matrix(rows: Float[ndarray, "k n *channels"]) -> Float[ndarray, "rows k"]:
        return rows.reshape(len(rows), -1).T

    plain, with_lift = of_inputs[0] - at_rest, of_inputs[-1 if lift else 0] - at_rest
    return matrix(of_functions - at_rest), matrix(np.concatenate([with_lift, at_rest])), matrix(plain)


def _tables(bound: BoundBlock, functions: Functions) -> dict[tuple[int, Derivative], Float[ndarray, "k n"]]:
    """The derivatives of functions that a block names, at its points."""
    return {
        (number, word): found.T
        for number, words in bound.terms.words.items()
        for word, found in table(functions, bound.block.points, words, number).items()
    }


def _residual(
    bound: BoundBlock, fields: Mapping[str, Float[ndarray, "k n"]], inputs: Mapping[str, Float[ndarray, "_ n"]]
) -> Float[ndarray, "k rows *channels"]:
    """F in float64."""
    return np.asarray(evaluated(bound.plain, fields, inputs))
