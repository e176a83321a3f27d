"""Writes a case: the library's own initial weights, first batch, points, and what its attack starts from."""

import json

import jax
import jax.numpy as jnp
import numpy as np
from common import TIMED
from products import step_products

from stablepdenet.attacks import LinfBall, PeriodicEndpoints
from stablepdenet.experiments.problems import make_problem
from stablepdenet.experiments.runs import configure
from stablepdenet.experiments.training import initial_state, make_program
from stablepdenet.training.state import streams

# As steps.py: any share will do, a step costs the same.
LAMBDA = 1e-3


def program_of(name, kind):
    """The training whose steps are timed, and its first state. Refreshing belongs to the stable method."""
    problem, config = case_of(name, kind)
    return make_program(problem, config), initial_state(problem, config)


def case_of(name, kind):
    """The problem, and the configuration of that training."""
    problem = make_problem(name)
    method = {"method.name": "pi" if kind in ("pi", "limit") else "stable"}
    return problem, configure(problem, TIMED | method)


def export(name, path):
    """The case of problem `name` as a file of arrays."""
    problem, config = case_of(name, "stable")
    program, state = program_of(name, "stable")
    operator, attack = state.operator, program.objective.attack
    cache = program._refresh(state, program.functions)
    arrays = {
        "bias": operator.bias,
        "clean": cache.clean,
        "both": jnp.concatenate([cache.clean, cache.attacked]),
        "spread": jnp.mean((cache.attacked - cache.clean) ** 2, axis=1) + config.method.tau,
        "start": _attack_start(program, state, cache.clean),
        "radius": attack.ball.radius(cache.clean),
    }
    for net in ("branch", "trunk"):
        for i, layer in enumerate(getattr(operator, net).layers):
            arrays |= {f"{net}.{i}.weight": layer.weight, f"{net}.{i}.bias": layer.bias}
    for block in problem.blocks:
        arrays |= {
            f"{block.name}.points": block.points,
            f"{block.name}.matrix": problem.inputs["a"].matrix(block.points[:, 0]),
        }
    meta = {
        "problem": name,
        "coordinates": "".join(problem.coordinates),
        "rate": config.training.learning_rate,
        "depth": config.operator.depth,
        "weights": {block.name: block.weight for block in problem.blocks},
        "lambda_sens": LAMBDA,
        "products": step_products(problem, operator, cache.clean),
        "attack": {
            "pointwise": isinstance(attack.ball, LinfBall),
            "periodic": isinstance(attack.admissible, PeriodicEndpoints),
            "steps": attack.steps,
            "step_size": attack.step_size,
        },
    }
    single = {name: np.asarray(array, np.float32) for name, array in arrays.items()}
    np.savez(path, meta=np.array(json.dumps(meta)), **single)


def _attack_start(program, state, clean):
    """The random start that the library's refresh at this state draws, projected as it does."""
    key = jax.random.fold_in(jax.random.fold_in(streams(state.key).attacks, state.step), 0)
    attack = program.objective.attack
    return attack.project(attack.ball.start(clean, key=key), clean)
