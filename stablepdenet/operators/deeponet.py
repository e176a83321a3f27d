"""The DeepONet."""

from __future__ import annotations

from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from stablepdenet.operators.base import AbstractBasisOperator, Evaluator, Fields, Query
from stablepdenet.operators.embeddings import EMBEDDINGS, PLAIN
from stablepdenet.operators.jets import SUM, Derivative, Jet, Taylor
from stablepdenet.operators.mlp import MLP


class DeepONet(AbstractBasisOperator):
    """G(a)(xi) = sum_j b_j(a) t_j(xi) + b_0 (eq:deeponet).

    Branch b and trunk t are networks of `depth` weight matrices with `width` neurons each; the latent dimension p is
    `width`. The trunk sees an `embedding` of the coordinates, by its name in `EMBEDDINGS`. All inputs share the points,
    so derivatives belong to the trunk: one Taylor pass serves every input, and each derivative of u is one matrix
    product with the branch output.
    """

    branch: MLP
    trunk: MLP
    bias: Float[Array, ""]
    embedding: str = eqx.field(static=True)

    def __init__(
        self,
        inputs: int,
        coordinates: int,
        *,
        width: int = 128,
        depth: int = 4,
        embedding: str = PLAIN,
        key: PRNGKeyArray,
    ):
        branch_key, trunk_key = jax.random.split(key)
        seen = EMBEDDINGS[embedding](jnp.zeros((1, coordinates))).shape[1]
        self.branch = MLP([inputs] + [width] * depth, key=branch_key)
        self.trunk = MLP([seen] + [width] * depth, key=trunk_key)
        self.bias = jnp.zeros(())
        self.embedding = embedding

    def coefficients(self, a: Float[Array, "batch m"]) -> Float[Array, "batch k"]:
        return jnp.concatenate([self.branch(a), jnp.broadcast_to(self.bias, (len(a), 1))], axis=1)

    def basis(self, points: Float[Array, "n dim"]) -> Float[Array, "n k"]:
        features = self.trunk(EMBEDDINGS[self.embedding](points))
        return jnp.concatenate([features, jnp.ones_like(features[:, :1])], axis=1)

    def _hidden(self, query: Query) -> Jet:
        """What is asked for, of the trunk's last hidden layer."""
        rules = Taylor(jnp.asarray(query.points), query.wanted, query.combination)
        plain = self.embedding == PLAIN
        return self.trunk.hidden_jet(rules, rules.seed() if plain else rules.embed(EMBEDDINGS[self.embedding]))

    def features(self, query: Query) -> Fields:
        last = self.trunk.layers[-1]
        found = {word: (entry.T @ last.weight).T for word, entry in self._hidden(query).items()}

        def constants(word: Derivative) -> Float[Array, "_ n"]:
            share = query.combination.get((), 0.0) if word == SUM else float(not word)
            ones = jnp.broadcast_to(jnp.asarray(share, last.bias.dtype), (1, len(query.points)))
            return jnp.concatenate([last.bias[:, None] * ones, ones])

        return {word: jnp.pad(entry, ((0, 1), (0, 0))) + constants(word) for word, entry in found.items()}

    def on(self, queries: Sequence[Query]) -> Evaluator:
        # u = b . (W^T h + c) + b_0 = (W b) . h + (b . c + b_0), with h the trunk's last hidden layer. W is applied to
        # the inputs' side where they are clearly fewer than points. Else it is applied to the points' side: at equal
        # numbers a training step does not care, and an attack needs that once. The constant is the value's alone.
        last = self.trunk.layers[-1]
        hidden = [self._hidden(query) for query in queries]
        whole = [{word: (entry.T @ last.weight).T for word, entry in jet.items()} for jet in hidden]
        columns = sum(entry.shape[1] for jet in hidden for entry in jet.values())

        def evaluate(a: Float[Array, "batch m"]) -> list[Fields]:
            outputs = self.branch(a)
            constant = (outputs @ last.bias + self.bias)[:, None]
            few = 2 * len(a) < columns
            factors, features = (outputs @ last.weight.T, hidden) if few else (outputs, whole)

            def field(query: Query, word: Derivative, entry: Array) -> Float[Array, "batch n"]:
                share = query.combination.get((), 0.0) if word == SUM else float(not word)
                return factors @ entry + (jnp.asarray(share, entry.dtype) * constant if np.any(share) else 0.0)

            return [
                {word: field(query, word, entry) for word, entry in jet.items()}
                for query, jet in zip(queries, features, strict=True)
            ]

        return evaluate
