"""A training that produced numbers that are not finite: where, and what a replay in float64 says of it.

RUN/failure/step-00001234/       the last finite state, as a checkpoint
RUN/failure/batch.safetensors    the inputs of the step after it
RUN/failure/SHA256SUMS           of the inputs
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import safetensors
import safetensors.numpy

from stablepdenet.errors import CheckpointError
from stablepdenet.files import from_arrays, storage, to_arrays, write_synced
from stablepdenet.operators import AbstractOperator
from stablepdenet.training import checkpoint
from stablepdenet.training.objectives import Batch
from stablepdenet.training.program import Program, trainable
from stablepdenet.training.run import AbstractRun
from stablepdenet.training.state import TrainState

FOLDER, BATCH = "failure", "batch.safetensors"
PENALTY, WEIGHT, OPTIMISER = "penalty", "lambda_sens", "optimiser"


class Failure(NamedTuple):
    """The last finite state and the batch of the step that went wrong."""

    state: TrainState
    batch: Batch


class Finding(NamedTuple):
    """A part of the objective, or the optimiser: its value, and the norm of its gradient or step."""

    part: str
    value: float
    gradient: float

    @property
    def finite(self) -> bool:
        return bool(np.isfinite(self.value) and np.isfinite(self.gradient))


def locate(program: Program, state: TrainState, stop: int, limit: float) -> Failure | None:
    """Takes the steps from a sound state to `stop` one by one, up to the first that is not sound."""
    for step in range(int(state.step) + 1, stop + 1):
        state = program.prepare(state)
        after, terms = program.advance(state, step)
        if not program.sound(after, terms, limit):
            return Failure(state, program.batch_of(state))
        state = after
    return None


def examine(program: Program, failure: Failure) -> list[Finding]:
    """Every block's norm and gradient, the penalty's, and the optimiser's step, in the precision of the moment."""
    state, batch = failure
    objective = program.objective_at(int(state.step))

    def parts(operator: AbstractOperator) -> dict[str, jax.Array]:
        terms = objective.terms(operator, program.problem, batch, state.lambda_sens)
        return terms.blocks | {PENALTY: terms.sensitivity}

    # One by one: zero times what is not finite is not zero.
    findings = []
    for name in (*(block.name for block in program.problem.blocks), PENALTY):
        value, gradient = eqx.filter_value_and_grad(lambda operator, name=name: parts(operator)[name])(state.operator)
        findings.append(Finding(name, float(value), float(optax.tree.norm(gradient))))
    # A step from zero gradient is the optimiser's own doing.
    parameters = trainable(state.operator)
    nothing = jax.tree.map(jnp.zeros_like, parameters)
    updates, _ = program.optimiser.update(nothing, state.optimiser, parameters)
    weight = Finding(WEIGHT, float(state.lambda_sens), 0.0)
    return [*findings, weight, Finding(OPTIMISER, 0.0, float(optax.tree.norm(updates)))]


def culprit(findings: list[Finding]) -> str:
    """The first part whose value is not finite, else whose gradient is not; if all are, they are too large together."""
    order = sorted(findings, key=lambda finding: bool(np.isfinite(finding.value)))
    bad = next((finding.part for finding in order if not finding.finite), "")
    return bad if bad in (PENALTY, WEIGHT, OPTIMISER) else f"loss_{bad}".rstrip("_")


def keep(run: AbstractRun, failure: Failure) -> Path:
    """Writes the bundle that `replay` reads."""
    folder = run.folder / FOLDER
    with storage(run.folder):
        shutil.rmtree(folder, ignore_errors=True)
        checkpoint.save(folder, failure.state, run.stored, keep=1)
        data = safetensors.numpy.save(to_arrays(failure.batch))
        write_synced(folder / checkpoint.SUMS, checkpoint.sums({BATCH: data}))
        write_synced(folder / BATCH, data)
    return folder


def replay(program: Program, run: AbstractRun, template: TrainState) -> tuple[int, list[Finding], list[Finding]]:
    """The step of the failure, and what `examine` finds of it in float32 and in float64; of the template, shapes are
    enough."""
    folder = run.folder / FOLDER
    found = checkpoint.existing(folder)
    if not found:
        raise CheckpointError(f"'{run.folder}' holds no failure: replay is for a training that stopped by one.")
    state = checkpoint.load(found[-1], template, run.stored)
    try:
        data = (folder / BATCH).read_bytes()
        arrays = safetensors.numpy.load(data)
        if (folder / checkpoint.SUMS).read_bytes() != checkpoint.sums({BATCH: data}):
            raise ValueError
    except (OSError, safetensors.SafetensorError, KeyError, ValueError):
        raise CheckpointError(f"'{folder / BATCH}' is damaged: train again to meet the failure again.") from None
    shape = jnp.zeros((program.schedule.batch, program.problem.inputs.size))
    batch = from_arrays(arrays, Batch(shape, shape), f"'{folder / BATCH}'")
    single = examine(program, Failure(state, batch))
    with jax.enable_x64(True):
        double = examine(program, jax.tree.map(_doubled, Failure(state, batch)))
    return int(state.step) + 1, single, double


def _doubled(leaf: Any) -> Any:
    return leaf.astype(jnp.float64) if eqx.is_array(leaf) and leaf.dtype == jnp.float32 else leaf
