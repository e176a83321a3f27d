"""The DeepONet."""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from stablepdenet.operators.base import AbstractBasisOperator, Evaluator, Fields, Query
from stablepdenet.operators.mlp import MLP


class DeepONet(AbstractBasisOperator):
    """G(a)(xi) = sum_j b_j(a) t_j(xi) + b_0 (eq:deeponet).

    Branch b and trunk t are networks of `depth` weight matrices with `width` neurons each; the latent dimension p is
    `width`. All inputs share the points, so derivatives belong to the trunk: one Taylor pass serves every input, and
    each derivative of u is one matrix product with the branch output.
    """

    branch: MLP
    trunk: MLP
    bias: Float[Array, ""]

    def __init__(self, inputs: int, coordinates: int, *, width: int = 128, depth: int = 4, key: PRNGKeyArray):
        branch_key, trunk_key = jax.random.split(key)
        self.branch = MLP([inputs] + [width] * depth, key=branch_key)
        self.trunk = MLP([coordinates] + [width] * depth, key=trunk_key)
        self.bias = jnp.zeros(())

    def coefficients(self, a: Float[Array, "batch m"]) -> Float[Array, "batch k"]:
        return jnp.concatenate([self.branch(a), jnp.broadcast_to(self.bias, (len(a), 1))], axis=1)

    def basis(self, points: Float[Array, "n dim"]) -> Float[Array, "n k"]:
        features = self.trunk(points)
        return jnp.concatenate([features, jnp.ones_like(features[:, :1])], axis=1)

    def on(self, queries: Sequence[Query]) -> Evaluator:
        features = [self.trunk.jet(jnp.asarray(query.points), query.wanted) for query in queries]

        def evaluate(a: Float[Array, "batch m"]) -> list[Fields]:
            coefficients = self.branch(a)
            fields = [{word: coefficients @ entry.T for word, entry in jet.items()} for jet in features]
            # The output bias b_0 is constant in xi: it belongs to the value alone.
            return [{word: u if word else u + self.bias for word, u in field.items()} for field in fields]

        return evaluate
