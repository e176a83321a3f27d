"""Which reading of the paper gives its Helmholtz errors with a plain trunk, one that sees x alone?

    python benchmarks/readings.py --out docs/readings.json            (about five minutes a reading, on one core)

A reading is something that the paper leaves open, changed alone. Each is PI-DeepONet at kappa = 3.5 pi from seed 0, on
the batches of the recipe `plain`; those of the cache are StablePDENet, as PI-DeepONet has none. Of its parameters those
are kept that have the smallest physics loss on 200 held-out functions; that loss is taken with the campaign's points
and weights, so that it is one scale for all readings. Readings that the file has already are not trained again.
"""

import argparse
import dataclasses
import json
import math
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from common import ONE_THREAD, save

os.environ.update(ONE_THREAD)

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from stablepdenet import evaluation_inputs, make_problem, points, relative_l2
from stablepdenet.experiments.runs import configure
from stablepdenet.experiments.training import initial_state, make_program
from stablepdenet.operators import EMBEDDINGS, AbstractBasisOperator, DeepONet
from stablepdenet.operators.mlp import Dense
from stablepdenet.problems.physics import physics_loss, residual_map
from stablepdenet.training.state import streams

PROBLEM, STEPS, EVERY, SEED = "helmholtz-3.5pi", 20_000, 500, 0
KAPPA = 3.5 * math.pi
TESTS = 500
# Names that a DeepONet looks its embeddings up by.
EMBEDDINGS["centred"] = lambda points: 2.0 * points - 1.0


class Scaled(AbstractBasisOperator):
    """Another operator whose inputs and outputs are multiplied by numbers."""

    operator: DeepONet
    inputs: float = eqx.field(static=True, default=1.0)
    outputs: float = eqx.field(static=True, default=1.0)

    def coefficients(self, a):
        return self.outputs * self.operator.coefficients(self.inputs * a)

    def basis(self, points):
        return self.operator.basis(points)

    def prepare(self, queries):
        inside = self.operator.prepare(queries)
        return lambda a: jax.tree.map(lambda field: self.outputs * field, inside(self.inputs * a))


def drawn(law):
    """Weights from another law."""

    def change(operator):
        def again(layer, key):
            return eqx.tree_at(lambda dense: dense.weight, layer, law(key, layer.weight.shape))

        layers, rest = jax.tree.flatten(operator, is_leaf=lambda part: isinstance(part, Dense))
        keys = jax.random.split(jax.random.key(SEED), len(layers))
        new = [again(part, key) if isinstance(part, Dense) else part for part, key in zip(layers, keys, strict=True)]
        return jax.tree.unflatten(rest, new)

    return change


def collocated(inside):
    """The equation at other points."""

    def change(problem):
        pde, bc = problem.blocks
        return dataclasses.replace(problem, blocks=(dataclasses.replace(pde, points=inside), bc))

    return change


def weighed(weight):
    """Another weight of the mean over the ends."""

    def change(problem):
        pde, bc = problem.blocks
        return dataclasses.replace(problem, blocks=(pde, dataclasses.replace(bc, weight=weight)))

    return change


def made(**options):
    """Another DeepONet: its trunk sees something else of x, or ends in a tanh."""
    return lambda operator: DeepONet(10, 1, **options, key=streams(jax.random.key(SEED)).operator)


def same(part):
    return part


class Reading(NamedTuple):
    """What changes: of the problem, of the operator, and of the settings."""

    problem: Callable = same
    operator: Callable = same
    settings: dict[str, Any] = {}  # noqa: RUF012 (never written to)


STABLE = {"method.name": "stable"}
READINGS = {
    "as in the recipe `plain`": Reading(),
    "tanh on the trunk's output": Reading(operator=made(tanh_trunk=True)),
    "x scaled to [-1, 1]": Reading(operator=made(embedding="centred")),
    "inputs times 10": Reading(operator=lambda operator: Scaled(operator, inputs=10.0)),
    "outputs over κ²": Reading(operator=lambda operator: Scaled(operator, outputs=KAPPA**-2)),
    "Glorot's uniform law": Reading(operator=drawn(jax.nn.initializers.glorot_uniform())),
    "LeCun's normal law": Reading(operator=drawn(jax.nn.initializers.lecun_normal())),
    "1,000 random points": Reading(collocated(np.random.default_rng(SEED).uniform(size=(1000, 1)))),
    "100 points": Reading(collocated(points.hammersley(100))),
    # The base has the sum over both ends, which is twice their mean: sin² κ is 1.
    "the boundary's mean, not its sum": Reading(weighed(1.0)),
    "float64": Reading(),
    "StablePDENet, as in the recipe `plain`": Reading(settings=STABLE),
    "StablePDENet, one batch in the cache, as Algorithm 2 reads": Reading(
        settings=STABLE | {"training.cache": "batch"}
    ),
    "not a reading: a trunk that sees waves": Reading(operator=made(embedding="waves")),
}
DOUBLE = "float64"


def train(name, steps):
    """A row: the smallest loss, the step it was found at, and the clean error there."""
    began = time.perf_counter()
    base, reading = make_problem(PROBLEM), READINGS[name]
    problem = reading.problem(base)
    settings = {"method.name": "pi", **reading.settings, "training.steps": steps, "seed": SEED}
    config = configure(problem, settings, recipe="plain")
    program = make_program(problem, config)
    functions, held_out, state = program.functions, program.held_out, initial_state(problem, config)
    operator = reading.operator(state.operator)
    if name == DOUBLE:
        jax.config.update("jax_enable_x64", True)
        program.functions, held_out, operator = jax.tree.map(double, (functions, held_out, operator))
    state = state._replace(operator=operator, optimiser=program.optimiser.init(operator))
    judge = eqx.filter_jit(lambda operator: jnp.mean(physics_loss(residual_map(operator, base)(held_out), base)))
    best = (math.inf, 0, operator)
    for step in range(EVERY, steps + 1, EVERY):
        state, _ = program.advance(state._replace(best=None), step)
        best = min(best, (float(judge(state.operator)), step, state.operator), key=lambda found: found[0])
    loss, step, operator = best
    a = evaluation_inputs(base, TESTS)
    error = relative_l2(np.asarray(operator(a, jnp.asarray(base.grid))), base.reference(np.asarray(a)))
    found = {"loss": loss, "step": step, "error": float(error), "steps": steps}
    return {"method": settings["method.name"], **found, "seconds": time.perf_counter() - began}


def double(leaf):
    return jnp.asarray(np.asarray(leaf), jnp.float64)


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--out", type=Path, default=Path("docs/readings.json"))
    arguments.add_argument("--steps", type=int, default=STEPS)
    arguments.add_argument("--only", nargs="+", choices=READINGS, default=list(READINGS))
    chosen = arguments.parse_args()
    rows = json.loads(chosen.out.read_text(encoding="utf-8"))["rows"] if chosen.out.exists() else {}
    for name in chosen.only:
        if name not in rows:
            rows[name] = train(name, chosen.steps)
            save(chosen.out, {"rows": rows})
            print(name, rows[name], flush=True)
            jax.config.update("jax_enable_x64", False)


if __name__ == "__main__":
    main()
