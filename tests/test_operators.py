"""Operators: every derivative against two independent ways to get it, every network against its formula."""

from __future__ import annotations

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
    FunctionOperator,
    ModifiedDeepONet,
    Query,
    jets,
)
from stablepdenet.operators.mlp import MLP, Dense


def words(coordinates: int, order: int) -> tuple[Derivative, ...]:
    """All derivatives in `coordinates` variables up to `order`."""
    return tuple(w for size in range(order + 1) for w in combinations_with_replacement(range(coordinates), size))


def perturbed(operator: AbstractOperator, seed: int = 0) -> AbstractOperator:
    """Random parameters everywhere: biases start at zero, which would hide what happens to them."""
    generator = np.random.default_rng(seed)
    return jax.tree.map(
        lambda p: p + jnp.asarray(0.3 * generator.normal(size=p.shape)) if eqx.is_inexact_array(p) else p, operator
    )


def batch(inputs: int, seed: int = 1) -> Array:
    return jnp.asarray(np.random.default_rng(seed).normal(size=(3, inputs)))


def locations(coordinates: int, seed: int = 2) -> Array:
    return jnp.asarray(np.random.default_rng(seed).uniform(size=(5, coordinates)))


def assert_matches_differences(
    operator: AbstractOperator, a: Array, points: Array, wanted: tuple[Derivative, ...]
) -> None:
    """Each derivative against the central difference of the one with one letter less, down to the value itself."""
    step = 1e-5
    actual = operator.derivatives(a, points, wanted)
    np.testing.assert_allclose(actual[()], operator(a, points), rtol=0, atol=1e-12)
    for word in wanted:
        for i in range(len(word)):
            rest, letter = word[:i] + word[i + 1 :], word[i]
            shift = step * jnp.eye(points.shape[1])[letter]
            above, below = (operator.derivatives(a, points + s, [rest])[rest] for s in (shift, -shift))
            # Truncation h^2 / 6 * (third derivative) is the larger part: 1e-11 times numbers of up to 10^4 here.
            scale = max(1.0, float(jnp.abs(actual[word]).max()))
            np.testing.assert_allclose(actual[word], (above - below) / (2 * step), rtol=0, atol=3e-8 * scale)


# ------------------------------------------------------------------------------------------------------ Taylor rules


def test_tanh_polynomials_by_hand() -> None:
    # tanh' = 1 - h^2, then (1 - h^2) times: -2h, 6h^2 - 2, -24h^3 + 16h, 120h^4 - 120h^2 + 16
    known = [(1,), (0, -2), (-2, 0, 6), (0, 16, 0, -24), (16, 0, -120, 0, 120)]
    assert [jets._tanh_polynomial(order) for order in range(1, 6)] == known


def test_tanh_jet_of_the_identity_gives_the_derivatives_of_tanh() -> None:
    with jax.enable_x64(True):
        x = jnp.linspace(-2, 2, 9)[:, None]
        result = jets.tanh(jets.seed(x), jets.closure([(0,) * 4]))
        h = np.tanh(np.asarray(x))
        expected = [h, 1 - h**2, (1 - h**2) * -2 * h, (1 - h**2) * (6 * h**2 - 2), (1 - h**2) * (16 * h - 24 * h**3)]
        for order, values in enumerate(expected):
            np.testing.assert_allclose(result[(0,) * order], values, rtol=0, atol=1e-14)


def test_tanh_polynomials_against_nested_differentiation() -> None:
    with jax.enable_x64(True):
        function, x = jnp.tanh, 0.37
        h = float(np.tanh(x))
        for order in range(1, 8):
            function = jax.grad(function)
            value = (1 - h * h) * np.polynomial.polynomial.polyval(h, jets._tanh_polynomial(order))
            np.testing.assert_allclose(function(x), value, rtol=1e-11)


def test_closure_holds_what_the_chain_rule_needs() -> None:
    assert jets.closure([()]) == ((),)
    assert jets.closure([(0, 0)]) == ((), (0,), (0, 0))
    assert jets.closure([(0, 1)]) == ((), (0,), (1,), (0, 1))
    assert jets.closure([(0, 0, 1)]) == ((), (0,), (1,), (0, 0), (0, 1), (0, 0, 1))
    assert jets.closure([(1,), (0, 0)]) == ((), (0,), (1,), (0, 0))


def test_closure_is_closed_and_sorted_by_order() -> None:
    once = jets.closure([(0, 0, 1), (1, 2)])
    assert jets.closure(once) == once
    assert [len(word) for word in once] == sorted(len(word) for word in once)


def test_set_partitions_are_counted_by_the_bell_numbers() -> None:
    assert [len(list(jets._partitions((0,) * n))) for n in range(6)] == [1, 1, 2, 5, 15, 52]


# --------------------------------------------------------------------------------------------------------- DeepONet


@pytest.mark.parametrize("coordinates, order", [(1, 4), (2, 3), (3, 2)])
@pytest.mark.parametrize("depth", [2, 4])
def test_taylor_derivatives_equal_nested_forward_mode(coordinates: int, order: int, depth: int) -> None:
    wanted = words(coordinates, order)
    with jax.enable_x64(True):
        operator = perturbed(DeepONet(6, coordinates, width=10, depth=depth, key=jax.random.key(0)))
        a, points = batch(6), locations(coordinates)
        taylor = operator.derivatives(a, points, wanted)
        nested = AbstractOperator.on(operator, [Query(points, wanted)])(a)[0]
        assert set(taylor) == set(nested) == set(wanted)
        for word in wanted:
            assert float(jnp.abs(nested[word]).max()) > 1e-3  # nothing to compare would prove nothing
            scale = max(1.0, float(jnp.abs(nested[word]).max()))
            np.testing.assert_allclose(taylor[word], nested[word], rtol=0, atol=1e-10 * scale, err_msg=str(word))


@pytest.mark.parametrize("coordinates, order", [(1, 4), (2, 3)])
def test_taylor_derivatives_against_finite_differences(coordinates: int, order: int) -> None:
    with jax.enable_x64(True):
        operator = perturbed(DeepONet(6, coordinates, width=10, key=jax.random.key(1)))
        assert_matches_differences(operator, batch(6), locations(coordinates), words(coordinates, order))


def test_derivatives_do_not_depend_on_what_else_is_wanted() -> None:
    with jax.enable_x64(True):
        operator = perturbed(DeepONet(6, 2, width=10, key=jax.random.key(2)))
        a, points = batch(6), locations(2)
        together = operator.derivatives(a, points, words(2, 3))
        for word in words(2, 3):
            alone = operator.derivatives(a, points, [word])
            assert list(alone) == [word]
            np.testing.assert_allclose(alone[word], together[word], rtol=0, atol=1e-12)


def test_deeponet_value_is_the_inner_product_of_branch_and_trunk() -> None:
    def forward(network: MLP, x: np.ndarray) -> np.ndarray:
        *hidden, last = network.layers
        for layer in hidden:
            x = np.tanh(x @ np.asarray(layer.weight) + np.asarray(layer.bias))
        return x @ np.asarray(last.weight) + np.asarray(last.bias)

    with jax.enable_x64(True):
        operator = perturbed(DeepONet(6, 2, width=10, key=jax.random.key(3)))
        a, points = batch(6), locations(2)
        expected = np.array(
            [
                [np.dot(forward(operator.branch, f), forward(operator.trunk, p)) + float(operator.bias) for p in points]
                for f in np.asarray(a)
            ]
        )
        np.testing.assert_allclose(operator(a, points), expected, rtol=0, atol=1e-12)
        np.testing.assert_allclose(operator.derivatives(a, points, [()])[()], expected, rtol=0, atol=1e-12)


def test_output_bias_is_in_the_value_alone() -> None:
    with jax.enable_x64(True):
        operator = perturbed(DeepONet(6, 2, width=10, key=jax.random.key(4)))
        shifted = eqx.tree_at(lambda o: o.bias, operator, operator.bias + 2.5)
        a, points, wanted = batch(6), locations(2), words(2, 2)
        before, after = operator.derivatives(a, points, wanted), shifted.derivatives(a, points, wanted)
        np.testing.assert_allclose(after[()] - before[()], 2.5, rtol=0, atol=1e-12)
        for word in wanted[1:]:
            np.testing.assert_array_equal(after[word], before[word])


def test_frozen_points_serve_every_input() -> None:
    with jax.enable_x64(True):
        operator = perturbed(DeepONet(6, 2, width=10, key=jax.random.key(5)))
        queries = [Query(locations(2, 3), ((), (0, 0))), Query(locations(2, 4)[:2], ((1,),))]
        evaluate = operator.on(queries)
        a = batch(6)
        together = evaluate(a)
        for query, fields in zip(queries, together, strict=True):
            assert tuple(fields) == query.wanted
            for word, u in fields.items():
                assert u.shape == (3, len(query.points))
                np.testing.assert_allclose(u, operator.derivatives(a, *query)[word], rtol=0, atol=1e-13)
        for i in range(3):
            alone = evaluate(a[i : i + 1])
            for all_fields, one_field in zip(together, alone, strict=True):
                for word in all_fields:
                    np.testing.assert_allclose(one_field[word][0], all_fields[word][i], rtol=0, atol=1e-13)


def test_derivatives_are_differentiable_in_the_parameters_and_the_input() -> None:
    with jax.enable_x64(True):
        operator = perturbed(DeepONet(6, 2, width=10, key=jax.random.key(6)))
        a, points = batch(6), locations(2)

        @eqx.filter_jit
        def loss(operator: AbstractOperator, a: Array) -> Array:
            fields = operator.derivatives(a, points, [(), (1,), (0, 0)])
            return jnp.mean((fields[(1,)] - 0.1 * fields[(0, 0)] + fields[()] ** 2) ** 2)

        slopes, slope_a = eqx.filter_grad(lambda both: loss(*both))((operator, a))
        step = 1e-6
        direction = perturbed(jax.tree.map(jnp.zeros_like, operator), seed=7)
        moved = [jax.tree.map(lambda p, d, s=s: p + s * d, operator, direction) for s in (step, -step)]
        expected = (loss(moved[0], a) - loss(moved[1], a)) / (2 * step)
        actual = sum(jax.tree.leaves(jax.tree.map(lambda g, d: jnp.sum(g * d), slopes, direction)))
        # Rounding 1e-16 / 1e-6 and truncation 1e-12 leave about nine digits.
        np.testing.assert_allclose(actual, expected, rtol=1e-6)
        along = batch(6, seed=8)
        expected = (loss(operator, a + step * along) - loss(operator, a - step * along)) / (2 * step)
        np.testing.assert_allclose(jnp.sum(slope_a * along), expected, rtol=1e-6)


# --------------------------------------------------------------------------------------------------- Initialisation


def test_deeponet_sizes_and_parameter_count() -> None:
    operator = DeepONet(101, 2, width=128, key=jax.random.key(0))
    branch = [layer.weight.shape for layer in operator.branch.layers]
    trunk = [layer.weight.shape for layer in operator.trunk.layers]
    assert branch == [(101, 128), (128, 128), (128, 128), (128, 128)]
    assert trunk == [(2, 128), (128, 128), (128, 128), (128, 128)]
    # branch 101*128 + 128 + 3 * (128^2 + 128) = 62592, trunk 2*128 + 128 + 3 * (128^2 + 128) = 49920, and b_0
    assert sum(p.size for p in jax.tree.leaves(operator)) == 62592 + 49920 + 1


def test_modified_deeponet_parameter_count() -> None:
    operator = ModifiedDeepONet(101, 2, width=128, key=jax.random.key(0))
    # a DeepONet and its two encoders, 101*128 + 128 and 2*128 + 128
    assert sum(p.size for p in jax.tree.leaves(operator)) == 112513 + 13056 + 384


@pytest.mark.parametrize("fan_in, fan_out", [(101, 128), (128, 128), (2, 128), (30, 10)])
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


@pytest.mark.parametrize("depth", [2, 4, 5])
def test_modified_deeponet_equals_its_formula(depth: int) -> None:
    def affine(layer: Dense, x: np.ndarray) -> np.ndarray:
        return x @ np.asarray(layer.weight) + np.asarray(layer.bias)

    with jax.enable_x64(True):
        operator = perturbed(ModifiedDeepONet(6, 2, width=7, depth=depth, key=jax.random.key(7)))
        a, points = batch(6), locations(2)
        u = np.asarray(operator(a, points))
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


@pytest.mark.parametrize("coordinates, order", [(1, 3), (2, 2)])
def test_modified_deeponet_derivatives_against_finite_differences(coordinates: int, order: int) -> None:
    with jax.enable_x64(True):
        operator = perturbed(ModifiedDeepONet(6, coordinates, width=7, key=jax.random.key(8)))
        assert_matches_differences(operator, batch(6), locations(coordinates), words(coordinates, order))


def test_modified_deeponet_treats_inputs_independently() -> None:
    with jax.enable_x64(True):
        operator = perturbed(ModifiedDeepONet(6, 2, width=7, key=jax.random.key(9)))
        a, points = batch(6), locations(2)
        u = operator(a, points)
        for i in range(3):
            np.testing.assert_allclose(operator(a[i : i + 1], points)[0], u[i], rtol=0, atol=1e-13)


# ------------------------------------------------------------------------------------------------ Function operator


def test_function_operator_has_exact_derivatives() -> None:
    def solution(a: Array, points: Array) -> Array:
        x, t = points[:, 0], points[:, 1]
        return a[:, :1] * jnp.sin(2 * x) * jnp.exp(-3 * t) + a[:, 1:] * x**3 * t

    with jax.enable_x64(True):
        a, points = batch(2), locations(2)
        fields = FunctionOperator(solution).derivatives(a, points, words(2, 3))
        a, (x, t) = np.asarray(a), np.asarray(points).T
        c, d, decay = a[:, :1], a[:, 1:], np.exp(-3 * t)
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
