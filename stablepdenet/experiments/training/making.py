"""From a configuration to its parts: here names become objects."""

from __future__ import annotations

import dataclasses
from typing import Any

import equinox as eqx
import jax
import optax
import optax.contrib
from jaxtyping import PRNGKeyArray

from stablepdenet.attacks import PGD, LinfBall
from stablepdenet.errors import ConfigError
from stablepdenet.experiments.config import Config
from stablepdenet.operators import (
    OPERATORS,
    PLAIN,
    AbstractBasisOperator,
    AbstractOperator,
    ConstrainedOperator,
    MovingFrameOperator,
)
from stablepdenet.problems import Problem
from stablepdenet.refining import refine
from stablepdenet.training.objectives import METHODS, OTHERS, AbstractAttacking, AbstractObjective
from stablepdenet.training.program import Program
from stablepdenet.training.schedule import Schedule
from stablepdenet.training.state import TrainState, streams

# The kind of operator that needs no training.
SOLVED = "solved"
# Steps that an answer takes beyond its refinements where it has not arrived by then.
FURTHER = 8
# The part of all steps over which a cosine schedule rises.
RISING = 0.05


def make_program(problem: Problem, config: Config) -> Program:
    """The training that the configuration describes."""
    fine = problem.refinement_blocks if config.training.points == "fine" else ()
    return Program(
        dataclasses.replace(problem, blocks=fine) if fine else problem,
        make_objective(problem, config),
        make_optimiser(config),
        Schedule(**{field.name: getattr(config.training, field.name) for field in dataclasses.fields(Schedule)}),
        key=jax.random.key(config.seed),
    )


def make_objective(problem: Problem, config: Config) -> AbstractObjective:
    """The objective that the configuration names, with the problem's attack as the configuration changes it."""
    kind = {**METHODS, **OTHERS}[config.method.name]
    own = {field.name for field in dataclasses.fields(kind)}
    settings = {name: value for name, value in vars(config.method).items() if name in own}
    return kind(make_attack(problem, config, needed=issubclass(kind, AbstractAttacking)), **settings)


def make_attack(problem: Problem, config: Config, *, needed: bool = True) -> PGD:
    """The problem's attack as the configuration changes it. A clean training does without; its validation still asks
    what one does."""
    attack = problem.require_attack() if needed else problem.attack or PGD(LinfBall(config.attack.eps))
    own = dataclasses.asdict(config.attack)
    return dataclasses.replace(attack.with_eps(own.pop("eps")), **own)


def make_optimiser(config: Config) -> optax.GradientTransformation:
    """The optimiser that the configuration names; Muon orthogonalises the steps of matrices and leaves the rest to
    Adam."""
    training = config.training
    rate: float | optax.Schedule = training.learning_rate
    if training.schedule == "cosine":
        rising = max(1, int(RISING * training.steps))
        rate = optax.warmup_cosine_decay_schedule(0.0, training.learning_rate, rising, max(training.steps, rising + 1))
    return optax.contrib.muon(rate, adam_learning_rate=rate) if training.optimiser == "muon" else optax.adam(rate)


def make_operator(problem: Problem, config: Config, *, key: PRNGKeyArray) -> AbstractOperator:
    """The untrained operator that the configuration names."""
    chosen = config.operator
    options: dict[str, Any] = {"width": chosen.width, "depth": chosen.depth}
    if chosen.embedding != PLAIN:
        options["embedding"] = chosen.embedding
    if chosen.kind == "deeponet":
        options |= {"components": len(problem.solution), "domain": problem.domain, "tanh_trunk": chosen.tanh_trunk}
    elif len(problem.solution) > 1:
        raise ConfigError(f"operator.kind = {chosen.kind} has one component, and '{problem.name}' has several.")
    operator = OPERATORS[chosen.kind](problem.inputs.size, problem.domain.dimension, **options, key=key)
    if chosen.constraints == "soft":
        return operator
    if problem.ansatz is None or not isinstance(operator, AbstractBasisOperator):
        raise ConfigError(f"operator.constraints = hard needs an ansatz, and problem '{problem.name}' has none.")
    return ConstrainedOperator(operator, problem.ansatz)


def untrained(problem: Problem, config: Config) -> AbstractOperator:
    """The operator that a training of the configuration begins with."""

    @jax.jit
    def make(key: PRNGKeyArray) -> AbstractOperator:
        return make_operator(problem, config, key=streams(key).operator)

    return make(jax.random.key(config.seed))


def initial_state(problem: Problem, config: Config) -> TrainState:
    """The state before the first step."""
    return make_program(problem, config).initial(untrained(problem, config))


def state_shapes(problem: Problem, config: Config) -> TrainState:
    """The shapes of that state, made without the memory that it needs."""
    return make_program(problem, config).shapes(eqx.filter_eval_shape(untrained, problem, config))


def with_refinement(operator: AbstractOperator, problem: Problem, config: Config) -> AbstractOperator:
    """A trained operator as it answers: refined, if the configuration says so, and then with the problem's symmetry."""
    steps = config.operator.refinements
    return symmetric(refine(operator, problem, steps=steps, further=FURTHER), problem) if steps else operator


def symmetric(operator: AbstractBasisOperator, problem: Problem) -> AbstractOperator:
    """The operator in the moving frame of the problem's ansatz, if there is one."""
    frame = problem.ansatz.frame if problem.ansatz else None
    return MovingFrameOperator(operator, frame) if frame else operator
