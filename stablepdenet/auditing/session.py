"""One audit under way: what its parts share."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, PRNGKeyArray
from numpy import ndarray

from stablepdenet.auditing.inputs import Case, evaluation_inputs, setting_of
from stablepdenet.auditing.measure import Measured, Measurer, reference_of, require_order
from stablepdenet.auditing.metrics import metrics
from stablepdenet.auditing.perturb import SHORT, Perturber
from stablepdenet.errors import ConfigError
from stablepdenet.operators import AbstractOperator, Capabilities, as_operator, capabilities
from stablepdenet.problems import AbstractReference, Problem
from stablepdenet.problems.physics import block_queries
from stablepdenet.training.state import streams

Row = dict[str, str | int | float]
# A title for the progress display, and the work.
Task = tuple[str, Callable[[], None]]

BASELINE = "pi"
# Inputs whose reference solutions are looked at before anything is measured.
FIRST = 3
# The method under which numbers of the reference alone stand.
EXACT = "exact"
# Inputs of a short search.
FEW = 10
# Inputs on which the differentiable reference is compared with the exact one, and how far apart they may be.
TRIED, TRUST = 50, 0.01
# What a missing derivative costs.
LOST = {
    "inputs": "gradient attacks and Lipschitz constants are left out",
    "points": "kappa_r, the physics-loss attack, the theorems' constants and other grids are left out",
}


@dataclass
class Audit:
    """Rows of (problem, recipe, method, seed, setting, attack, metric, value), the perturbed inputs that they were
    measured on, notes on what was left out and why, and the notes that tell of a failure."""

    rows: list[Row] = field(default_factory=list)
    cases: list[Case] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    stopped: bool = False

    def value(self, metric: str, *, method: str, attack: str = "none", setting: str = "clean") -> float:
        """One number, e.g. value("kappa_E", method="stable", attack="common", setting="0.05")."""
        wanted = {"metric": metric, "method": method, "attack": attack, "setting": setting}
        found = [row["value"] for row in self.rows if wanted.items() <= row.items()]
        if len(found) != 1:
            raise ConfigError(f"The audit has {len(found)} rows of {wanted}.")
        return float(found[0])


class Session:
    """Operators on a problem's test inputs, with compiled attacks and measurements, and the audit they fill."""

    def __init__(
        self,
        operators: Mapping[str, Any],
        problem: Problem,
        *,
        tests: int | None,
        eps: tuple[float, ...],
        identity: Mapping[str, str | int],
    ):
        self.problem, self.eps, self.identity = problem, eps, identity
        self.audit = Audit()
        self.clean: Float[ndarray, "batch m"] = np.asarray(evaluation_inputs(problem, tests))
        first = self.clean[:FIRST]
        require_order(problem, first, reference_of(problem, first))
        self.operators: dict[str, AbstractOperator] = {
            name: as_operator(operator, problem.inputs.size, problem.grid, len(problem.solution))
            for name, operator in operators.items()
        }
        self.able: dict[str, Capabilities] = {
            name: capabilities(operator, jnp.asarray(self.clean[:1]), problem.grid, block_queries(problem))
            for name, operator in self.operators.items()
        }
        self.source = BASELINE if BASELINE in self.operators else next(iter(self.operators))
        self.measurer, self.perturber = Measurer(problem), Perturber(problem)
        self._key = streams(jax.random.key(int(identity["seed"]))).evaluation
        self._measured: dict[str, dict[str, Measured]] = {}
        self._perturbed: dict[tuple[str | float, ...], Float[ndarray, "batch m"]] = {}
        for name, able in self.able.items():
            for what, reason in able.reasons.items():
                self.note(f"{name} cannot be differentiated in its {what}: {LOST[what]} ({reason}).")

    def note(self, sentence: str) -> None:
        """Says once what was left out."""
        if sentence not in self.audit.notes:
            self.audit.notes.append(sentence)

    def add(self, method: str, attack: str, setting: str, values: Mapping[str, float]) -> None:
        """A row for each number; what is not finite has no place in a table and gets a note."""
        place = {"method": method, "seed": self.identity["seed"], "setting": setting, "attack": attack}
        for metric, value in values.items():
            if np.isfinite(value):
                start = {"problem": self.problem.name, "recipe": self.identity["recipe"]}
                self.audit.rows.append({**start, **place, "metric": metric, "value": float(value)})
            else:
                self.note(f"{metric} of {method} ({attack}, {setting}) is not finite and has no row.")

    def measure(self, case: Case, measurer: Measurer | None = None) -> dict[str, Measured]:
        """Rows for one case, once. Perturbed inputs are kept, so that anybody can measure them again."""
        if case.name not in self._measured:
            operators = {name: self.operators[name] for name in case.methods or self.operators}
            able = {name: self.able[name].points for name in operators}
            found = (measurer or self.measurer).measure(operators, case, residuals=able)
            for name, measured in found.items():
                self.add(name, case.attack, case.setting, metrics(measured))
            if case.base is not None:
                self.audit.cases.append(case)
            self._measured[case.name] = found
        return self._measured[case.name]

    def perturbed(self, attack: str, eps: float, inputs: Float[ndarray, "batch m"], *methods: str) -> Case:
        """Perturbed test inputs; for all methods unless some are named."""
        return Case(attack, setting_of(eps), inputs, inputs, self.clean, methods)

    def common(self, eps: float) -> Case | None:
        """The common perturbation, where its source has gradients."""
        if not self.able[self.source].inputs:
            self.note(f"The common perturbation needs gradients of {self.source}: it is left out.")
            return None
        if self.source != BASELINE:
            self.note(f"No operator is named {BASELINE}: the common perturbation is found against {self.source}.")
        operator = self.operators[self.source]
        return self.perturbed("common", eps, self._found("common", eps, self.perturber.common, operator))

    def worst(self, method: str, eps: float) -> Float[ndarray, "batch m"]:
        """The inputs on which a method's own true error is largest."""
        return self.true_error("whitebox", method, eps)

    def nearly_worst(self, method: str, eps: float) -> Float[ndarray, "batch m"]:
        """What `worst` has found where it was asked; else a few inputs by a short search."""
        if ("whitebox", method, eps) in self._perturbed:
            return self.worst(method, eps)
        self.note(
            f"Without the part attacks, estimates have {FEW} whitebox inputs at most, by {SHORT} steps from one start."
        )
        arguments = "short", self.operators[method], self.able[method].points
        return self._found("short", eps, self.perturber.true_error, *arguments, label=method, few=FEW)

    def true_error(self, search: str, method: str, eps: float) -> Float[ndarray, "batch m"]:
        """Inputs that maximise a method's true error by the named search."""
        arguments = search, self.operators[method], self.able[method].points
        return self._found(search, eps, self.perturber.true_error, *arguments, label=method)

    def physics(self, method: str, eps: float) -> Float[ndarray, "batch m"]:
        """Inputs that maximise a method's physics loss."""
        return self._found("physics", eps, self.perturber.physics, self.operators[method], label=method)

    def noise(self, kind: str, eps: float) -> Float[ndarray, "batch m"]:
        """Inputs with noise of the ball's norm."""
        return self._found(kind, eps, self.perturber.noise, kind)

    def _found(
        self,
        attack: str,
        eps: float,
        find: Callable[..., Float[ndarray, "batch m"]],
        *arguments: Any,
        label: str = "",
        few: int | None = None,
    ) -> Float[ndarray, "batch m"]:
        """Found once, with a random stream of its own; for all test inputs or the first few."""
        name = (attack, label, eps)
        if name not in self._perturbed:
            self._perturbed[name] = find(*arguments, self.clean[:few], eps, key=self.stream(*name))
        return self._perturbed[name]

    def stream(self, *name: str | float) -> PRNGKeyArray:
        """A random stream of its own for everything that has a name."""
        return jax.random.fold_in(self._key, zlib.crc32(repr(name).encode()))

    @cached_property
    def trusted(self) -> bool:
        """Whether the reference that searches see is the reference that errors are measured against."""
        reference = self.problem.reference
        if isinstance(reference, AbstractReference):
            some = self.clean[:TRIED]
            exact, seen = reference(some), np.asarray(reference.traced(jnp.asarray(some)), np.float64)
            apart = np.linalg.norm(seen - exact, axis=1) / np.linalg.norm(exact, axis=1)
            if not np.all(apart < TRUST):
                self.note(
                    f"The differentiable reference is up to {np.max(apart):.1g} from the exact one here, as at a "
                    "viscosity too small for float32: attacks on the true error are left out."
                )
                return False
        return True

    @property
    def differentiable(self) -> list[str]:
        """The methods whose true error has a gradient in the input."""
        if not self.trusted:
            return []
        if not isinstance(self.problem.reference, AbstractReference):
            self.note("The reference cannot be differentiated: ascents on the true error are left out.")
            return []
        return [name for name, able in self.able.items() if able.inputs]

    @property
    def movable(self) -> list[str]:
        """The methods that answer at points other than the evaluation grid's."""
        return [name for name, able in self.able.items() if able.points]
