"""Operators as files: every kind comes back to the bit, for the problem that it was made for."""

from __future__ import annotations

import dataclasses
import json

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from pde_cases import CASES
from test_fit import Network

import stablepdenet as sp
from stablepdenet.errors import CheckpointError, ConfigError
from stablepdenet.operators import AbstractBasisOperator, ConstrainedOperator, LinearOperator, MovingFrameOperator

KEY = jax.random.key(1)


def burgers():
    return dataclasses.replace(sp.make_problem("burgers", {"interior": 60}), refinement_blocks=())


def waves():
    problem = CASES["wave_system"]().problem
    fewer = tuple(dataclasses.replace(block, points=block.points[::4]) for block in problem.blocks)
    return dataclasses.replace(problem, blocks=fewer)


def network(problem, **options):
    sizes = problem.inputs.size, problem.domain.dimension
    return sp.DeepONet(*sizes, width=8, depth=2, key=KEY, **options)


def constrained(problem):
    return ConstrainedOperator(network(problem, embedding="periodic"), problem.ansatz)


def moving(problem):
    return MovingFrameOperator(sp.refine(constrained(problem), problem, steps=1), problem.ansatz.frame)


def own(problem):
    return Network(problem.inputs.size, problem.domain.dimension, key=KEY)


KINDS = {
    "deeponet": (burgers, network),
    "embedded": (burgers, lambda problem: network(problem, embedding="periodic")),
    "components": (lambda: CASES["flux"]().problem, lambda problem: network(problem, components=2)),
    "scaled": (lambda: CASES["other_domain"]().problem, lambda problem: network(problem, domain=problem.domain)),
    "tanh": (burgers, lambda problem: network(problem, tanh_trunk=True)),
    "modified": (burgers, lambda problem: sp.ModifiedDeepONet(problem.inputs.size, 2, width=4, depth=3, key=KEY)),
    "constrained": (burgers, constrained),
    "solved": (lambda: CASES["neumann_robin"]().problem, sp.solve),
    "solved with a lift": (lambda: dataclasses.replace(sp.make_problem("heat"), refinement_blocks=()), sp.solve),
    "solved components": (waves, sp.solve),
    "refined": (lambda: CASES["coefficient"]().problem, lambda problem: sp.refine(network(problem), problem)),
    "faster": (
        lambda: CASES["coefficient"]().problem,
        lambda problem: sp.faster(sp.refine(network(problem), problem)),
    ),
    "moving": (burgers, moving),
    "own": (burgers, own),
}


SLOW = ("solved with a lift", "moving")


@pytest.mark.filterwarnings("ignore:Problem 'wave-system'")  # it has fewer points than it needs
@pytest.mark.parametrize("kind", [pytest.param(k, marks=pytest.mark.long) if k in SLOW else k for k in KINDS])
def test_every_kind_comes_back_to_the_bit(tmp_path, kind):
    make, build = KINDS[kind]
    problem = make()
    operator = build(problem)
    sp.save(operator, tmp_path / "new" / "operator.safetensors", problem)
    like = Network(problem.inputs.size, problem.domain.dimension, key=jax.random.key(2)) if kind == "own" else None
    found = sp.load(str(tmp_path / "new" / "operator.safetensors"), problem, like=like)
    assert type(found) is type(operator)
    for one, other in zip(*map(jax.tree.leaves, (found, operator)), strict=True):
        assert type(one) is type(other) and np.array_equal(one, other) if eqx.is_array(other) else one == other
    a, where = problem.sample(2, key=KEY), jnp.asarray(problem.blocks[0].points[:5])
    assert np.array_equal(found(a, where), operator(a, where))
    slopes = [jax.grad(lambda a, each=each: jnp.sum(each(a, where) ** 2))(a) for each in (found, operator)]
    assert np.array_equal(*slopes) and np.any(slopes[0])


def test_another_problem_is_refused(tmp_path):
    problem, path = CASES["coefficient"]().problem, tmp_path / "operator"
    sp.save(network(problem), path, problem)
    heavier = dataclasses.replace(problem.blocks[1], weight=3.0)
    other = dataclasses.replace(problem, blocks=(problem.blocks[0], heavier))
    with pytest.raises(CheckpointError, match="another problem 'coefficient'"):
        sp.load(path, other)


def test_what_would_come_back_as_another_is_not_stored(tmp_path):
    problem, path = CASES["neumann_robin"]().problem, tmp_path / "operator"
    solved = sp.solve(problem)
    turned = LinearOperator(solved.matrix, solved.constant, lambda points: solved.functions(points)[:, ::-1], None, 1)
    with pytest.raises(ConfigError, match="'neumann-robin'"):
        sp.save(turned, path, problem)
    assert not path.exists()
    with pytest.raises(CheckpointError, match="branch"):
        sp.save(sp.DeepONet(3, 1, width=4, depth=2, key=KEY), path, problem)


def test_what_is_no_module_is_refused(tmp_path):
    problem = CASES["coefficient"]().problem
    for function in (sp.FunctionOperator(lambda a, points: a), lambda a, points: a, 3):
        with pytest.raises(ConfigError, match="equinox module"):
            sp.save(function, tmp_path / "operator", problem)


def test_a_module_of_ones_own_needs_one_like_it(tmp_path):
    problem, path = CASES["coefficient"]().problem, tmp_path / "operator"
    sp.save(own(problem), path, problem)
    with pytest.raises(ConfigError, match="like="):
        sp.load(path, problem)
    with pytest.raises(CheckpointError, match=r"branch\.layers\[0\]"):
        sp.load(path, problem, like=Network(3, 1, key=KEY))


class Fourier(AbstractBasisOperator):
    """A user's own basis."""

    weight: jax.Array

    def coefficients(self, a):
        return a @ self.weight

    def basis(self, points):
        return jnp.sin(jnp.pi * points[:, :1] * jnp.arange(1, 4))


def test_ones_own_basis_is_refined_and_kept(tmp_path):
    problem, path = CASES["coefficient"]().problem, tmp_path / "operator"
    inner = Fourier(jax.random.normal(KEY, (problem.inputs.size, 3)))
    sp.save(sp.refine(inner, problem), path, problem)
    found = sp.load(path, problem, like=Fourier(jnp.zeros_like(inner.weight)))
    assert isinstance(found, sp.RefinedOperator) and isinstance(found.operator, Fourier)
    assert np.array_equal(found.operator.weight, inner.weight)


def test_double_precision_is_not_halved_without_a_word(tmp_path):
    problem, path = CASES["coefficient"]().problem, tmp_path / "operator"
    with jax.enable_x64(True):
        operator = network(problem)
        sp.save(operator, path, problem)
        assert np.array_equal(sp.load(path, problem).bias, operator.bias)
    with pytest.raises(ConfigError, match="float64"):
        sp.load(path, problem)


def test_damaged_and_foreign_files_are_refused(tmp_path):
    problem, path = CASES["coefficient"]().problem, tmp_path / "operator"
    sp.save(network(problem), path, problem)
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])

    def with_metadata(**changes):
        text = json.dumps(header | {"__metadata__": header["__metadata__"] | changes}).encode()
        return len(text).to_bytes(8, "little") + text + data[8 + length :]

    path.write_bytes(with_metadata())
    assert isinstance(sp.load(path, problem), sp.DeepONet)
    for broken in (
        b"",
        data[:-3],
        data[: length // 2],
        with_metadata(format="stablepdenet-operator-0"),
        with_metadata(operator="{"),
        with_metadata(operator='{"kind": "other", "dtype": "float32"}'),
        with_metadata(operator='{"kind": "deeponet", "dtype": "float32", "scaled": false, "height": 3}'),
        with_metadata(layers='[{"kind": "moving"}]'),
        with_metadata(layers="3"),
    ):
        path.write_bytes(broken)
        with pytest.raises(CheckpointError, match="is not an operator"):
            sp.load(path, problem)
    with pytest.raises(CheckpointError, match="No such file"):
        sp.load(tmp_path / "missing", problem)
