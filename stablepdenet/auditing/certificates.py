"""Certificates: where operator and reference are linear, the worst case over a ball is known, not searched for.

With the error operator E = G - S, |E (a + B z) + e_0|^2 is a quadratic function of z. Its maximum over an ellipsoid
z^T D z <= R^2 equals the minimum of its dual (the S-lemma), a convex function of one multiplier, and every multiplier
gives an upper bound: what stands here is never too small by an unfinished search. The l2 ball is such an ellipsoid. The
linf ball lies in many of them; the smallest of their maxima is an upper bound, and an attack a lower one.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, PRNGKeyArray
from numpy import ndarray

from stablepdenet.attacks import BandLimitedBall, LinfBall, strong_pgd
from stablepdenet.auditing.inputs import setting_of
from stablepdenet.auditing.measure import flat_basis
from stablepdenet.auditing.metrics import summary
from stablepdenet.auditing.session import Session, Task
from stablepdenet.operators import LinearOperator
from stablepdenet.problems import LinearReference, Problem

BISECTIONS, RATIO_BISECTIONS = 100, 12
# Of float32.
UNIT = 2.0**-24
# A relative error that answering zero has too: a bound that is no smaller says nothing.
USEFUL = 1.0

Vector = Float[ndarray, " batch"]


class Affine(NamedTuple):
    """a -> a M^T + c, scaled so that the Euclidean norm of a field is its root mean square."""

    matrix: Float[ndarray, "n m"]
    constant: Float[ndarray, " n"]

    def __call__(self, a: Float[ndarray, "batch m"]) -> Float[ndarray, "batch n"]:
        return a @ self.matrix.T + self.constant


class Certificate(NamedTuple):
    """Bounds for each input over its ball: on the root mean square of the error, on its ratio to the solution's, on the
    solution's from below, and on what evaluating in float32 adds to the error."""

    error: Vector
    ratio: Vector
    solution: Vector
    rounding: Vector


def certificates(session: Session) -> Iterator[Task]:
    """For linear operators on problems with a linear reference."""
    problem = session.problem
    ball = problem.attack.ball if problem.attack else None
    if isinstance(problem.reference, LinearReference) and isinstance(ball, LinfBall | BandLimitedBall):
        for name, operator in session.operators.items():
            if isinstance(operator, LinearOperator):
                for eps in session.eps:
                    yield f"certificate {setting_of(eps)} {name}", partial(_certificate, session, name, operator, eps)


def certify(operator: LinearOperator, problem: Problem, a: Float[ndarray, "batch m"], eps: float) -> Certificate:
    """The worst case of each input over the ball of the problem's attack with radius `eps`.

    Restrictions of the admissible set are left out: they could only lower it.
    """
    a = np.asarray(a, np.float64)
    error, solution = error_operator(operator, problem)
    at, true = error(a), solution(a)
    ellipsoids = _ellipsoids(problem, error.matrix, a, eps)
    largest = [_largest(error.matrix @ axes, at, size) for axes, size in ellipsoids]
    smallest = [-_largest(solution.matrix @ axes, true, size, sign=-1.0) for axes, size in ellipsoids]
    worst, least = np.sqrt(np.min(largest, axis=0)), np.sqrt(np.maximum(np.max(smallest, axis=0), 0.0))
    # Ratios take a factorisation for each input and step: in the tightest ellipsoid only.
    axes, size = ellipsoids[int(np.argmin(np.sum(largest, axis=1)))]
    ratio = _ratio((error.matrix @ axes, at), (solution.matrix @ axes, true), size, worst, least)
    return Certificate(worst, ratio, least, _rounding(operator, problem, a, eps))


def error_operator(operator: LinearOperator, problem: Problem) -> tuple[Affine, Affine]:
    """G - S and S on the evaluation grid, in float64."""
    assert isinstance(problem.reference, LinearReference)
    basis, _ = _basis(operator, problem)
    own = operator.matrix.shape[1]
    scale = 1.0 / np.sqrt(len(basis))
    learned = basis[:, :own] @ np.asarray(operator.matrix, np.float64).T
    learned = learned + basis[:, own:] if operator.lifted else learned
    error = Affine(scale * (learned - problem.reference.matrix), scale * basis[:, :own] @ np.asarray(operator.constant))
    return error, Affine(scale * problem.reference.matrix, np.zeros(len(basis)))


def _basis(operator: LinearOperator, problem: Problem) -> tuple[Float[ndarray, "n k"], Float[ndarray, "n k"]]:
    """The functions on the grid, and how far float32 is from them."""
    with jax.enable_x64(True):
        exact = flat_basis(np.asarray(operator.basis(jnp.asarray(problem.grid, jnp.float64))))
    grid = jnp.asarray(problem.grid, jnp.float32)
    # A compiler may reorder: as it stands, and compiled.
    rounded = [operator.basis(grid), jax.jit(lambda grid: operator.basis(grid))(grid)]
    return exact, np.max([np.abs(exact - flat_basis(np.asarray(one, np.float64))) for one in rounded], axis=0)


def _ellipsoids(
    problem: Problem, matrix: Float[ndarray, "n m"], a: Float[ndarray, "batch m"], eps: float
) -> list[tuple[Float[ndarray, "m k"], Vector]]:
    """Ellipsoids around the ball as images {A y : |y|^2 <= size} of balls."""
    ball = problem.require_attack().ball
    if isinstance(ball, BandLimitedBall):
        return [(problem.inputs.modes(ball.band).T, _radius(problem, a, eps) ** 2)]
    # |z_i| <= eps lies in sum_i d_i z_i^2 <= eps^2 sum_i d_i: with equal d, with the columns' sizes, and with the row
    # sums of |E^T E|, for which the largest multiplier is at most one.
    gram = np.abs(matrix.T @ matrix)
    weights = [np.ones(len(gram)), np.sqrt(np.diag(gram)), np.sum(gram, axis=1)]
    weights = [weight / np.max(weight) + 1e-12 for weight in weights]
    return [(np.diag(1.0 / np.sqrt(d)), np.full(len(a), eps**2 * np.sum(d))) for d in weights]


def _radius(problem: Problem, a: Float[ndarray, "batch m"], eps: float) -> Vector:
    """Of a relative budget; a little more than it, for rounding."""
    with jax.enable_x64(True):
        return (1.0 + 1e-12) * eps * np.asarray(problem.inputs.radius(jnp.asarray(a)), np.float64)


def _largest(
    matrix: Float[ndarray, "n k"], at: Float[ndarray, "batch n"], size: Vector, *, sign: float = 1.0
) -> Vector:
    """max sign |at + M y|^2 over |y|^2 <= size."""
    values, vectors = np.linalg.eigh(sign * matrix.T @ matrix)
    slopes = sign * (at @ matrix) @ vectors
    return _dual(values, slopes, sign * np.sum(at**2, axis=1), size)


def _dual(
    values: Float[ndarray, "*batch k"], slopes: Float[ndarray, "batch k"], constant: Vector, size: Vector
) -> Vector:
    """min over mu >= max(values, 0) of constant + mu size + sum_i slopes_i^2 / (mu - values_i).

    Its derivative grows with mu, so bisection finds where it changes its sign; the upper end is always admissible.
    """
    top = np.broadcast_to(np.maximum(np.max(values, axis=-1), 0.0), constant.shape)
    tiny = np.finfo(float).tiny + 1e-15 * top
    low, high = top + tiny, top + tiny + np.linalg.norm(slopes, axis=1) / np.sqrt(np.maximum(size, 1e-300))
    for _ in range(BISECTIONS):
        middle = 0.5 * (low + high)
        falling = np.sum((slopes / (middle[:, None] - values)) ** 2, axis=1) > size
        low, high = np.where(falling, middle, low), np.where(falling, high, middle)
    return constant + high * size + np.sum(slopes**2 / (high[:, None] - values), axis=1)


def _ratio(
    error: tuple[Float[ndarray, "n k"], Float[ndarray, "batch n"]],
    solution: tuple[Float[ndarray, "n k"], Float[ndarray, "batch n"]],
    size: Vector,
    worst: Vector,
    least: Vector,
) -> Vector:
    """The smallest r with max |e + E y|^2 - r^2 |s + S y|^2 <= 0, by bisection, each r being a problem as above."""
    (of_error, e), (of_solution, s) = error, solution
    gram_e, gram_s = of_error.T @ of_error, of_solution.T @ of_solution
    with np.errstate(divide="ignore", invalid="ignore"):
        low, high = np.linalg.norm(e, axis=1) / np.linalg.norm(s, axis=1), worst / least
    bounded = np.isfinite(high)
    # Put back below: where a solution may vanish, the bisection means nothing.
    low, high = np.where(bounded, low, 0.0), np.where(bounded, high, 1.0)
    for _ in range(RATIO_BISECTIONS):
        r2 = (0.5 * (low + high)) ** 2
        values, vectors = np.linalg.eigh(gram_e - r2[:, None, None] * gram_s)
        slopes = np.einsum("bk,bkj->bj", e @ of_error - r2[:, None] * (s @ of_solution), vectors)
        bound = _dual(values, slopes, np.sum(e**2, axis=1) - r2 * np.sum(s**2, axis=1), size)
        high, low = np.where(bound <= 0, np.sqrt(r2), high), np.where(bound <= 0, low, np.sqrt(r2))
    return np.where(bounded, high, np.inf)


def _rounding(operator: LinearOperator, problem: Problem, a: Float[ndarray, "batch m"], eps: float) -> Vector:
    """What float32 can add: |c| |phi's own error| + (k + m) u |a| |C| |phi|, for the largest |a| of the ball."""
    basis, off = _basis(operator, problem)
    matrix = np.abs(np.asarray(operator.matrix, np.float64))
    matrix = np.concatenate([matrix, np.eye(len(matrix))], axis=1) if operator.lifted else matrix
    constant = np.pad(np.abs(np.asarray(operator.constant, np.float64)), (0, matrix.shape[1] - len(operator.constant)))
    reach = np.full(len(a), eps)
    ball = problem.require_attack().ball
    if isinstance(ball, BandLimitedBall):
        modes = problem.inputs.modes(ball.band)
        reach = _radius(problem, a, eps) * np.linalg.norm(modes, axis=0).max()
    c = (np.abs(a) + reach[:, None]) @ matrix + constant
    steps = (matrix.shape[0] + matrix.shape[1] + 2) * UNIT
    return np.sqrt(np.mean((c @ (off + steps * np.abs(basis)).T) ** 2, axis=1))


def _certificate(session: Session, name: str, operator: LinearOperator, eps: float) -> None:
    problem, a = session.problem, session.clean
    found = certify(operator, problem, a, eps)
    reached = _attacked(operator, problem, a, eps, key=session.stream("certified", name, eps)) / found.error
    values = {**_bounds(found), **summary("reached", reached), "reached_min": float(reached.min())}
    for sentence in _told(values, found):
        session.note(f"{name}, {setting_of(eps)}: {sentence}")
    session.add(name, "certified", setting_of(eps), {key: value for key, value in values.items() if value < np.inf})


def _bounds(found: Certificate) -> dict[str, float]:
    """Pooled: the whole bound, the one of exact arithmetic, and the allowance for rounding; the bounded inputs' own
    ratios, and the share of inputs whose ratio says nothing."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = found.ratio + found.rounding / found.solution
        parts = {"relative_l2": found.error + found.rounding, "exact": found.error, "rounding": found.rounding}
        pooled = {name: float(np.sqrt(np.sum(part**2) / np.sum(found.solution**2))) for name, part in parts.items()}
    bounded = ratio[np.isfinite(ratio)]
    useless = {"useless": 1.0 - float(np.mean(ratio < USEFUL))}
    return {**pooled, **(summary("ratio", bounded) if len(bounded) else {}), **useless}


def _told(values: dict[str, float], found: Certificate) -> Iterator[str]:
    """What a bound does not say, in words."""
    bound, count = values["relative_l2"], len(found.ratio)
    if not bound < USEFUL:
        yield f"the certificate is no useful bound: it allows an error of {bound:.3g} times the solution."
    elif values["rounding"] > 0.5 * bound:
        yield (
            f"the certificate is a rounding bound: {bound:.1e}, of which {values['rounding']:.1e} is what float32 may "
            "add in the worst case. What is reached is far below it."
        )
    if values["useless"]:
        yield (
            f"{round(values['useless'] * count)} of {count} inputs have no useful bound on their relative error, "
            f"{np.sum(~np.isfinite(found.ratio))} of them because their solution may vanish in the ball."
        )


def _attacked(
    operator: LinearOperator, problem: Problem, a: Float[ndarray, "batch m"], eps: float, *, key: PRNGKeyArray
) -> Vector:
    """The error that the white-box attack finds, in float64: far below it, float32 sees nothing but rounding."""
    error, _ = error_operator(operator, problem)
    columns = np.concatenate([error.matrix, error.constant[:, None]], axis=1)
    factor = np.asarray(np.linalg.qr(columns, mode="r"))
    scale = np.linalg.norm(factor, 2)
    attack = dataclasses.replace(problem.require_attack().with_eps(eps), random_start=True)
    with jax.enable_x64(True):

        def squares(a: jax.Array) -> jax.Array:
            whole = jnp.concatenate([a, jnp.ones((len(a), 1))], axis=1)
            return jnp.sum((whole @ jnp.asarray(factor / scale).T) ** 2, axis=1)

        start = jnp.asarray(a, jnp.float64)
        worst = strong_pgd(attack, squares, start, key=key).inputs
        return scale * np.sqrt(np.asarray(squares(worst)))
