"""Algorithm 2 (alg:stable_train) as pure, compiled functions of the training state."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from stablepdenet.operators import AbstractOperator
from stablepdenet.problems import Problem
from stablepdenet.problems.physics import physics_loss, residual_map
from stablepdenet.training.objectives import (
    AbstractAttacking,
    AbstractObjective,
    AbstractPenalised,
    Batch,
    Clean,
    Terms,
)
from stablepdenet.training.schedule import Schedule
from stablepdenet.training.state import Best, TrainState, streams


class Validation(NamedTuple):
    """Physics losses on held-out functions, as they are and attacked, if there is an attack."""

    clean: Float[Array, ""]
    attacked: Float[Array, ""] | None


@eqx.filter_jit
def _finite(tree: Any) -> Bool[Array, ""]:
    """As one program: leaf by leaf, each would have to be asked for."""
    leaves = jax.tree.leaves(eqx.filter(tree, eqx.is_inexact_array))
    return jnp.all(jnp.stack([jnp.all(jnp.isfinite(leaf)) for leaf in leaves]))


def trainable(operator: AbstractOperator) -> AbstractOperator:
    """Its arrays of real numbers; None in place of all else, as activation functions."""
    return eqx.filter(operator, eqx.is_inexact_array)


@final
class Program:
    """The compiled pieces of one training. It holds no parameters: these are in the state."""

    def __init__(
        self,
        problem: Problem,
        objective: AbstractObjective,
        optimiser: optax.GradientTransformation,
        schedule: Schedule,
        *,
        key: PRNGKeyArray,
    ):
        self.problem, self.objective, self.optimiser = problem, objective, optimiser
        self.schedule, self.key = schedule, key

    @cached_property
    def functions(self) -> Float[Array, "functions m"]:
        """The training inputs, drawn once from the function space."""
        return self.problem.sample(self.schedule.functions, key=streams(self.key).functions)

    @cached_property
    def held_out(self) -> Float[Array, "validation m"]:
        """The validation inputs: from the same function space, never trained on."""
        return self.problem.sample(self.schedule.validation, key=streams(self.key).validation)

    def initial(self, operator: AbstractOperator) -> TrainState:
        """The state before the first step."""
        return self._initial(operator, self.key)

    def shapes(self, operator: AbstractOperator) -> TrainState:
        """What `initial` gives, but for the numbers: made without the memory that they need. Of the operator, shapes
        are enough."""
        return eqx.filter_eval_shape(self._initial, operator, self.key)

    @eqx.filter_jit
    def _initial(self, operator: AbstractOperator, key: PRNGKeyArray) -> TrainState:
        # As one program: piece by piece, JAX would compile and keep one for each operation.
        cached = self.schedule.batch * (self.schedule.batches if self.schedule.cache == "set" else 1)
        empty, zero = jnp.zeros((cached, self.problem.inputs.size)), jnp.zeros((), int)
        best = Best(operator, jnp.full((), jnp.inf), zero)
        optimiser = self.optimiser.init(trainable(operator))
        return TrainState(operator, optimiser, Batch(empty, empty), jnp.zeros(()), zero, key, best)

    def advance(self, state: TrainState, stop: int) -> tuple[TrainState, Terms]:
        """Steps up to `stop`, which must not lie beyond `boundary`, and the terms averaged over them."""
        state = self.prepare(state)
        # An array: a number would be part of the program.
        last = jnp.asarray(stop)
        return self._defend(state, last) if self._defends(state) else self._warm_up(state, self.functions, last)

    def prepare(self, state: TrainState) -> TrainState:
        """What comes before the next step. Where the defence begins, lambda_sens is calibrated, and what is best is
        judged under attack from then on; where the cache is due, it is attacked anew."""
        since = int(state.step) - self.schedule.warmup
        if not self._defends(state) or since % self.schedule.refresh:
            return state
        if since == 0:
            unjudged = Best(state.operator, jnp.full((), jnp.inf), state.step)
            weight = self._calibrate(state, self.functions)
            state = state._replace(lambda_sens=weight, best=unjudged)
        return state._replace(cache=self._refresh(state, self.functions))

    def objective_at(self, step: int) -> AbstractObjective:
        """What the next step minimises: a training on attacks warms up clean."""
        return self.objective if step >= self.schedule.warmup else self._unattacked

    @property
    def _unattacked(self) -> AbstractObjective:
        return Clean() if isinstance(self.objective, AbstractAttacking) else self.objective

    def _defends(self, state: TrainState) -> bool:
        return isinstance(self.objective_at(int(state.step)), AbstractAttacking)

    def batch_of(self, state: TrainState) -> Batch:
        """What the next step sees, of a prepared state."""
        pool = state.cache if self._defends(state) else Batch(self.functions, self.functions)
        length = len(pool.clean) // self.schedule.batch
        return Batch(*(self._deck(state, inputs, state.step // length)[state.step % length] for inputs in pool))

    def sound(self, state: TrainState, terms: Terms, limit: float) -> bool:
        """Whether every number of the terms, the parameters, the optimiser and the penalty's weight is finite, and the
        loss below `limit`."""
        return bool(_finite((state.operator, state.optimiser, state.lambda_sens, terms)) & (terms.loss <= limit))

    def boundary(self, step: int) -> int:
        """The next step after `step` at which `advance` must hand back control."""
        schedule = self.schedule
        if step < schedule.warmup:
            return min(schedule.warmup, schedule.steps)
        if not isinstance(self.objective, AbstractAttacking):
            return schedule.steps
        return min(step + schedule.refresh - (step - schedule.warmup) % schedule.refresh, schedule.steps)

    def validate(self, state: TrainState) -> tuple[TrainState, Validation]:
        """The losses on the held-out functions; the state remembers its parameters if they are the best so far."""
        found = self._validate(state, self.held_out)
        defended = isinstance(self.objective, AbstractAttacking) and int(state.step) > self.schedule.warmup
        decisive = found.attacked if defended and found.attacked is not None else found.clean
        if decisive < state.best.loss:
            state = state._replace(best=Best(state.operator, decisive, state.step))
        return state, found

    @eqx.filter_jit
    def _validate(self, state: TrainState, inputs: Array) -> Validation:
        residuals = residual_map(state.operator, self.problem)

        def loss(a: Float[Array, "batch m"]) -> Float[Array, " batch"]:
            return physics_loss(residuals(a), self.problem)

        attack = self.objective.attack
        if attack is None:
            return Validation(jnp.mean(loss(inputs)), None)
        # The same start every time: of two states, the losses differ by the parameters alone. (It is drawn by the key
        # of the inputs and so resembles them; forty steps take it elsewhere.)
        attacked = attack(loss, inputs, key=streams(state.key).validation).inputs
        return Validation(jnp.mean(loss(inputs)), jnp.mean(loss(attacked)))

    @eqx.filter_jit
    def _warm_up(self, state: TrainState, functions: Array, stop: Int[Array, ""]) -> tuple[TrainState, Terms]:
        """Steps without attacks on batches of the training functions."""
        return self._epochs(self._unattacked, state, Batch(functions, functions), stop)

    @eqx.filter_jit
    def _defend(self, state: TrainState, stop: Int[Array, ""]) -> tuple[TrainState, Terms]:
        """Defence steps on batches of the cache, which may be just one."""
        return self._epochs(self.objective, state, state.cache, stop)

    @eqx.filter_jit
    def _refresh(self, state: TrainState, functions: Array) -> Batch:
        """New attacked inputs for the cache."""
        if self.schedule.cache == "batch":
            return self._attacked(state, self._deal(state, functions), jnp.zeros((), int))
        # Batch by batch: as much memory as one.
        decks = self._deck(state, functions, state.step // self.schedule.batches)
        numbered = (decks, jnp.arange(len(decks)))
        attacked = jax.lax.map(lambda deck: self._attacked(state, *deck), numbered)
        return jax.tree.map(lambda leaf: leaf.reshape(-1, leaf.shape[-1]), attacked)

    @eqx.filter_jit
    def _calibrate(self, state: TrainState, functions: Array) -> Float[Array, ""]:
        """lambda_sens from attacked batches at the end of the warm-up (eq:lambda-calibration)."""
        objective = self.objective
        if not isinstance(objective, AbstractPenalised):
            return jnp.zeros_like(state.lambda_sens)

        def measure(number: Int[Array, ""]) -> tuple[Array, Array]:
            batch = self._attacked(state, self._deal(state, functions, number), number)
            terms = objective.terms(state.operator, self.problem, batch, jnp.zeros(()))
            return terms.loss, terms.sensitivity

        # Number 0 at this step is the first cached batch itself.
        physics, sensitivity = jax.lax.map(measure, jnp.arange(objective.calibration_batches))
        return objective.calibrate(jnp.mean(physics), jnp.mean(sensitivity))

    def _epochs(
        self, objective: AbstractObjective, state: TrainState, pool: Batch, stop: Int[Array, ""]
    ) -> tuple[TrainState, Terms]:
        """Steps up to `stop` on batches of the `pool`, dealt out in a new order each epoch, and their mean terms."""
        length = len(pool.clean) // self.schedule.batch
        # Loops carry arrays alone; what else an operator may hold does not change.
        arrays, rest = eqx.partition(state, eqx.is_array)

        def epoch(carry: tuple[TrainState, Terms]) -> tuple[TrainState, Terms]:
            # Shuffling is a sort, too slow for every step.
            state, total = carry
            first = state.step - state.step % length
            decks = Batch(*(self._deck(state, inputs, state.step // length) for inputs in pool))

            def batch(state: TrainState) -> Batch:
                return Batch(*(deck[state.step - first] for deck in decks))

            # A pool of one batch is the same in every epoch.
            last = stop if length == 1 else jnp.minimum(stop, first + length)
            return self._repeat(objective, batch if length > 1 else lambda state: pool, state, rest, total, last)

        def unfinished(carry: tuple[TrainState, Terms]) -> Bool[Array, ""]:
            return carry[0].step < stop

        start = state.step
        arrays, total = jax.lax.while_loop(unfinished, epoch, (arrays, self._nothing(objective, state)))
        return eqx.combine(arrays, rest), jax.tree.map(lambda leaf: leaf / (stop - start), total)

    def _repeat(
        self,
        objective: AbstractObjective,
        batch: Callable[[TrainState], Batch],
        state: TrainState,
        rest: TrainState,
        total: Terms,
        stop: Int[Array, ""],
    ) -> tuple[TrainState, Terms]:
        """Optimiser steps from state.step to `stop`; their terms are added to `total`.

        One compiled loop of traced length: the same instructions whatever the length, so where a run is cut into pieces
        does not change a bit of it.
        """

        def loss(operator: AbstractOperator, state: TrainState) -> tuple[Array, Terms]:
            terms = objective.terms(operator, self.problem, batch(state), state.lambda_sens)
            return terms.loss, terms

        def step(_: Int[Array, ""], carry: tuple[TrainState, Terms]) -> tuple[TrainState, Terms]:
            state, total = eqx.combine(carry[0], rest), carry[1]
            gradient, terms = eqx.filter_grad(loss, has_aux=True)(state.operator, state)
            updates, optimiser = self.optimiser.update(gradient, state.optimiser, trainable(state.operator))
            operator = eqx.apply_updates(state.operator, updates)
            state = state._replace(operator=operator, optimiser=optimiser, step=state.step + 1)
            return eqx.filter(state, eqx.is_array), jax.tree.map(jnp.add, total, terms)

        return jax.lax.fori_loop(state.step, stop, step, (state, total))

    def _nothing(self, objective: AbstractObjective, state: TrainState) -> Terms:
        """The terms of no step."""
        batch = Batch(*(inputs[: self.schedule.batch] for inputs in state.cache))
        shapes = eqx.filter_eval_shape(objective.terms, state.operator, self.problem, batch, state.lambda_sens)
        return jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)

    def _deal(self, state: TrainState, functions: Array, ahead: Int[Array, ""] | int = 0) -> Float[Array, "batch m"]:
        """The batch of the current step, or of one `ahead`: each epoch deals out the training functions in a new order.

        A remainder that fills no batch sits out its epoch.
        """
        epoch, slot = jnp.divmod(state.step + ahead, self.schedule.batches)
        return self._deck(state, functions, epoch)[slot]

    def _deck(self, state: TrainState, functions: Array, epoch: Int[Array, ""]) -> Float[Array, "batches batch m"]:
        """The batches of one epoch."""
        size, count = self.schedule.batch, self.schedule.batches
        if size == len(functions):
            return functions[None]
        order = jax.random.permutation(jax.random.fold_in(streams(state.key).batches, epoch), len(functions))
        return functions[order[: count * size]].reshape(count, size, -1)

    def _attacked(self, state: TrainState, clean: Float[Array, "batch m"], number: Int[Array, ""]) -> Batch:
        """A batch and the objective's attack on it. The trunk is evaluated once: parameters are frozen.

        `number` tells the batches of one step apart.
        """
        objective = self.objective
        assert isinstance(objective, AbstractAttacking)  # nobody else defends
        target = objective.target(state.operator, self.problem, clean)
        key = jax.random.fold_in(jax.random.fold_in(streams(state.key).attacks, state.step), number)
        return Batch(clean, objective.search()(target, clean, key=key).inputs)
