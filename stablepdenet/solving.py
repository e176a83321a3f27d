"""Solving instead of training: for a linear PDE and coefficients linear in the input, the physics loss is a linear
least-squares problem."""

from __future__ import annotations

import math
import warnings
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy import ndarray

from stablepdenet.errors import ConfigError
from stablepdenet.operators import Functions, LinearOperator, legendre, table
from stablepdenet.problems import Block, Problem

# Singular values below this part of the largest are rounding.
CUT = 1e-13
# How well a linear residual must add up, but for rounding, whatever the unit.
LINEAR, ROUNDING = 1e-8, 1e-14
SIZES = (1e-3, 1.0, 1e3, 1e6)
# The part of the residual that may be left without a word, and the inputs that say so.
POOR, TRIED = 2e-3, 8
# Polynomials at most: their values at all points are in memory at once.
MOST = 1_000


def solve(problem: Problem) -> LinearOperator:
    """The minimiser of the physics loss, averaged over independent inputs of mean square one, among all operators
    G(a) = lift(a) + sum_j (a C + c)_j phi_j (eq:physics-loss).

    With residual rows A of the functions phi, M of the unit inputs and r of zero, weighted by sqrt(w_q / N_q), it is
    the least-squares solution of A C^T = -M and A c = -r. One factorisation in float64; no labels, no attack, no step.
    The functions are the ansatz's times its envelope, or polynomials.
    """
    if not is_linear(problem):
        raise ConfigError(f"Problem '{problem.name}' is not linear in u and a: train an operator for it instead.")
    size, lift = problem.input.size, problem.ansatz.lift if problem.ansatz else None
    features = _features(problem)
    functions = _beside(features, lift or (lambda points: jnp.zeros((len(points), size), points.dtype)))
    rows = np.concatenate([_rows(problem, block, functions) for block in problem.fine or problem.blocks])
    of_features, of_rest = np.split(rows, [-size - 1], axis=1)
    # Derivatives of high modes are large: columns of one size make the cut-off meaningful.
    scale = np.linalg.norm(of_features, axis=0)
    scale[scale == 0] = 1.0
    found = np.linalg.lstsq(of_features / scale, -of_rest, rcond=CUT)[0] / scale[:, None]
    _tell_if_poor(problem, of_rest, of_features @ found + of_rest)
    return LinearOperator(found[:, :-1].T, found[:, -1], features, lift)


def _tell_if_poor(problem: Problem, before: Float[ndarray, "rows _"], after: Float[ndarray, "rows _"]) -> None:
    """Warns where the functions phi leave much of the residuals of smooth inputs."""
    place = np.linspace(0.0, np.pi, problem.input.size)
    inputs = np.cos(np.arange(TRIED)[:, None] * place)
    with_constant = np.concatenate([inputs, np.ones((TRIED, 1))], axis=1).T
    whole = np.linalg.norm(before @ with_constant)
    left = np.linalg.norm(after @ with_constant) / whole if whole else 0.0
    if left > POOR:
        warnings.warn(
            f"Problem '{problem.name}' was solved, but {left:.1%} of its residual is left, and errors may be as large: "
            "its solutions are not smooth enough for the functions they are made of. Give the problem more points, or "
            "an ansatz that knows them better.",
            stacklevel=3,
        )


def is_linear(problem: Problem) -> bool:
    """Whether every residual is linear in u, its derivatives and a together: tried on random numbers."""
    return all(_is_linear(problem, block) for block in problem.blocks)


def _is_linear(problem: Problem, block: Block) -> bool:
    """F(2 u + 3 v) - F(0) = 2 (F(u) - F(0)) + 3 (F(v) - F(0)), for numbers of every size."""
    rng = np.random.default_rng(0)
    mixture = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [2.0, 3.0]])
    # All sizes at once, as a compilation takes longer than the numbers.
    rows = np.concatenate([size * mixture for size in SIZES])
    words = set(block.wanted(problem.coordinates).values())
    fields = {word: rows @ rng.normal(size=(2, len(block.points))) for word in words}
    found = _residual(problem, block, fields, rows @ rng.normal(size=(2, problem.input.size)))
    # What is not linear may overflow.
    with np.errstate(over="ignore", invalid="ignore"):
        for rest, *others in found.reshape(len(SIZES), len(mixture), -1):
            u, v, both = np.stack(others) - rest
            allowed = LINEAR * np.max(np.abs([u, v, both])) + ROUNDING * np.max(np.abs([rest, *others]))
            if not np.all(np.abs(both - 2.0 * u - 3.0 * v) <= allowed):
                return False
    return True


def _features(problem: Problem) -> Functions:
    """The functions phi. Without any known ones: polynomials on the box of all points, of degrees that the collocation
    points can hold. On n equally spaced points, least squares is stable up to degree 2 sqrt(n)."""
    ansatz = problem.ansatz
    if ansatz and ansatz.features:
        features = ansatz.features
    else:
        blocks, dim = problem.fine or problem.blocks, len(problem.axes)
        # Points on a side say nothing of the degree across it.
        most = max([len(b.points) for b in blocks if np.all(np.ptp(b.points, axis=0) > 0)], default=1)
        degree = min(int(2.0 * math.sqrt(most ** (1.0 / dim))), int(MOST ** (1.0 / dim)) - 1)
        corners = [(np.min(p, axis=0), np.max(p, axis=0)) for p in (problem.grid, *(b.points for b in blocks))]
        low, high = np.min([c[0] for c in corners], axis=0), np.max([c[1] for c in corners], axis=0)
        features = legendre(list(zip(low.tolist(), high.tolist(), strict=True)), [degree] * dim)
    envelope = ansatz.envelope if ansatz else None
    return (lambda points: envelope(points) * features(points)) if envelope else features


def _beside(*parts: Functions) -> Functions:
    return lambda points: jnp.concatenate([part(points) for part in parts], axis=1)


def _rows(problem: Problem, block: Block, functions: Functions) -> Float[ndarray, "rows k"]:
    """sqrt(w / N) F at all points, for each function, each of the last ones with its unit input, and at rest."""
    size = problem.input.size
    words = tuple(dict.fromkeys(block.wanted(problem.coordinates).values()))
    fields = table(functions, block.points, words)
    count = next(iter(fields.values())).shape[1] if fields else size
    inputs = np.concatenate([np.zeros((count - size, size)), np.eye(size)])
    fields = {word: np.concatenate([field.T, np.zeros((1, len(field)))]) for word, field in fields.items()}
    found = _residual(problem, block, fields, np.concatenate([inputs, np.zeros((1, size))]))
    rows = np.concatenate([found[:-1] - found[-1], found[-1:]])
    return math.sqrt(block.weight / found.shape[1]) * rows.reshape(len(rows), -1).T


def _residual(
    problem: Problem, block: Block, fields: dict[tuple[int, ...], Float[ndarray, "k n"]], a: Float[ndarray, "k m"]
) -> Float[ndarray, "k rows *channels"]:
    """F in float64."""
    inputs = a @ problem.input.matrix(block.points[:, 0]).T

    @jax.jit
    def compiled(fields: dict[str, Array], a: Array) -> Array:
        arguments: dict[str, Any] = dict(fields)
        for name in block.parameters:
            if name == "a":
                arguments[name] = a
            elif name in problem.coordinates:
                arguments[name] = block.points[:, problem.coordinates.index(name)]
        return block.residual(**arguments)

    with jax.enable_x64(True):
        named = {name: jnp.asarray(fields[word]) for name, word in block.wanted(problem.coordinates).items()}
        return np.asarray(compiled(named, jnp.asarray(inputs)), np.float64)
