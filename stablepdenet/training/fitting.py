"""Training of objects: any operator, any objective, any optimiser."""

from __future__ import annotations

from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import optax
from jaxtyping import PRNGKeyArray

from stablepdenet.errors import ConfigError, shown
from stablepdenet.operators import AbstractOperator, as_operator, capabilities
from stablepdenet.problems import Problem
from stablepdenet.problems.physics import block_queries
from stablepdenet.progress import Progress, displayed
from stablepdenet.refining import RefinedOperator
from stablepdenet.training.loop import take_steps
from stablepdenet.training.memory import require_memory
from stablepdenet.training.objectives import AbstractAttacking, AbstractObjective
from stablepdenet.training.program import Program, trainable
from stablepdenet.training.schedule import Schedule

ADAM = optax.adam(1e-3)
# As in the paper: a tenth of all steps is clean.
WARMUP = 0.1
# Steps between two rows of the report.
LOG_EVERY = 100
# Points at which a new operator is tried.
TRIED = 16

Operator = TypeVar("Operator")


def fit(
    problem: Problem,
    operator: Operator,
    objective: AbstractObjective,
    *,
    steps: int,
    key: PRNGKeyArray,
    optimiser: optax.GradientTransformation = ADAM,
    functions: int | None = None,
    batch: int | None = None,
    warmup: int | None = None,
    refresh: int = 1_000,
    validation: int = 200,
    validate_every: int = 500,
    progress: Progress | None = None,
) -> Operator:
    """The operator after `steps` steps on the physics of the problem; no labels.

    `operator` is one of this library's, or any equinox module that maps (a: batch x m, points: n x dim) to u:
    batch x n, or batch x n x components. Its arrays of real numbers are trained; all else stays. What it gives for a
    point must depend on that point alone, as residuals are made of its derivatives there.

    `objective` is `Clean()`, `Adversarial(attack)`, `Stable(attack, rho=0.1)`, …; the first `warmup` steps, a tenth
    of all unless given, are clean, and attacks are renewed every `refresh` steps. Steps see batches of `batch` out of
    `functions` inputs, which are drawn once, as many as the problem says unless given. Every `validate_every` steps
    the loss on `validation` further functions is taken, attacked if the objective has an attack: the parameters for
    which it is smallest are returned. `progress` is told every 100 steps and where there is a validation; without one,
    stderr shows how far it is.

        network = sp.fit(problem, MyNetwork(key=key), sp.Stable(attack), steps=20_000, key=key)
    """
    require_kinds(objective, optimiser, key)
    require_whole(steps=steps, refresh=refresh, validation=validation, validate_every=validate_every)
    schedule = Schedule(
        steps=steps,
        warmup=(int(WARMUP * steps) if isinstance(objective, AbstractAttacking) else 0) if warmup is None else warmup,
        refresh=refresh,
        functions=problem.functions if functions is None else functions,
        batch=min(problem.batch, functions or problem.batch) if batch is None else batch,
        validation=validation,
        validate_every=validate_every,
        log_every=LOG_EVERY,
    )
    _check(schedule, objective)
    posed = _trained(operator, problem)
    program = Program(problem, objective, optimiser, schedule, key=key)
    require_memory(program, program.shapes(posed))
    with displayed(progress, problem.name) as told:
        state = take_steps(program, program.initial(posed), progress=told)
    found: Any = state.trained
    return found if isinstance(operator, AbstractOperator) else found.module


def require_kinds(objective: Any, optimiser: Any, key: Any) -> None:
    """Refuses arguments of `fit` that are of another kind."""
    if not isinstance(objective, AbstractObjective):
        raise ConfigError(
            f"objective = {shown(objective)} must be an objective, e.g. Clean(), or Stable(PGD(LinfBall(0.05)))."
        )
    if not isinstance(optimiser, optax.GradientTransformation):
        raise ConfigError(f"optimiser = {shown(optimiser)} must be one of optax, e.g. optax.adam(1e-3).")
    if not (isinstance(key, jax.Array) and jnp.issubdtype(key.dtype, jax.dtypes.prng_key) and key.shape == ()):
        raise ConfigError(f"key = {shown(key)} must be one random key, e.g. jax.random.key(0).")


def require_whole(least: int = 1, **sizes: Any) -> None:
    """Refuses sizes that are no whole numbers, or too small."""
    for name, value in sizes.items():
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            raise ConfigError(f"{name} = {shown(value)} must be a whole number of at least {least}.")


def _check(schedule: Schedule, objective: AbstractObjective) -> None:
    require_whole(functions=schedule.functions, batch=schedule.batch)
    require_whole(0, warmup=schedule.warmup)
    if schedule.batch > schedule.functions:
        raise ConfigError(
            f"batch = {schedule.batch} is larger than functions = {schedule.functions}: lower it, or draw more."
        )
    if isinstance(objective, AbstractAttacking) and schedule.warmup >= schedule.steps:
        raise ConfigError(
            f"warmup = {schedule.warmup} leaves no attacked steps of steps = {schedule.steps}: lower it, or take the "
            "objective Clean()."
        )


def _trained(operator: Any, problem: Problem) -> AbstractOperator:
    """What was given, as an operator that residuals can be taken of and that has something to train."""
    points = problem.blocks[0].points[:TRIED]
    posed = as_operator(operator, problem.inputs.size, points, len(problem.solution))
    if isinstance(posed, RefinedOperator):
        raise ConfigError("operator is refined already: fit the operator itself, and refine the result.")
    if not jax.tree.leaves(trainable(posed)):
        raise ConfigError(
            f"operator, a {type(operator).__name__}, has no arrays to train: give a DeepONet, or an equinox module "
            "whose weights are fields."
        )
    found = capabilities(posed, problem.sample(1, key=jax.random.key(0)), points, block_queries(problem))
    if not found.points:
        raise ConfigError(f"operator has no derivatives in the points that residuals need: {found.reasons['points']}.")
    return posed
