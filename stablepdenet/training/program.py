"""Algorithm 2 (alg:stable_train) as pure, compiled functions of the training state."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import cached_property, partial
from typing import final

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from stablepdenet.config import Config
from stablepdenet.methods import METHODS, AbstractMethod, Batch, Clean, Stable, Terms
from stablepdenet.operators import OPERATORS, AbstractOperator
from stablepdenet.physics import physics_loss, residual_map
from stablepdenet.problems import Problem
from stablepdenet.training.state import TrainState, streams


@final
class Program:
    """The compiled pieces of one training, for one problem and one configuration."""

    def __init__(self, problem: Problem, config: Config):
        self.problem, self.config = problem, config
        self.method = make_method(config)
        self.attack = dataclasses.replace(problem.attack, **vars(config.attack))
        self.optimiser = optax.adam(config.training.learning_rate)

    @cached_property
    def functions(self) -> Float[Array, "functions m"]:
        """The training inputs, drawn once from the function space."""
        key = streams(jax.random.key(self.config.seed)).functions
        return self.problem.sample(self.config.training.functions, key=key)

    def initial(self) -> TrainState:
        """The state before the first step."""
        return self._initial(jax.random.key(self.config.seed))

    @partial(jax.jit, static_argnums=0)
    def _initial(self, key: PRNGKeyArray) -> TrainState:
        # As one program: piece by piece, JAX would compile and keep one for each operation.
        operator = make_operator(self.problem, self.config, key=streams(key).operator)
        empty = jnp.zeros((self.config.training.batch, self.problem.input.size))
        return TrainState(
            operator, self.optimiser.init(operator), Batch(empty, empty), jnp.zeros(()), jnp.zeros((), int), key
        )

    def advance(self, state: TrainState, stop: int) -> tuple[TrainState, Terms]:
        """Steps up to `stop`, which must not lie beyond `boundary`, and the terms averaged over them.

        Where the defence begins, lambda_sens is calibrated; where the cache is due, it is attacked anew.
        """
        training = self.config.training
        step = int(state.step)
        defending = self.method.attacks and step >= training.warmup
        if defending and (step - training.warmup) % training.refresh == 0:
            if step == training.warmup:
                state = state._replace(lambda_sens=self._calibrate(state, self.functions))
            state = state._replace(cache=self._refresh(state, self.functions))
        return self._defend(state, stop) if defending else self._warm_up(state, self.functions, stop)

    def boundary(self, step: int) -> int:
        """The next step after `step` at which `advance` must hand back control."""
        training = self.config.training
        if not self.method.attacks:
            return training.steps
        if step < training.warmup:
            return min(training.warmup, training.steps)
        return min(step + training.refresh - (step - training.warmup) % training.refresh, training.steps)

    @partial(jax.jit, static_argnums=0)
    def _warm_up(self, state: TrainState, functions: Array, stop: Int[Array, ""]) -> tuple[TrainState, Terms]:
        """Clean steps, each on a fresh batch of the training functions."""
        method = Clean()

        def epoch(carry: tuple[TrainState, Terms]) -> tuple[TrainState, Terms]:
            # Shuffling is a sort, too slow for every step.
            state, total = carry
            first = state.step - state.step % self._batches
            deck = self._deck(state, functions, state.step // self._batches)

            def batch(state: TrainState) -> Batch:
                clean = deck[state.step - first]
                return Batch(clean, clean)

            return self._repeat(method, batch, state, total, jnp.minimum(stop, first + self._batches))

        def unfinished(carry: tuple[TrainState, Terms]) -> Bool[Array, ""]:
            return carry[0].step < stop

        start = state.step
        state, total = jax.lax.while_loop(unfinished, epoch, (state, self._nothing(method, state)))
        return state, _mean(total, stop - start)

    @partial(jax.jit, static_argnums=0)
    def _defend(self, state: TrainState, stop: Int[Array, ""]) -> tuple[TrainState, Terms]:
        """Defence steps, all on the cached batch."""
        start, nothing = state.step, self._nothing(self.method, state)
        state, total = self._repeat(self.method, lambda state: state.cache, state, nothing, stop)
        return state, _mean(total, stop - start)

    @partial(jax.jit, static_argnums=0)
    def _refresh(self, state: TrainState, functions: Array) -> Batch:
        """A new attacked batch for the cache."""
        return self._attacked(state, functions, jnp.zeros((), int))

    @partial(jax.jit, static_argnums=0)
    def _calibrate(self, state: TrainState, functions: Array) -> Float[Array, ""]:
        """lambda_sens from attacked batches at the end of the warm-up (eq:lambda-calibration)."""
        residuals = residual_map(state.operator, self.problem)

        def measure(number: Int[Array, ""]) -> tuple[Array, Array]:
            terms = self.method.terms(residuals, self.problem, self._attacked(state, functions, number), jnp.zeros(()))
            return terms.loss, terms.sensitivity

        # Number 0 at this step is the first cached batch itself.
        physics, sensitivity = jax.lax.map(measure, jnp.arange(self.config.method.calibration_batches))
        return self.method.calibrate(jnp.mean(physics), jnp.mean(sensitivity))

    def _repeat(
        self,
        method: AbstractMethod,
        batch: Callable[[TrainState], Batch],
        state: TrainState,
        total: Terms,
        stop: Int[Array, ""],
    ) -> tuple[TrainState, Terms]:
        """Optimiser steps from state.step to `stop`; their terms are added to `total`.

        One compiled loop of traced length: the same instructions whatever the length, so where a run is cut into pieces
        does not change a bit of it.
        """

        def objective(operator: AbstractOperator, state: TrainState) -> tuple[Array, Terms]:
            terms = self._terms(method, operator, batch(state), state.lambda_sens)
            return terms.loss, terms

        def step(_: Int[Array, ""], carry: tuple[TrainState, Terms]) -> tuple[TrainState, Terms]:
            state, total = carry
            gradient, terms = jax.grad(objective, has_aux=True)(state.operator, state)
            updates, optimiser = self.optimiser.update(gradient, state.optimiser)
            operator = optax.apply_updates(state.operator, updates)
            state = state._replace(operator=operator, optimiser=optimiser, step=state.step + 1)
            return state, jax.tree.map(jnp.add, total, terms)

        return jax.lax.fori_loop(state.step, stop, step, (state, total))

    def _terms(
        self, method: AbstractMethod, operator: AbstractOperator, batch: Batch, lambda_sens: Float[Array, ""]
    ) -> Terms:
        return method.terms(residual_map(operator, self.problem), self.problem, batch, lambda_sens)

    def _nothing(self, method: AbstractMethod, state: TrainState) -> Terms:
        """The terms of no step."""
        shapes = jax.eval_shape(partial(self._terms, method), state.operator, state.cache, state.lambda_sens)
        return jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)

    def _deal(self, state: TrainState, functions: Array, ahead: Int[Array, ""] | int = 0) -> Float[Array, "batch m"]:
        """The batch of the current step, or of one `ahead`: each epoch deals out the training functions in a new order.

        A remainder that fills no batch sits out its epoch.
        """
        epoch, slot = jnp.divmod(state.step + ahead, self._batches)
        return self._deck(state, functions, epoch)[slot]

    def _deck(self, state: TrainState, functions: Array, epoch: Int[Array, ""]) -> Float[Array, "batches batch m"]:
        """The batches of one epoch."""
        size = self.config.training.batch
        if size == len(functions):
            return functions[None]
        order = jax.random.permutation(jax.random.fold_in(streams(state.key).batches, epoch), len(functions))
        return functions[order[: self._batches * size]].reshape(self._batches, size, -1)

    @property
    def _batches(self) -> int:
        """How many of them an epoch has."""
        return self.config.training.functions // self.config.training.batch

    def _attacked(self, state: TrainState, functions: Array, ahead: Int[Array, ""]) -> Batch:
        """A batch and its physics attack (eq:training-attack). The trunk is evaluated once: parameters are frozen."""
        clean = self._deal(state, functions, ahead)
        residuals = residual_map(state.operator, self.problem)
        key = jax.random.fold_in(jax.random.fold_in(streams(state.key).attacks, state.step), ahead)
        return Batch(clean, self.attack(lambda a: physics_loss(residuals(a), self.problem), clean, key=key).inputs)


def _mean(total: Terms, steps: Int[Array, ""]) -> Terms:
    return jax.tree.map(lambda leaf: leaf / steps, total)


def make_method(config: Config) -> AbstractMethod:
    """The method that the configuration names."""
    kind = METHODS[config.method.name]
    return Stable(rho=config.method.rho, tau=config.method.tau) if kind is Stable else kind()


def make_operator(problem: Problem, config: Config, *, key: PRNGKeyArray) -> AbstractOperator:
    """The untrained operator that the configuration names."""
    sizes = {"width": config.operator.width, "depth": config.operator.depth}
    return OPERATORS[config.operator.kind](problem.input.size, len(problem.coordinates), **sizes, key=key)
