"""Squares of what is compared, for each input: every number of an audit is made of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy import ndarray

from stablepdenet.auditing.inputs import Case
from stablepdenet.errors import ConfigError
from stablepdenet.functions.piecewise_linear import interpolation
from stablepdenet.operators import AbstractBasisOperator, AbstractOperator, MovingFrameOperator
from stablepdenet.problems import Problem
from stablepdenet.problems.physics import block_norms, residual_map, weighted_sum
from stablepdenet.spectral import Estimated, JudgedOperator, SpectralOperator

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
    components: Mapping[str, Measured] = field(default_factory=dict)


class Measurer:
    """Compiled evaluations of operators on one problem, shared by all cases and by operators of one structure."""

    def __init__(self, problem: Problem):
        self.problem = problem
        points = jnp.asarray(problem.grid)
        # The table of the operator asked last: asked again, only inputs are new.
        self._last: tuple[AbstractOperator, Any] | None = None
        self._tabulate = eqx.filter_jit(lambda operator: operator.tabulate(points))
        self._combine = eqx.filter_jit(lambda operator, table, a: operator.combine(table, a))

        # The grid is known while compiling: tables of functions are made once.
        self._answer = eqx.filter_jit(lambda operator, a: operator.answer(a, problem.grid))

        def residual_change(
            operator: AbstractOperator, a: Float[Array, "batch m"], base: Float[Array, "batch m"]
        ) -> Float[Array, " batch"]:
            residuals = residual_map(operator, problem)
            after, before = residuals(a), residuals(base)
            return weighted_sum(block_norms({name: after[name] - before[name] for name in after}), problem)

        self._residual_change = eqx.filter_jit(residual_change)

    def solve(self, operator: AbstractOperator, a: Float[ndarray, "batch m"]) -> Float[ndarray, "batch n *components"]:
        """The operator's solutions on the evaluation grid, in float64."""
        parts = chunks(a, at_once(self.problem, operator))
        return np.concatenate([np.asarray(self._solve(operator, part)[:rows], np.float64) for part, rows in parts])

    def answer(self, operator: SpectralOperator | JudgedOperator, a: Float[ndarray, "batch m"]) -> Estimated:
        """The operator's solutions on the evaluation grid, with estimates of their errors."""
        found = [
            [each[:rows] for each in self._answer(operator, part)]
            for part, rows in chunks(a, at_once(self.problem, operator))
        ]
        return Estimated(*(jnp.concatenate(each) for each in zip(*found, strict=True)))

    def _solve(self, operator: AbstractOperator, a: Float[Array, "batch m"]) -> Float[Array, "batch n *components"]:
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
            solution = reference_of(self.problem, np.asarray(truth)[:count])
            before = reference_of(self.problem, np.asarray(clean)[:count]) if case.base is not None else None
            for name, operator in operators.items():
                part = self._chunk(operator, inputs, clean, solution, before, residuals[name])
                parts[name].append(part)
        return {name: self._measured(found) for name, found in parts.items()}

    def _measured(self, parts: list[dict[str, Squares]]) -> Measured:
        """All inputs, the solution as a whole and, where it has several, each of its components."""
        squares = {key: np.concatenate([part[key] for part in parts]) for key in parts[0]}
        components = self.problem.solution if len(self.problem.solution) > 1 else ()

        def measured(suffix: str, **more: Any) -> Measured:
            names = {each.name for each in dataclasses.fields(Measured)}
            own: dict[str, Any] = {key: squares[key + suffix] for key in names if key + suffix in squares}
            return Measured(**own, **more)

        perturbed = {"perturbation": squares["perturbation"]} if "perturbation" in squares else {}
        return measured("", components={name: measured(f".{name}", **perturbed) for name in components})

    def _chunk(
        self,
        operator: AbstractOperator,
        inputs: Float[Array, "batch m"],
        clean: Float[Array, "batch m"],
        solution: Float[ndarray, "rows n *components"],
        before: Float[ndarray, "rows n *components"] | None,
        residuals: bool,
    ) -> dict[str, Squares]:
        rows = len(solution)
        predicted = self._answers(operator, inputs, solution)
        learned = predicted - self._answers(operator, clean, solution) if before is not None else None
        squares = _squares(predicted, solution, learned, before)
        for number, name in enumerate(self.problem.solution) if solution.ndim == 3 else ():
            changes = [None if each is None else each[..., number] for each in (learned, before)]
            own = _squares(predicted[..., number], solution[..., number], *changes)
            squares |= {f"{key}.{name}": value for key, value in own.items()}
        if before is not None:
            squares["perturbation"] = np.asarray(self.problem.inputs.radius(inputs - clean)[:rows], np.float64) ** 2
            if residuals:
                squares["residual"] = np.asarray(self._residual_change(operator, inputs, clean)[:rows], np.float64)
        return squares

    def _answers(
        self, operator: AbstractOperator, a: Float[Array, "batch m"], solution: Float[ndarray, "rows n *components"]
    ) -> Float[ndarray, "rows n *components"]:
        """In float64, for as many inputs as there are solutions."""
        found = np.asarray(self._solve(operator, a)[: len(solution)], np.float64)
        if found.shape != solution.shape:
            raise ConfigError(f"The operator gives solutions of shape {found.shape}, not {solution.shape}.")
        return found


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


def _squares(
    predicted: Float[ndarray, "batch n *components"],
    solution: Float[ndarray, "batch n *components"],
    learned: Float[ndarray, "batch n *components"] | None,
    before: Float[ndarray, "batch n *components"] | None,
) -> dict[str, Squares]:
    """Mean squares of an error, and of responses."""
    squares = {"error": _mean(predicted - solution), "solution": _mean(solution)}
    if learned is not None and before is not None:
        true = solution - before
        squares |= {"learned": _mean(learned), "true": _mean(true), "mismatch": _mean(learned - true)}
        squares["inner"] = np.mean(flattened(learned) * flattened(true), axis=1)
    return squares


def _mean(values: Float[ndarray, "batch n *components"]) -> Squares:
    return np.mean(flattened(values) ** 2, axis=1)


def flattened(values: Float[ndarray, "batch n *components"]) -> Float[ndarray, "batch _"]:
    """Solutions with all points and components in a row."""
    return values.reshape(len(values), -1)


def flat_basis(basis: Float[ndarray, "n k *components"]) -> Float[ndarray, "_ k"]:
    """Functions with a row for each point and component, in the order of `flattened`."""
    return basis if basis.ndim == 2 else np.moveaxis(basis, 2, 1).reshape(-1, basis.shape[1])


def reference_of(problem: Problem, a: Float[ndarray, "batch m"]) -> Float[ndarray, "batch n *components"]:
    """The reference solutions in rows of grid points; refused where they are none."""
    found = np.asarray(problem.require_reference()(a), np.float64)
    components = (len(problem.solution),) if len(problem.solution) > 1 else ()
    axes = tuple(map(len, problem.axes))
    wanted = (len(a), len(problem.grid), *components)
    if found.shape == (len(a), *axes, *components):
        found = found.reshape(wanted)
    if found.shape != wanted:
        raise ConfigError(
            f"The reference of '{problem.name}' gives solutions of shape {found.shape}: they must be {wanted}, or "
            f"{(len(a), *axes, *components)} with one axis for each of {', '.join(problem.coordinates)}."
        )
    if not np.all(np.isfinite(found)):
        raise ConfigError(f"The reference of '{problem.name}' gives numbers that are not finite.")
    return found


def require_order(
    problem: Problem, a: Float[ndarray, "batch m"], solutions: Float[ndarray, "batch n *components"]
) -> None:
    """Refuses solutions that were flattened with the last coordinate slowest: turned round, they fit the blocks that
    ask for values alone, as initial and boundary conditions do."""
    shape = tuple(map(len, problem.axes))
    rows = solutions.reshape(len(solutions), len(problem.grid), -1)
    order = (0, *range(len(shape), 0, -1), len(shape) + 1)
    turned = rows.reshape(len(rows), *shape[::-1], -1).transpose(order).reshape(rows.shape)
    if _condition_misfit(problem, a, turned) < 0.25 * _condition_misfit(problem, a, rows):
        raise ConfigError(
            f"The reference of '{problem.name}' seems to have its last coordinate slowest: flatten solutions with "
            f"{problem.coordinates[0]} slowest, or give them as batch x {' x '.join(problem.coordinates)}."
        )


def _condition_misfit(
    problem: Problem, a: Float[ndarray, "batch m"], rows: Float[ndarray, "batch n components"]
) -> float:
    """How far solutions on the grid, joined by straight lines, are from the conditions on values."""
    total = 0.0
    for bound in problem.bound:
        if bound.terms.solution and all(not word for _, word in bound.terms.solution.values()):
            at = interpolation(problem.axes, bound.block.points)
            values = np.sum(rows[:, at.sensors] * at.weights[..., None], axis=2)
            fields = {name: jnp.asarray(values[..., i]) for name, (i, _) in bound.terms.solution.items()}
            residual = np.asarray(bound.plain(fields, bound.inputs()(jnp.asarray(a))))
            total += bound.block.weight * float(np.mean(residual**2))
    return total
