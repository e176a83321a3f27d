"""Squares of what is compared, for each input: every number of an audit is made of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy import ndarray

from stablepdenet.evaluation.inputs import Case
from stablepdenet.operators import AbstractBasisOperator, AbstractOperator, MovingFrameOperator
from stablepdenet.physics import block_norms, residual_map, weighted_sum
from stablepdenet.problems import Problem

# Inputs evaluated at once: bounds the memory on space-time grids.
CHUNK = 200
# Without a basis an operator may hold a network's layers for every pair of input and point, and again for gradients.
PAIRS = 200_000

Squares = Float[ndarray, " batch"]


@dataclass(frozen=True)
class Measured:
    """Mean squares over the grid (of fields), the input norm's squares (of perturbations), for each input.

    Responses are G(a + delta) - G(a) and S(a + delta) - S(a); they are None where nothing was perturbed, the residuals'
    also where the operator cannot be differentiated in the points.
    """

    error: Squares
    solution: Squares
    perturbation: Squares | None = None
    learned: Squares | None = None
    true: Squares | None = None
    inner: Squares | None = None
    mismatch: Squares | None = None
    residual: Squares | None = None


class Measurer:
    """Compiled evaluations of operators on one problem, shared by all cases and by operators of one structure."""

    def __init__(self, problem: Problem):
        self.problem = problem
        points = jnp.asarray(problem.grid)
        # The table of the operator asked last: asked again, only inputs are new.
        self._last: tuple[AbstractOperator, Any] | None = None
        self._tabulate = eqx.filter_jit(lambda operator: operator.tabulate(points))
        self._combine = eqx.filter_jit(lambda operator, table, a: operator.combine(table, a))

        def residual_change(
            operator: AbstractOperator, a: Float[Array, "batch m"], base: Float[Array, "batch m"]
        ) -> Float[Array, " batch"]:
            residuals = residual_map(operator, problem)
            after, before = residuals(a), residuals(base)
            return weighted_sum(block_norms({name: after[name] - before[name] for name in after}), problem)

        self._residual_change = eqx.filter_jit(residual_change)

    def solve(self, operator: AbstractOperator, a: Float[ndarray, "batch m"]) -> Float[ndarray, "batch n"]:
        """The operator's solutions on the evaluation grid, in float64."""
        parts = chunks(a, at_once(self.problem, operator))
        return np.concatenate([np.asarray(self._solve(operator, part)[:rows], np.float64) for part, rows in parts])

    def _solve(self, operator: AbstractOperator, a: Float[Array, "batch m"]) -> Float[Array, "batch n"]:
        if self._last is None or self._last[0] is not operator:
            self._last = (operator, self._tabulate(operator))
        return self._combine(operator, self._last[1], a)

    def measure(
        self,
        operators: Mapping[str, AbstractOperator],
        case: Case,
        *,
        residuals: Mapping[str, bool],
    ) -> dict[str, Measured]:
        """Each operator on one case; `residuals` says for which the residuals' response can be had."""
        parts: dict[str, list[dict[str, Squares]]] = {name: [] for name in operators}
        base = case.inputs if case.base is None else case.base
        most = at_once(self.problem, *operators.values())
        rows = zip(*(chunks(a, most) for a in (case.inputs, case.truth, base)), strict=True)
        for (inputs, count), (truth, _), (clean, _) in rows:
            solution = self.problem.reference(np.asarray(truth)[:count])
            before = self.problem.reference(np.asarray(clean)[:count]) if case.base is not None else None
            for name, operator in operators.items():
                part = self._chunk(operator, inputs, clean, solution, before, residuals[name])
                parts[name].append(part)
        return {
            name: Measured(**{key: np.concatenate([part[key] for part in found]) for key in found[0]})
            for name, found in parts.items()
        }

    def _chunk(
        self,
        operator: AbstractOperator,
        inputs: Float[Array, "batch m"],
        clean: Float[Array, "batch m"],
        solution: Float[ndarray, "rows n"],
        before: Float[ndarray, "rows n"] | None,
        residuals: bool,
    ) -> dict[str, Squares]:
        rows = len(solution)
        predicted = np.asarray(self._solve(operator, inputs)[:rows], np.float64)
        squares = {"error": _mean_square(predicted - solution), "solution": _mean_square(solution)}
        if before is not None:
            learned = predicted - np.asarray(self._solve(operator, clean)[:rows], np.float64)
            true = solution - before
            squares |= {
                "perturbation": np.asarray(self.problem.input.radius(inputs - clean)[:rows], np.float64) ** 2,
                "learned": _mean_square(learned),
                "true": _mean_square(true),
                "inner": np.mean(learned * true, axis=1),
                "mismatch": _mean_square(learned - true),
            }
            if residuals:
                squares["residual"] = np.asarray(self._residual_change(operator, inputs, clean)[:rows], np.float64)
        return squares


def at_once(problem: Problem, *operators: AbstractOperator) -> int:
    """How many inputs the operators are given together."""
    basis = all(isinstance(operator, AbstractBasisOperator | MovingFrameOperator) for operator in operators)
    return CHUNK if basis else min(CHUNK, max(1, PAIRS // len(problem.grid)))


def chunks(a: Float[ndarray, "batch m"], most: int) -> Iterator[tuple[Float[Array, "chunk m"], int]]:
    """Equal parts of at most `most` rows, so that one compiled program serves them all, and how many rows count: the
    last part is filled up with its last row."""
    number = -(-len(a) // most)
    size = -(-len(a) // max(number, 1))
    for start in range(0, len(a), size):
        part = np.asarray(a[start : start + size])
        filled = np.concatenate([part, np.repeat(part[-1:], size - len(part), axis=0)])
        yield jnp.asarray(filled), len(part)


def _mean_square(values: Float[ndarray, "batch n"]) -> Squares:
    return np.mean(values**2, axis=1)
