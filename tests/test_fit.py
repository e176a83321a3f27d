"""Objects in: any operator, objective and optimiser, by the training that the paper's go through."""

from __future__ import annotations

import dataclasses
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from pde_cases import CASES
from training_cases import same, setup

import stablepdenet as sp
from stablepdenet import points
from stablepdenet.errors import ConfigError
from stablepdenet.experiments.training.making import make_attack, untrained
from stablepdenet.operators import ModuleOperator
from stablepdenet.training import Program, Schedule, checkpoint
from stablepdenet.training.fitting import require_kinds, require_whole
from stablepdenet.training.objectives import AbstractObjective

ATTACK = sp.PGD(sp.LinfBall(0.05), steps=2)
KEY = jax.random.key(0)
TINY = {"functions": 8, "batch": 4, "validation": 4, "warmup": 5, "refresh": 5}


class Network(eqx.Module):
    """A user's own: no class of ours, activation functions among its leaves, one array that is not trained."""

    branch: eqx.nn.MLP
    trunk: eqx.nn.MLP
    scale: float
    order: jax.Array

    def __init__(self, inputs, dimension, *, key):
        keys = jax.random.split(key)
        self.branch = eqx.nn.MLP(inputs, 8, 8, 1, activation=jax.nn.tanh, key=keys[0])
        self.trunk = eqx.nn.MLP(dimension, 8, 8, 1, activation=jnp.sin, key=keys[1])
        self.scale = 0.5
        self.order = jnp.arange(inputs)

    def __call__(self, a, points):
        return self.scale * jax.vmap(self.branch)(a[:, self.order]) @ jax.vmap(self.trunk)(points).T


def poisson():
    """The 2D Poisson problem with fewer points."""
    problem = CASES["poisson_2d"]().problem
    fewer = tuple(dataclasses.replace(block, points=block.points[::20]) for block in problem.blocks)
    return dataclasses.replace(problem, blocks=fewer)


def test_a_network_of_ones_own_is_trained_on_attacks_and_audited():
    problem, rows = poisson(), list[Any]()
    network = Network(problem.inputs.size, 2, key=KEY)
    found = sp.fit(
        problem,
        network,
        sp.Stable(ATTACK, rho=0.2),
        optimiser=optax.adam(1e-2),
        steps=60,
        key=KEY,
        progress=lambda report: rows.append(report.numbers),
        **TINY,
    )
    assert type(found) is Network and found.trunk.activation is network.trunk.activation
    assert np.array_equal(found.order, network.order)
    assert not np.array_equal(found.trunk.layers[0].weight, network.trunk.layers[0].weight)
    assert rows[-1]["step"] == 60 and rows[-1]["loss"] < 0.8 * rows[0]["loss"]
    assert rows[-1]["lambda_sens"] > 0 and rows[-1]["validation_attacked"] > 0
    # Any reference will do: what is tried is that the network can be measured.
    axes = (points.uniform(5), points.uniform(5))
    bump = np.prod(np.sin(np.pi * points.grid(*axes)), axis=1)
    reference = {"reference": lambda a: (1 + a.mean(axis=1, keepdims=True)) * bump, "axes": axes}
    measured = dataclasses.replace(problem, attack=ATTACK, **reference)
    audit = sp.audit({"mine": found}, measured, parts=["errors"], tests=3, eps=[0.05])
    assert audit.value("relative_l2", method="mine") > 0


@pytest.mark.parametrize("name", [pytest.param("pi", marks=pytest.mark.long), "stable"])
def test_objects_give_the_bytes_that_names_give(name):
    problem, config = setup(method__name=name, seed=3)
    training = config.training
    attack = make_attack(problem, config)
    objective = {"pi": sp.Clean(attack), "stable": sp.Stable(attack)}[name]
    found = sp.fit(
        problem,
        untrained(problem, config),
        objective,
        optimiser=optax.adam(training.learning_rate),
        steps=training.steps,
        key=jax.random.key(3),
        functions=training.functions,
        batch=training.batch,
        warmup=training.warmup,
        refresh=training.refresh,
        validation=training.validation,
    )
    expected = sp.train(problem, config).trained
    for one, other in zip(*map(jax.tree.leaves, (found, expected)), strict=True):
        assert np.array_equal(one, other)


def test_clean_needs_no_attack_and_says_nothing_of_one():
    problem, rows = CASES["flux"]().problem, list[Any]()
    network = sp.DeepONet(problem.inputs.size, 1, width=8, depth=2, components=2, key=KEY)
    found = sp.fit(
        problem,
        network,
        sp.Clean(),
        steps=5,
        key=KEY,
        functions=4,
        batch=4,
        validation=2,
        progress=lambda report: rows.append(report.numbers),
    )
    assert isinstance(found, sp.DeepONet) and rows[-1]["validation_attacked"] is None
    assert found(problem.sample(2, key=KEY), jnp.zeros((3, 1))).shape == (2, 3, 2)


def test_a_checkpoint_of_a_network_of_ones_own_continues_to_the_same_bytes(tmp_path):
    problem = CASES["coefficient"]().problem
    schedule = Schedule(steps=6, functions=8, batch=4, warmup=2, refresh=3, validation=4, validate_every=9, log_every=9)
    program = Program(problem, sp.Adversarial(ATTACK), optax.adam(1e-3), schedule, key=KEY)
    start = program.initial(ModuleOperator(Network(problem.inputs.size, 1, key=KEY)))
    state, _ = program.advance(program.advance(start, 2)[0], 4)
    stored = checkpoint.load(checkpoint.save(tmp_path, state, {}, keep=1), program.shapes(start.operator), {})
    assert isinstance(stored.operator, ModuleOperator) and isinstance(stored.operator.module, Network)
    assert stored.operator.module.trunk.activation is jnp.sin
    whole, resumed = (program.advance(each, 5)[0] for each in (state, stored))
    assert same(whole, resumed) and not same(whole, state)


class Small(AbstractObjective):
    """An objective of a user's own: the physics loss, and weights that stay small."""

    attack: None = None

    def terms(self, operator, problem, batch, weight):
        clean = sp.Clean().terms(operator, problem, batch, weight)
        return clean._replace(loss=clean.loss + 1e3 * jnp.sum(operator.trunk.layers[-1].weight ** 2))


def test_an_objective_of_ones_own_is_minimised():
    problem = CASES["coefficient"]().problem
    network = sp.DeepONet(problem.inputs.size, 1, width=8, depth=2, key=KEY)
    found = sp.fit(problem, network, Small(), steps=100, optimiser=optax.adam(1e-2), key=KEY, functions=4, validation=4)
    weights = [jnp.linalg.norm(each.trunk.layers[-1].weight) for each in (network, found)]
    assert weights[1] < 0.5 * weights[0]


class Jumbled(eqx.Module):
    """What it gives at a point depends on the points before it."""

    weight: jax.Array

    def __call__(self, a, where):
        return self.weight * jnp.cumsum(jnp.sin(where[:, 0]))[None] * a[:, :1]


REFUSED = [
    ({"key": jax.random.PRNGKey(0)}, r"key = .*jax.random.key"),
    ({"steps": 0}, "steps = 0 .*at least 1"),
    ({"batch": 100}, "batch = 100 is larger than functions = 8"),
    ({"warmup": 10}, "warmup = 10 leaves no attacked steps"),
    ({"warmup": -1}, "warmup = -1"),
    ({"operator": lambda a, where: a[:, :1] * where[:, 0]}, "no arrays to train"),
    ({"operator": 3}, "not callable"),
    ({"operator": Jumbled(jnp.ones(()))}, "derivatives.*order"),
]


@pytest.mark.parametrize(("wrong", "words"), REFUSED)
def test_a_wrong_argument_is_named(wrong, words):
    problem = CASES["coefficient"]().problem
    given: dict[str, Any] = {
        "operator": sp.DeepONet(problem.inputs.size, 1, width=4, depth=2, key=KEY),
        "objective": sp.Stable(ATTACK),
    }
    given |= {"steps": 10, "key": KEY, **TINY, **wrong}
    with pytest.raises(ConfigError, match=words):
        sp.fit(problem, **given)


def test_an_argument_of_another_kind_is_named():
    # Asked directly: in tests, annotations are checked before anything is called.
    right = {"objective": sp.Clean(), "optimiser": optax.sgd(0.1), "key": KEY}
    require_kinds(**right)
    for name, value in {"objective": "stable", "optimiser": "adam", "key": 0}.items():
        with pytest.raises(ConfigError, match=f"{name} = {value!r}"):
            require_kinds(**{**right, name: value})
    with pytest.raises(ConfigError, match=r"steps = 2\.5 must be a whole number"):
        require_whole(steps=2.5)


def test_a_refined_operator_is_not_trained():
    problem = CASES["coefficient"]().problem
    network = sp.DeepONet(problem.inputs.size, 1, width=4, depth=2, key=KEY)
    # Without its tables, which take long to make.
    refined = sp.RefinedOperator(network, jnp.zeros((5, 1)), [], [], problem, steps=1, further=0)
    with pytest.raises(ConfigError, match="refine the result"):
        sp.fit(problem, refined, sp.Clean(), steps=1, key=KEY)
