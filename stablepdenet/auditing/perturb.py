"""Perturbed inputs: an operator, an objective and a search in, cases out."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import cached_property, partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray
from numpy import ndarray

from stablepdenet.attacks import PGD, Objective, search
from stablepdenet.auditing.inputs import thinner
from stablepdenet.auditing.measure import at_once, chunks, reference_of
from stablepdenet.auditing.misfit import AbstractMisfit, misfit
from stablepdenet.operators import AbstractOperator
from stablepdenet.problems import Problem
from stablepdenet.problems.physics import physics_loss, residual_map

# Smooth noise has the first few modes: the part of the spectrum in which the training inputs live.
SMOOTH_BAND = 5
# The paper's evaluation attack (eq:test-attack).
COMMON_STEPS = 40
# Steps where a search must be cheap.
SHORT = 10

MakeObjective = Callable[[Any, Float[Array, "batch m"], Float[Array, "batch n *components"]], Objective]


class Perturber:
    """Compiled attacks on one problem; operators of one structure and all radii share a compilation."""

    def __init__(self, problem: Problem):
        self.problem = problem
        attack = problem.require_attack()
        common = dataclasses.replace(attack, steps=COMMON_STEPS)
        self._attack = dataclasses.replace(attack, random_start=True)
        self._common = _compiled(search.pgd, lambda m, a, solution: _fixed(m, m.target(a, solution)), common)
        self._physics = _compiled(search.strong_pgd, self._physics_loss, self._attack)
        self._moving = {
            name: _compiled(way, lambda m, a, solution: m.moving, self._attack)
            for name, way in {
                "whitebox": search.strong_pgd,
                "apgd": search.best_of(search.apgd, 3),
                "search": search.random_search,
            }.items()
        }
        short = dataclasses.replace(self._attack, steps=SHORT, step_size=search.STEP_SIZE)
        self._moving["short"] = _compiled(search.pgd, lambda m, a, solution: m.moving, short)
        modes = problem.inputs.modes(min(SMOOTH_BAND, problem.inputs.size))
        self._noise = {
            "noise": _compiled_noise(search.white_noise, self._attack),
            "smooth-noise": _compiled_noise(partial(_smooth, modes), self._attack),
        }

    @cached_property
    def _thin(self) -> Problem:
        return thinner(self.problem)

    def common(
        self, operator: AbstractOperator, a: Float[ndarray, "batch m"], eps: float, *, key: PRNGKeyArray
    ) -> Float[ndarray, "batch m"]:
        """a + delta_com: maximises MSE(G(a + delta) - S(a)) for the baseline G by 40 steps (eq:test-attack)."""
        return self._run(self._common, misfit(operator, self.problem), operator, a, eps, key, solutions=True)

    def physics(
        self, operator: AbstractOperator, a: Float[ndarray, "batch m"], eps: float, *, key: PRNGKeyArray
    ) -> Float[ndarray, "batch m"]:
        """Maximises the physics loss, as training does (eq:training-attack), but harder."""
        return self._run(self._physics, operator, operator, a, eps, key)

    def true_error(
        self,
        search: str,
        operator: AbstractOperator,
        movable: bool,
        a: Float[ndarray, "batch m"],
        eps: float,
        *,
        key: PRNGKeyArray,
    ) -> Float[ndarray, "batch m"]:
        """Maximises ||G(a + delta) - S(a + delta)|| by `whitebox`, `apgd`, `search` or `short`; a `movable` operator
        answers at points off the evaluation grid too."""
        exact = misfit(operator, self.problem)
        # Where each evaluation costs a solve, a thinner grid guides the search; the result is measured on the full one.
        objective = misfit(operator, self._thin) if movable and not exact.cheap else exact
        return self._run(self._moving[search], objective, operator, a, eps, key)

    def noise(
        self, kind: str, a: Float[ndarray, "batch m"], eps: float, *, key: PRNGKeyArray
    ) -> Float[ndarray, "batch m"]:
        """`noise` or `smooth-noise` of the ball's norm: the control."""
        return self._run(self._noise[kind], None, None, a, eps, key)

    def _physics_loss(self, operator: AbstractOperator, a: Array, solution: Array) -> Objective:
        residuals = residual_map(operator, self.problem)
        return lambda a: physics_loss(residuals(a), self.problem)

    def _run(
        self,
        attack: Callable[..., Float[Array, "chunk m"]],
        subject: Any,
        operator: AbstractOperator | None,
        a: Float[ndarray, "batch m"],
        eps: float,
        key: PRNGKeyArray,
        *,
        solutions: bool = False,
    ) -> Float[ndarray, "batch m"]:
        parts = []
        most = at_once(self.problem, *([operator] if operator else []))
        for number, (part, rows) in enumerate(chunks(a, most)):
            known = reference_of(self.problem, np.asarray(part)) if solutions else np.zeros((len(part), 0))
            solution = jnp.asarray(known, part.dtype)
            found = attack(subject, jnp.asarray(eps, part.dtype), part, solution, jax.random.fold_in(key, number))
            parts.append(np.asarray(found[:rows]))
        return np.concatenate(parts)


def _fixed(subject: AbstractMisfit, target: Float[Array, "batch _ *components"]) -> Objective:
    return lambda a: subject.fixed(a, target)


def _smooth(modes: Float[ndarray, "band m"], attack: PGD, a: Array, *, key: PRNGKeyArray) -> Any:
    return search.smooth_noise(attack, a, modes, key=key)


def _compiled(way: search.Search, objective: MakeObjective, attack: PGD) -> Callable[..., Float[Array, "chunk m"]]:
    return eqx.filter_jit(
        lambda subject, eps, a, solution, key: (
            way(attack.with_eps(eps), objective(subject, a, solution), a, key=key).inputs
        )
    )


def _compiled_noise(noise: Callable[..., Any], attack: PGD) -> Callable[..., Float[Array, "chunk m"]]:
    return eqx.filter_jit(lambda subject, eps, a, solution, key: noise(attack.with_eps(eps), a, key=key).inputs)
