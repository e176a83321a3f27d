"""Operators: every derivative against two independent ways to get it, every network against its formula."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import combinations_with_replacement

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array

from stablepdenet.operators import (
    AbstractOperator,
    DeepONet,
    Derivative,
    Fields,
    FunctionOperator,
    ModifiedDeepONet,
    Query,
)
from stablepdenet.operators.mlp import MLP, Dense


def words(coordinates: int, order: int) -> tuple[Derivative, ...]:
    """All derivatives in `coordinates` variables up to `order`."""
    return tuple(w for size in range(order + 1) for w in combinations_with_replacement(range(coordinates), size))


def build(
    kind: Callable[..., AbstractOperator], inputs: int, coordinates: int, *, depth: int = 4, seed: int = 0
) -> AbstractOperator:
    """A float64 operator with random parameters everywhere: biases of zero would hide what happens to them."""
    generator = np.random.default_rng(seed)
    shapes = eqx.filter_eval_shape(kind, inputs, coordinates, width=9, depth=depth, key=jax.random.key(0))
    return jax.tree.map(
        lambda p: jnp.asarray(generator.normal(size=p.shape) / (1 if p.ndim < 2 else np.sqrt(p.shape[0]))), shapes
    )


def batch(inputs: int, seed: int = 1) -> Array:
    return jnp.asarray(np.random.default_rng(seed).normal(size=(3, inputs)))


def locations(coordinates: int, seed: int = 2) -> Array:
    return jnp.asarray(np.random.default_rng(seed).uniform(size=(5, coordinates)))


@eqx.filter_jit
def derivatives(operator: AbstractOperator, a: Array, points: Array, wanted: tuple[Derivative, ...]) -> Fields:
    return operator.derivatives(a, points, wanted)


def assert_matches_differences(
    operator: AbstractOperator, a: Array, points: Array, order: int
) -> dict[Derivative, np.ndarray]:
    """Each derivative against the central difference of the one with one letter less, down to the value itself."""
    step, (n, coordinates) = 1e-5, points.shape
    shifts = step * np.concatenate([np.zeros((1, coordinates)), np.eye(coordinates), -np.eye(coordinates)])
    wanted = words(coordinates, order)
    fields = derivatives(operator, a, (points + shifts[:, None]).reshape(-1, coordinates), wanted)
    values = {word: np.asarray(field).reshape(len(a), len(shifts), n) for word, field in fields.items()}
    np.testing.assert_allclose(values[()][:, 0], operator(a, points), rtol=0, atol=1e-12)
    for word in wanted:
        for i, letter in enumerate(word):
            rest = values[word[:i] + word[i + 1 :]]
            difference = (rest[:, 1 + letter] - rest[:, 1 + coordinates + letter]) / (2 * step)
            # Truncation is step^2 / 6 times a derivative two orders up, rounding 1e-16 / step times one an order down.
            scale = max(1.0, np.abs(values[word]).max())
            np.testing.assert_allclose(values[word][:, 0], difference, rtol=0, atol=3e-8 * scale, err_msg=str(word))
    return {word: value[:, 0] for word, value in values.items()}


# --------------------------------------------------------------------------------------------------------- DeepONet


@pytest.mark.parametrize("coordinates, order, depth", [(1, 4, 4), (2, 3, 4), (3, 2, 2)])
def test_taylor_derivatives_equal_nested_forward_mode_and_finite_differences(
    coordinates: int, order: int, depth: int
) -> None:
    wanted = words(coordinates, order)
    with jax.enable_x64(True):
        operator = build(DeepONet, 6, coordinates, depth=depth)
        a, points = batch(6), locations(coordinates)
        taylor = assert_matches_differences(operator, a, points, order)
        nested = eqx.filter_jit(lambda o, a: AbstractOperator.prepare(o, [Query(points, wanted)])(a)[0])(operator, a)
    assert set(taylor) == set(nested) == set(wanted)
    for word in wanted:
        size = np.abs(nested[word]).max()
        assert size > 1e-3  # nothing to compare would prove nothing
        np.testing.assert_allclose(taylor[word], nested[word], rtol=0, atol=1e-10 * max(1, size), err_msg=str(word))


def test_derivatives_do_not_depend_on_what_else_is_wanted() -> None:
    with jax.enable_x64(True):
        operator = build(DeepONet, 6, 2, seed=2)
        a, points = batch(6), locations(2)
        together = derivatives(operator, a, points, words(2, 3))
        alone = derivatives(operator, a, points, ((0, 0, 1),))
    assert list(alone) == [(0, 0, 1)]
    np.testing.assert_allclose(alone[(0, 0, 1)], together[(0, 0, 1)], rtol=0, atol=1e-12)


def test_deeponet_value_is_the_inner_product_of_branch_and_trunk() -> None:
    def forward(network: MLP, x: np.ndarray) -> np.ndarray:
        *hidden, last = network.layers
        for layer in hidden:
            x = np.tanh(x @ np.asarray(layer.weight) + np.asarray(layer.bias))
        return x @ np.asarray(last.weight) + np.asarray(last.bias)

    with jax.enable_x64(True):
        operator = build(DeepONet, 6, 2, seed=3)
        assert isinstance(operator, DeepONet)
        a, points = batch(6), locations(2)
        expected = np.array(
            [
                [np.dot(forward(operator.branch, f), forward(operator.trunk, p)) + float(operator.bias) for p in points]
                for f in np.asarray(a)
            ]
        )
        np.testing.assert_allclose(operator(a, points), expected, rtol=0, atol=1e-12)
        np.testing.assert_allclose(operator.derivatives(a, points, [()])[()], expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("components", [1, 2])
@pytest.mark.parametrize("inputs", [1, 40])  # fewer and more than points: both ways to multiply
def test_a_trunk_that_ends_in_tanh(components: int, inputs: int) -> None:
    with jax.enable_x64(True):
        operator = build(partial(DeepONet, tanh_trunk=True, components=components), 6, 2, depth=3)
        assert isinstance(operator, DeepONet)
        a, points = jnp.asarray(np.random.default_rng(1).normal(size=(inputs, 6))), locations(2)
        features = np.tanh(np.asarray(operator.trunk(points)).reshape(len(points), components, -1))
        expected = np.einsum("bk,nck->bnc", operator.branch(a), features) + np.asarray(operator.bias)
        expected = expected[..., 0] if components == 1 else expected
        np.testing.assert_allclose(operator(a, points), expected, rtol=0, atol=1e-12)
        query = Query(points, words(2, 2), {(): 2.0, (0,): -1.0, (1, 1): 3.0}, components - 1)
        nested = AbstractOperator.prepare(operator, [query])(a)[0]
        c = operator.coefficients(a)
        for found in (
            operator.prepare([query])(a)[0],
            {word: c @ each for word, each in operator.features(query).items()},
        ):
            assert found.keys() == nested.keys()
            for word in nested:
                np.testing.assert_allclose(found[word], nested[word], rtol=0, atol=1e-10, err_msg=str(word))


def test_output_bias_is_in_the_value_alone() -> None:
    with jax.enable_x64(True):
        operator = build(DeepONet, 6, 2, seed=4)
        assert isinstance(operator, DeepONet)
        shifted = eqx.tree_at(lambda o: o.bias, operator, operator.bias + 2.5)
        a, points, wanted = batch(6), locations(2), words(2, 2)
        before, after = operator.derivatives(a, points, wanted), shifted.derivatives(a, points, wanted)
        np.testing.assert_allclose(after[()] - before[()], 2.5, rtol=0, atol=1e-12)
        for word in wanted[1:]:
            np.testing.assert_array_equal(after[word], before[word])


def test_frozen_points_serve_every_input() -> None:
    with jax.enable_x64(True):
        operator = build(DeepONet, 6, 2, seed=5)
        queries = [Query(locations(2, 3), ((), (0, 0))), Query(locations(2, 4)[:2], ((1,),))]
        evaluate = jax.jit(operator.prepare(queries))
        a = batch(6)
        together = evaluate(a)
        for query, fields in zip(queries, together, strict=True):
            assert tuple(fields) == query.wanted
            for word, u in fields.items():
                assert u.shape == (3, len(query.points))
                alone = operator.derivatives(a, jnp.asarray(query.points), query.wanted)[word]
                np.testing.assert_allclose(u, alone, rtol=0, atol=1e-13)
        singly = [evaluate(a[i : i + 1]) for i in range(3)]
        for q, fields in enumerate(together):
            for word, u in fields.items():
                np.testing.assert_allclose(np.concatenate([one[q][word] for one in singly]), u, rtol=0, atol=1e-13)


def test_derivatives_are_differentiable_in_the_parameters_and_the_input() -> None:
    with jax.enable_x64(True):
        operator = build(DeepONet, 6, 2, seed=6)
        a, points = batch(6), locations(2)

        @eqx.filter_jit
        @eqx.filter_value_and_grad
        def loss(both: tuple[AbstractOperator, Array]) -> Array:
            fields = both[0].derivatives(both[1], points, [(), (1,), (0, 0)])
            return jnp.mean((fields[(1,)] - 0.1 * fields[(0, 0)] + fields[()] ** 2) ** 2)

        _, slopes = loss((operator, a))
        step, nowhere = 1e-6, jax.tree.map(np.zeros_like, operator)
        for direction in [(build(DeepONet, 6, 2, seed=7), np.zeros_like(a)), (nowhere, batch(6, seed=8))]:
            above, below = (
                loss(
                    jax.tree.map(
                        lambda p, d, s=s: jnp.asarray(np.asarray(p) + s * np.asarray(d)), (operator, a), direction
                    )
                )[0]
                for s in (step, -step)
            )
            actual = sum(np.vdot(g, d) for g, d in zip(*map(jax.tree.leaves, (slopes, direction)), strict=True))
            # Rounding 1e-16 / step and truncation step^2 leave about nine digits.
            np.testing.assert_allclose(actual, (above - below) / (2 * step), rtol=1e-6)


# --------------------------------------------------------------------------------------------------- Initialisation


def test_deeponet_sizes_and_parameter_count() -> None:
    operator = eqx.filter_eval_shape(DeepONet, 101, 2, width=128, key=jax.random.key(0))
    branch = [layer.weight.shape for layer in operator.branch.layers]
    trunk = [layer.weight.shape for layer in operator.trunk.layers]
    assert branch == [(101, 128), (128, 128), (128, 128), (128, 128)]
    assert trunk == [(2, 128), (128, 128), (128, 128), (128, 128)]
    # branch 101*128 + 128 + 3 * (128^2 + 128) = 62592, trunk 2*128 + 128 + 3 * (128^2 + 128) = 49920, and b_0
    assert sum(p.size for p in jax.tree.leaves(operator)) == 62592 + 49920 + 1


def test_modified_deeponet_parameter_count() -> None:
    operator = eqx.filter_eval_shape(ModifiedDeepONet, 101, 2, width=128, key=jax.random.key(0))
    # a DeepONet and its two encoders, 101*128 + 128 and 2*128 + 128
    assert sum(p.size for p in jax.tree.leaves(operator)) == 112513 + 13056 + 384


@pytest.mark.parametrize("fan_in, fan_out", [(101, 128), (2, 128)])
def test_weights_follow_the_glorot_normal_law(fan_in: int, fan_out: int) -> None:
    layers = [Dense(fan_in, fan_out, key=key) for key in jax.random.split(jax.random.key(1), 8)]
    weights = np.stack([np.asarray(layer.weight, np.float64) for layer in layers]).ravel()
    sigma = np.sqrt(2 / (fan_in + fan_out))
    # Five standard errors; a normal law's, which are larger than those of the truncated one that is drawn.
    assert abs(weights.mean()) <= 5 * sigma / np.sqrt(weights.size)
    assert abs(weights.std() / sigma - 1) <= 5 / np.sqrt(2 * weights.size)
    assert all(np.all(np.asarray(layer.bias) == 0) for layer in layers)


@pytest.mark.parametrize("kind", [DeepONet, ModifiedDeepONet])
def test_every_weight_matrix_is_drawn_separately_and_by_the_key(kind: type) -> None:
    def matrices(seed: int) -> list[np.ndarray]:
        leaves = jax.tree.leaves(kind(8, 8, width=8, key=jax.random.key(seed)))
        return [np.asarray(leaf) for leaf in leaves if leaf.ndim == 2]

    first = matrices(0)
    assert len({matrix.tobytes() for matrix in first}) == len(first) == (8 if kind is DeepONet else 10)
    assert all(np.array_equal(*pair) for pair in zip(first, matrices(0), strict=True))
    assert not any(np.array_equal(*pair) for pair in zip(first, matrices(1), strict=True))


# ------------------------------------------------------------------------------------------------ Modified DeepONet


@pytest.mark.parametrize("depth", [2, 4])
def test_modified_deeponet_equals_its_formula(depth: int) -> None:
    def affine(layer: Dense, x: np.ndarray) -> np.ndarray:
        return x @ np.asarray(layer.weight) + np.asarray(layer.bias)

    with jax.enable_x64(True):
        operator = build(ModifiedDeepONet, 6, 2, depth=depth, seed=7)
        assert isinstance(operator, ModifiedDeepONet)
        a, points = batch(6), locations(2)
        u = np.asarray(eqx.filter_jit(operator)(a, points))
        for i, j in [(0, 0), (2, 1), (1, 4)]:
            f, xi = np.asarray(a)[i], np.asarray(points)[j]
            gate_u, gate_v = np.tanh(affine(operator.encode_input, f)), np.tanh(affine(operator.encode_point, xi))
            ends = []
            for network, h in ((operator.branch, f), (operator.trunk, xi)):
                h = np.tanh(affine(network[0], h))
                for layer in network[1:-1]:
                    z = np.tanh(affine(layer, h))
                    h = (1 - z) * gate_u + z * gate_v
                ends.append(affine(network[-1], h))
            np.testing.assert_allclose(u[i, j], ends[0] @ ends[1] + float(operator.bias), rtol=0, atol=1e-12)


def test_modified_deeponet_derivatives_against_finite_differences() -> None:
    with jax.enable_x64(True):
        assert_matches_differences(build(ModifiedDeepONet, 6, 2, depth=3, seed=8), batch(6), locations(2), 2)


def test_modified_deeponet_treats_pairs_independently() -> None:
    with jax.enable_x64(True):
        operator = build(ModifiedDeepONet, 6, 2, seed=9)
        a, points = batch(6), locations(2)
        u = eqx.filter_jit(operator)(a, points)
        alone = eqx.filter_jit(operator)(a[1:2], points[3:4])
        np.testing.assert_allclose(alone, u[1:2, 3:4], rtol=0, atol=1e-13)


# ------------------------------------------------------------------------------------------------ Function operator


def test_function_operator_has_exact_derivatives() -> None:
    def solution(a: Array, points: Array) -> Array:
        x, t = points[:, 0], points[:, 1]
        return a[:, :1] * jnp.sin(2 * x) * jnp.exp(-3 * t) + a[:, 1:] * x**3 * t

    with jax.enable_x64(True):
        a, points = batch(2), locations(2)
        fields = derivatives(FunctionOperator(solution), a, points, words(2, 3))
        rows, (x, t) = np.asarray(a), np.asarray(points).T
        c, d, decay = rows[:, :1], rows[:, 1:], np.exp(-3 * t)
        expected = {
            (): c * np.sin(2 * x) * decay + d * x**3 * t,
            (0,): 2 * c * np.cos(2 * x) * decay + 3 * d * x**2 * t,
            (1,): -3 * c * np.sin(2 * x) * decay + d * x**3,
            (0, 0): -4 * c * np.sin(2 * x) * decay + 6 * d * x * t,
            (0, 1): -6 * c * np.cos(2 * x) * decay + 3 * d * x**2,
            (1, 1): 9 * c * np.sin(2 * x) * decay,
            (0, 0, 0): -8 * c * np.cos(2 * x) * decay + 6 * d * t,
            (0, 0, 1): 12 * c * np.sin(2 * x) * decay + 6 * d * x,
            (0, 1, 1): 18 * c * np.cos(2 * x) * decay,
            (1, 1, 1): -27 * c * np.sin(2 * x) * decay,
        }
        assert set(fields) == set(expected)
        for word, values in expected.items():
            np.testing.assert_allclose(fields[word], values, rtol=0, atol=1e-12, err_msg=str(word))
