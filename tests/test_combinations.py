"""Combinations of derivatives in one piece, in both layouts."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array
from test_operators import batch, build, derivatives, words

from stablepdenet.operators import SUM, AbstractOperator, DeepONet, Derivative, ModifiedDeepONet, Query
from stablepdenet.operators.jets import MANY


@pytest.mark.parametrize(
    ("kind", "points"),
    [
        (DeepONet, 5),
        (DeepONet, MANY),
        (ModifiedDeepONet, 5),
        pytest.param(ModifiedDeepONet, MANY, marks=pytest.mark.long),
    ],
)
def test_a_combination_is_the_sum_of_its_derivatives(kind: type, points: int) -> None:
    generator = np.random.default_rng(6)
    with jax.enable_x64(True):
        operator, a = build(kind, 6, 2, seed=6), batch(6)
        where = jnp.asarray(generator.uniform(size=(points, 2)))
        varying = generator.normal(size=points)
        combinations: list[dict[Derivative, float | np.ndarray]] = [
            {(1,): 1.0, (0, 0): -0.01},  # heat
            {(): -2.5, (0, 0): varying, (0, 1): 0.5},
            {(): varying, (1,): varying},
            {(): 3.0},
            {(0, 0, 1): 1.0, (1, 1): -2.0},
        ]
        for combination in combinations:
            query = Query(where, ((0,), ()), combination)
            found = eqx.filter_jit(lambda o, a, query=query: o.prepare([query])(a)[0])(operator, a)
            parts = derivatives(operator, a, where, words(2, 3))
            expected = np.sum([coefficient * parts[word] for word, coefficient in combination.items()], axis=0)
            assert found.keys() == {(0,), (), SUM}
            np.testing.assert_allclose(found[SUM], expected, rtol=0, atol=1e-11 * max(1.0, np.abs(expected).max()))
            np.testing.assert_allclose(found[(0,)], parts[(0,)], rtol=0, atol=1e-11)


@pytest.mark.parametrize("points", [5, MANY])
def test_gradients_in_the_weights_agree_with_nested_forward_mode(points: int) -> None:
    with jax.enable_x64(True):
        operator, a = build(DeepONet, 6, 2, seed=7), batch(6)
        where = jnp.asarray(np.random.default_rng(7).uniform(size=(points, 2)))
        query = Query(where, ((), (0,)), {(1,): 1.0, (0, 0): -0.01})

        def loss(operator: DeepONet, on) -> Array:
            u = on(operator, [query])(a)[0]
            return jnp.mean((u[SUM] + u[()] * u[(0,)]) ** 2)

        ours = eqx.filter_jit(eqx.filter_grad(lambda o: loss(o, DeepONet.prepare)))(operator)
        nested = eqx.filter_jit(eqx.filter_grad(lambda o: loss(o, AbstractOperator.prepare)))(operator)
        for one, other in zip(jax.tree.leaves(ours), jax.tree.leaves(nested), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-11)
