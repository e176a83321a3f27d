"""The Taylor rules by hand."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from stablepdenet.operators import (
    jets,
)


def test_tanh_polynomials_by_hand() -> None:
    # tanh' = 1 - h^2, then (1 - h^2) times: -2h, 6h^2 - 2, -24h^3 + 16h, 120h^4 - 120h^2 + 16
    known = [(1,), (0, -2), (-2, 0, 6), (0, 16, 0, -24), (16, 0, -120, 0, 120)]
    assert [jets._tanh_polynomial(order) for order in range(1, 6)] == known


def test_tanh_jet_of_the_identity_gives_the_derivatives_of_tanh() -> None:
    with jax.enable_x64(True):
        x = jnp.linspace(-2, 2, 9)[:, None]
        rules = jets.Taylor(x, [(0,) * order for order in range(5)], {})
        result = rules.result(rules.tanh(rules.seed()))
        h = np.tanh(np.asarray(x))
        expected = [h, 1 - h**2, (1 - h**2) * -2 * h, (1 - h**2) * (6 * h**2 - 2), (1 - h**2) * (16 * h - 24 * h**3)]
        for order, values in enumerate(expected):
            np.testing.assert_allclose(result[(0,) * order], values.T, rtol=0, atol=1e-14)


def test_closure_holds_what_the_chain_rule_needs() -> None:
    assert jets.closure([()], {}) == ((),)
    assert jets.closure([(0, 0)], {}) == ((), (0,), (0, 0))
    assert jets.closure([(0, 1)], {}) == ((), (0,), (1,), (0, 1))
    assert jets.closure([(0, 0, 1)], {}) == ((), (0,), (1,), (0, 0), (0, 1), (0, 0, 1))
    assert jets.closure([(1,), (0, 0)], {}) == ((), (0,), (1,), (0, 0))


def test_a_combination_needs_only_what_is_below_its_words() -> None:
    heat = {(1,): 1.0, (0, 0): -0.01}
    assert jets.closure([], heat) == ((), (0,))
    assert jets.closure([(1,)], heat) == ((), (0,), (1,))
    assert jets.closure([], {(): 1.0}) == ((),)


def test_closure_is_closed_and_sorted_by_order() -> None:
    once = jets.closure([(0, 0, 1), (1, 2)], {})
    assert jets.closure(once, {}) == once
    assert [len(word) for word in once] == sorted(len(word) for word in once)


def test_set_partitions_are_counted_by_the_bell_numbers() -> None:
    assert [len(list(jets._partitions((0,) * n))) for n in range(6)] == [1, 1, 2, 5, 15, 52]
