"""Solving instead of training: for a linear PDE and coefficients linear in the input, the physics loss is a linear
least-squares problem."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from numpy import ndarray

from stablepdenet.errors import ConfigError
from stablepdenet.operators import Ansatz, Functions, LinearOperator, legendre, nested_derivatives
from stablepdenet.problems import Problem

# Singular values below this part of the largest are rounding.
CUT = 1e-13
# How well a linear residual must add up.
LINEAR = 1e-8


def solve(problem: Problem) -> LinearOperator:
    """The minimiser of the physics loss, averaged over independent inputs of mean square one, among all operators
    G(a) = lift(a) + sum_j (a C + c)_j phi_j (eq:physics-loss).

    With residual rows A of the functions phi, M of the unit inputs and r of zero, weighted by sqrt(w_q / N_q), it is
    the least-squares solution of A C^T = -M and A c = -r. One factorisation in float64; no labels, no attack, no step.
    """
    ansatz = problem.ansatz or default_ansatz(problem)
    size = problem.input.size
    features, lift = ansatz.features, ansatz.lift or _nothing(size)
    with jax.enable_x64(True):
        at_rest = _collocate(problem, _nothing(1), np.zeros((1, size)))
        of_input = _collocate(problem, lift, np.eye(size)) - at_rest
        count = features(jnp.asarray(problem.grid[:1])).shape[1]
        of_features = _collocate(problem, features, np.zeros((count, size))) - at_rest
        _require_linear(problem, ansatz, of_features, of_input, at_rest)
    # Derivatives of high modes are large: columns of one size make the cut-off meaningful.
    scale = np.linalg.norm(of_features, axis=0)
    scale[scale == 0] = 1.0
    found = np.linalg.lstsq(of_features / scale, -np.concatenate([of_input, at_rest], axis=1), rcond=CUT)[0]
    found /= scale[:, None]
    return LinearOperator(jnp.asarray(found[:, :-1].T, jnp.float32), jnp.asarray(found[:, -1], jnp.float32), ansatz)


def default_ansatz(problem: Problem) -> Ansatz:
    """Polynomials on the box of the evaluation grid, of degrees that the collocation points can hold: on n equally
    spaced points, least squares is stable up to degree 2 sqrt(n)."""
    most = max(len(block.points) for block in problem.blocks)
    degree = int(2.0 * math.sqrt(most ** (1.0 / len(problem.axes))))
    ranges = [(float(axis[0]), float(axis[-1])) for axis in problem.axes]
    return Ansatz(legendre(ranges, [degree] * len(ranges)))


def _nothing(columns: int) -> Functions:
    return lambda points: jnp.zeros((len(points), columns), points.dtype)


def _collocate(problem: Problem, functions: Functions, inputs: Float[ndarray, "k m"]) -> Float[ndarray, "rows k"]:
    """sqrt(w_q / N_q) F_q(u, a) at all points of all blocks, for k fields u and their inputs, in float64."""
    rows = []
    for block in problem.blocks:
        words = block.wanted(problem.coordinates)
        points = jnp.asarray(block.points, jnp.float64)
        fields = nested_derivatives(functions, points, tuple(dict.fromkeys(words.values())))
        arguments = {name: fields[word].T for name, word in words.items()}
        for name in block.parameters:
            if name == "a":
                arguments[name] = jnp.asarray(inputs @ problem.input.matrix(block.points[:, 0]).T)
            elif name in problem.coordinates:
                arguments[name] = points[:, problem.coordinates.index(name)]
        residual = np.asarray(block.residual(**arguments), np.float64)
        rows.append(math.sqrt(block.weight / len(points)) * residual.reshape(len(inputs), -1).T)
    return np.concatenate(rows)


def _require_linear(
    problem: Problem,
    ansatz: Ansatz,
    of_features: Float[ndarray, "rows k"],
    of_input: Float[ndarray, "rows m"],
    at_rest: Float[ndarray, "rows 1"],
) -> None:
    """Tries a random field and input of two sizes."""
    rng = np.random.default_rng(0)
    field, a = rng.normal(size=of_features.shape[1]), rng.normal(size=problem.input.size)
    lift = ansatz.lift or _nothing(len(a))
    for size in (1.0, 10.0):

        def functions(points: jax.Array, size: float = size) -> jax.Array:
            return (size * (ansatz.features(points) @ field + lift(points) @ a))[:, None]

        whole = _collocate(problem, functions, size * a[None])[:, 0]
        parts = size * (of_features @ field + of_input @ a) + at_rest[:, 0]
        if np.max(np.abs(whole - parts)) > LINEAR * np.max(np.abs(parts)):
            raise ConfigError(f"Problem '{problem.name}' is not linear in u and a: train an operator for it instead.")
