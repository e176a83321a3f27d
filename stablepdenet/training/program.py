"""Algorithm 2 (alg:stable_train) as pure, compiled functions of the training state."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import cached_property, partial
from typing import Any, NamedTuple, final

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from stablepdenet.attacks import PGD, LinfBall
from stablepdenet.config import Config
from stablepdenet.methods import AbstractMethod, Batch, Clean, Terms
from stablepdenet.operators import AbstractOperator
from stablepdenet.physics import physics_loss, residual_map
from stablepdenet.problems import Problem
from stablepdenet.solving import solve
from stablepdenet.training.making import SOLVED, make_method, make_operator, make_optimiser
from stablepdenet.training.state import Best, TrainState, streams


class Validation(NamedTuple):
    """Physics losses on held-out functions, as they are and attacked."""

    clean: Float[Array, ""]
    attacked: Float[Array, ""]


@jax.jit
def _finite(tree: Any) -> Bool[Array, ""]:
    """As one program: leaf by leaf, each would have to be asked for."""
    leaves = [leaf for leaf in jax.tree.leaves(tree) if jnp.issubdtype(leaf.dtype, jnp.inexact)]
    return jnp.all(jnp.stack([jnp.all(jnp.isfinite(leaf)) for leaf in leaves]))


@final
class Program:
    """The compiled pieces of one training, for one problem and one configuration."""

    def __init__(self, problem: Problem, config: Config):
        fine = problem.fine if config.training.points == "fine" else ()
        self.problem, self.config = dataclasses.replace(problem, blocks=fine or problem.blocks), config
        self.method = make_method(config)
        # Clean methods do without; their validation still asks what an attack does.
        attack = problem.require_attack() if self.method.attacks else problem.attack or PGD(LinfBall(0.05))
        own = dataclasses.asdict(config.attack)
        self.attack = dataclasses.replace(attack.with_eps(own.pop("eps")), **own)
        self.perturb = self.method.perturb(self.attack)
        self.optimiser = make_optimiser(config)

    @cached_property
    def functions(self) -> Float[Array, "functions m"]:
        """The training inputs, drawn once from the function space."""
        key = streams(jax.random.key(self.config.seed)).functions
        return self.problem.sample(self.config.training.functions, key=key)

    @cached_property
    def held_out(self) -> Float[Array, "validation m"]:
        """The validation inputs: from the same function space, never trained on."""
        key = streams(jax.random.key(self.config.seed)).validation
        return self.problem.sample(self.config.training.validation, key=key)

    def initial(self) -> TrainState:
        """The state before the first step, which of a solved problem is also that after the last."""
        key = jax.random.key(self.config.seed)
        if self.config.operator.kind != SOLVED:
            return self._initial(key)
        operator, last = solve(self.problem), jnp.asarray(self.config.training.steps)
        nothing = jnp.zeros((0, self.problem.inputs.size))
        best = Best(operator, jnp.zeros(()), last)
        return TrainState(operator, (), Batch(nothing, nothing), jnp.zeros(()), last, key, best)

    def shapes(self) -> TrainState:
        """What `initial` gives of a training, but for the numbers: made without the memory that they need."""
        return jax.eval_shape(self._initial, jax.random.key(self.config.seed))

    @partial(jax.jit, static_argnums=0)
    def _initial(self, key: PRNGKeyArray) -> TrainState:
        # As one program: piece by piece, JAX would compile and keep one for each operation.
        operator = make_operator(self.problem, self.config, key=streams(key).operator)
        training = self.config.training
        cached = training.batch * (self._batches if training.cache == "set" else 1)
        empty, zero = jnp.zeros((cached, self.problem.inputs.size)), jnp.zeros((), int)
        best = Best(operator, jnp.full((), jnp.inf), zero)
        return TrainState(operator, self.optimiser.init(operator), Batch(empty, empty), jnp.zeros(()), zero, key, best)

    def advance(self, state: TrainState, stop: int) -> tuple[TrainState, Terms]:
        """Steps up to `stop`, which must not lie beyond `boundary`, and the terms averaged over them."""
        state = self.prepare(state)
        defending = self.method_at(int(state.step)).attacks
        return self._defend(state, stop) if defending else self._warm_up(state, self.functions, stop)

    def prepare(self, state: TrainState) -> TrainState:
        """What comes before the next step. Where the defence begins, lambda_sens is calibrated, and what is best is
        judged under attack from then on; where the cache is due, it is attacked anew."""
        training, step = self.config.training, int(state.step)
        if not self.method_at(step).attacks or (step - training.warmup) % training.refresh:
            return state
        if step == training.warmup:
            unjudged = Best(state.operator, jnp.full((), jnp.inf), state.step)
            state = state._replace(lambda_sens=self._calibrate(state, self.functions), best=unjudged)
        return state._replace(cache=self._refresh(state, self.functions))

    def method_at(self, step: int) -> AbstractMethod:
        """What the next step minimises: every method warms up clean."""
        return self.method if step >= self.config.training.warmup else Clean()

    def batch_of(self, state: TrainState) -> Batch:
        """What the next step sees, of a prepared state."""
        defending = self.method_at(int(state.step)).attacks
        pool = state.cache if defending else Batch(self.functions, self.functions)
        length = len(pool.clean) // self.config.training.batch
        return Batch(*(self._deck(state, inputs, state.step // length)[state.step % length] for inputs in pool))

    def sound(self, state: TrainState, terms: Terms, limit: float) -> bool:
        """Whether every number of the terms, the parameters, the optimiser and the penalty's weight is finite, and the
        loss below `limit`."""
        return bool(_finite((state.operator, state.optimiser, state.lambda_sens, terms)) & (terms.loss <= limit))

    def boundary(self, step: int) -> int:
        """The next step after `step` at which `advance` must hand back control."""
        training = self.config.training
        if step < training.warmup:
            return min(training.warmup, training.steps)
        if not self.method.attacks:
            return training.steps
        return min(step + training.refresh - (step - training.warmup) % training.refresh, training.steps)

    def validate(self, state: TrainState) -> tuple[TrainState, Validation]:
        """The losses on the held-out functions; the state remembers its parameters if they are the best so far."""
        found = self._validate(state, self.held_out)
        defended = self.method.attacks and int(state.step) > self.config.training.warmup
        decisive = found.attacked if defended else found.clean
        if decisive < state.best.loss:
            state = state._replace(best=Best(state.operator, decisive, state.step))
        return state, found

    @partial(jax.jit, static_argnums=0)
    def _validate(self, state: TrainState, inputs: Array) -> Validation:
        residuals = residual_map(state.operator, self.problem)

        def loss(a: Float[Array, "batch m"]) -> Float[Array, " batch"]:
            return physics_loss(residuals(a), self.problem)

        # The same start every time: of two states, the losses differ by the parameters alone. (It is drawn by the key
        # of the inputs and so resembles them; forty steps take it elsewhere.)
        attacked = self.attack(loss, inputs, key=streams(state.key).validation).inputs
        return Validation(jnp.mean(loss(inputs)), jnp.mean(loss(attacked)))

    @partial(jax.jit, static_argnums=0)
    def _warm_up(self, state: TrainState, functions: Array, stop: Int[Array, ""]) -> tuple[TrainState, Terms]:
        """Clean steps on batches of the training functions."""
        return self._epochs(Clean(), state, Batch(functions, functions), stop)

    @partial(jax.jit, static_argnums=0)
    def _defend(self, state: TrainState, stop: Int[Array, ""]) -> tuple[TrainState, Terms]:
        """Defence steps on batches of the cache, which may be just one."""
        return self._epochs(self.method, state, state.cache, stop)

    @partial(jax.jit, static_argnums=0)
    def _refresh(self, state: TrainState, functions: Array) -> Batch:
        """New attacked inputs for the cache."""
        if self.config.training.cache == "batch":
            return self._attacked(state, self._deal(state, functions), jnp.zeros((), int))
        # Batch by batch: as much memory as one.
        decks = self._deck(state, functions, state.step // self._batches)
        numbered = (decks, jnp.arange(len(decks)))
        attacked = jax.lax.map(lambda deck: self._attacked(state, *deck), numbered)
        return jax.tree.map(lambda leaf: leaf.reshape(-1, leaf.shape[-1]), attacked)

    @partial(jax.jit, static_argnums=0)
    def _calibrate(self, state: TrainState, functions: Array) -> Float[Array, ""]:
        """lambda_sens from attacked batches at the end of the warm-up (eq:lambda-calibration)."""

        def measure(number: Int[Array, ""]) -> tuple[Array, Array]:
            batch = self._attacked(state, self._deal(state, functions, number), number)
            terms = self.method.terms(state.operator, self.problem, batch, jnp.zeros(()))
            return terms.loss, terms.sensitivity

        # Number 0 at this step is the first cached batch itself.
        physics, sensitivity = jax.lax.map(measure, jnp.arange(self.config.method.calibration_batches))
        return self.method.calibrate(jnp.mean(physics), jnp.mean(sensitivity))

    def _epochs(
        self, method: AbstractMethod, state: TrainState, pool: Batch, stop: Int[Array, ""]
    ) -> tuple[TrainState, Terms]:
        """Steps up to `stop` on batches of the `pool`, dealt out in a new order each epoch, and their mean terms."""
        length = len(pool.clean) // self.config.training.batch

        def epoch(carry: tuple[TrainState, Terms]) -> tuple[TrainState, Terms]:
            # Shuffling is a sort, too slow for every step.
            state, total = carry
            first = state.step - state.step % length
            decks = Batch(*(self._deck(state, inputs, state.step // length) for inputs in pool))

            def batch(state: TrainState) -> Batch:
                return Batch(*(deck[state.step - first] for deck in decks))

            # A pool of one batch is the same in every epoch.
            last = stop if length == 1 else jnp.minimum(stop, first + length)
            return self._repeat(method, batch if length > 1 else lambda state: pool, state, total, last)

        def unfinished(carry: tuple[TrainState, Terms]) -> Bool[Array, ""]:
            return carry[0].step < stop

        start = state.step
        state, total = jax.lax.while_loop(unfinished, epoch, (state, self._nothing(method, state)))
        return state, jax.tree.map(lambda leaf: leaf / (stop - start), total)

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
            terms = method.terms(operator, self.problem, batch(state), state.lambda_sens)
            return terms.loss, terms

        def step(_: Int[Array, ""], carry: tuple[TrainState, Terms]) -> tuple[TrainState, Terms]:
            state, total = carry
            gradient, terms = jax.grad(objective, has_aux=True)(state.operator, state)
            updates, optimiser = self.optimiser.update(gradient, state.optimiser, state.operator)
            operator = optax.apply_updates(state.operator, updates)
            state = state._replace(operator=operator, optimiser=optimiser, step=state.step + 1)
            return state, jax.tree.map(jnp.add, total, terms)

        return jax.lax.fori_loop(state.step, stop, step, (state, total))

    def _nothing(self, method: AbstractMethod, state: TrainState) -> Terms:
        """The terms of no step."""
        batch = Batch(*(inputs[: self.config.training.batch] for inputs in state.cache))
        shapes = jax.eval_shape(
            lambda operator: method.terms(operator, self.problem, batch, state.lambda_sens), state.operator
        )
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

    def _attacked(self, state: TrainState, clean: Float[Array, "batch m"], number: Int[Array, ""]) -> Batch:
        """A batch and the method's attack on it. The trunk is evaluated once: parameters are frozen.

        `number` tells the batches of one step apart.
        """
        target = self.method.target(state.operator, self.problem, clean)
        key = jax.random.fold_in(jax.random.fold_in(streams(state.key).attacks, state.step), number)
        return Batch(clean, self.perturb(target, clean, key=key).inputs)
