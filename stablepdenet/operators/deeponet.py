"""The DeepONet."""

from __future__ import annotations

from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from stablepdenet.functions.domain import Box, Interval
from stablepdenet.operators.base import AbstractBasisOperator, Evaluator, Fields, Query
from stablepdenet.operators.embeddings import EMBEDDINGS, PLAIN
from stablepdenet.operators.jets import SUM, Derivative, Jet, Taylor
from stablepdenet.operators.mlp import MLP


class DeepONet(AbstractBasisOperator):
    """G(a)(xi) = sum_j b_j(a) t_j(xi) + b_0 (eq:deeponet).

    Branch b and trunk t are networks of `depth` weight matrices with `width` neurons each; the latent dimension p is
    `width`. Where the solution has several components, so has each t_j, and each component its own b_0. The trunk sees
    an `embedding` of the coordinates, by its name in `EMBEDDINGS`, as they run from 0 to 1 over the `domain`. Its last
    layer is linear, or has a tanh too (`tanh_trunk`, as in DeepXDE). All inputs share the points, so derivatives belong
    to the trunk: one Taylor pass serves every input, and each derivative of u is one matrix product with the branch
    output.
    """

    branch: MLP
    trunk: MLP
    bias: Float[Array, " *components"]
    embedding: str = eqx.field(static=True)
    components: int = eqx.field(static=True)
    intervals: tuple[Interval, ...] | None = eqx.field(static=True)
    tanh_trunk: bool = eqx.field(static=True)

    def __init__(
        self,
        inputs: int,
        coordinates: int,
        *,
        width: int = 128,
        depth: int = 4,
        embedding: str = PLAIN,
        components: int = 1,
        domain: Box | None = None,
        tanh_trunk: bool = False,
        key: PRNGKeyArray,
    ):
        branch_key, trunk_key = jax.random.split(key)
        seen = EMBEDDINGS[embedding](jnp.zeros((1, coordinates))).shape[1]
        self.branch = MLP([inputs] + [width] * depth, key=branch_key)
        self.trunk = MLP([seen] + [width] * (depth - 1) + [width * components], key=trunk_key)
        self.bias = jnp.zeros(() if components == 1 else components)
        self.embedding, self.components, self.tanh_trunk = embedding, components, tanh_trunk
        unit = domain is None or all(interval == (0.0, 1.0) for interval in domain.intervals)
        self.intervals = None if unit or domain is None else domain.intervals

    def coefficients(self, a: Float[Array, "batch m"]) -> Float[Array, "batch k"]:
        return jnp.concatenate([self.branch(a), jnp.broadcast_to(self.bias, (len(a), self.components))], axis=1)

    def basis(self, points: Float[Array, "n dim"]) -> Float[Array, "n k *components"]:
        features = self.trunk(self._seen(points))
        features = jnp.tanh(features) if self.tanh_trunk else features
        if self.components == 1:
            return jnp.concatenate([features, jnp.ones_like(features[:, :1])], axis=1)
        own = features.reshape(len(points), self.components, -1).swapaxes(1, 2)
        constants = jnp.broadcast_to(jnp.eye(self.components, dtype=own.dtype), (len(points), *[self.components] * 2))
        return jnp.concatenate([own, constants], axis=1)

    def _last(self, component: int) -> tuple[Float[Array, "hidden width"], Float[Array, " width"]]:
        """The trunk's last layer, as far as it makes a component."""
        last, width = self.trunk.layers[-1], self.branch.layers[-1].bias.shape[0]
        own = slice(component * width, (component + 1) * width)
        return (last.weight[:, own], last.bias[own]) if self.components > 1 else (last.weight, last.bias)

    def _after(self, component: int) -> tuple[Float[Array, "hidden width"] | None, Float[Array, " width"]]:
        """The linear layer after what `_hidden` gives: weight and bias; no weight and zero where there is none."""
        weight, bias = self._last(component)
        return (None, jnp.zeros_like(bias)) if self.tanh_trunk else (weight, bias)

    def _hidden(self, query: Query) -> Jet:
        """What is asked for, of the trunk's last layer that has a tanh."""
        rules = Taylor(jnp.asarray(query.points), query.wanted, query.combination)
        plain = self.embedding == PLAIN and self.intervals is None
        further = [self._last(query.component)] if self.tanh_trunk else []
        return self.trunk.hidden_jet(rules, rules.seed() if plain else rules.embed(self._seen), *further)

    def _seen(self, points: Float[Array, "n dim"]) -> Float[Array, "n features"]:
        """What the trunk sees of the points."""
        if self.intervals is not None:
            low, high = jnp.asarray(self.intervals, points.dtype).T
            points = (points - low) / (high - low)
        return EMBEDDINGS[self.embedding](points)

    def features(self, query: Query) -> Fields:
        weight, bias = self._after(query.component)
        found = {index: _through(weight, entry) for index, entry in self._hidden(query).items()}
        own = jnp.eye(self.components, dtype=bias.dtype)[:, query.component]

        def constants(index: Derivative) -> Float[Array, "_ n"]:
            share = query.combination.get((), 0.0) if index == SUM else float(not index)
            ones = jnp.broadcast_to(jnp.asarray(share, bias.dtype), (1, len(query.points)))
            return jnp.concatenate([bias[:, None] * ones, own[:, None] * ones])

        return {
            index: jnp.pad(entry, ((0, self.components), (0, 0))) + constants(index) for index, entry in found.items()
        }

    def prepare(self, queries: Sequence[Query]) -> Evaluator:
        # u = b . (W^T h + c) + b_0 = (W b) . h + (b . c + b_0), with h the trunk's last hidden layer. W is applied to
        # the inputs' side where they are clearly fewer than points. Else it is applied to the points' side: at equal
        # numbers a training step does not care, and an attack needs that once. The constant is the value's alone.
        lasts = [self._after(query.component) for query in queries]
        hidden = [self._hidden(query) for query in queries]
        whole = [
            {index: _through(weight, entry) for index, entry in jet.items()}
            for jet, (weight, _) in zip(hidden, lasts, strict=True)
        ]
        columns = sum(entry.shape[1] for jet in hidden for entry in jet.values())

        def evaluate(a: Float[Array, "batch m"]) -> list[Fields]:
            outputs = self.branch(a)
            few = 2 * len(a) < columns and not self.tanh_trunk
            used = {query.component: last for query, last in zip(queries, lasts, strict=True)}
            factors = {number: _factors(outputs, weight if few else None) for number, (weight, _) in used.items()}
            constants = {
                number: (outputs @ bias + (self.bias if self.components == 1 else self.bias[number]))[:, None]
                for number, (_, bias) in used.items()
            }

            def field(query: Query, index: Derivative, entry: Array) -> Float[Array, "batch n"]:
                share = query.combination.get((), 0.0) if index == SUM else float(not index)
                constant = jnp.asarray(share, entry.dtype) * constants[query.component] if np.any(share) else 0.0
                return factors[query.component] @ entry + constant

            return [
                {index: field(query, index, entry) for index, entry in jet.items()}
                for query, jet in zip(queries, hidden if few else whole, strict=True)
            ]

        return evaluate


def _through(weight: Float[Array, "hidden width"] | None, entry: Float[Array, "hidden n"]) -> Float[Array, "width n"]:
    """A jet's entry after a layer without bias, if there is one."""
    return entry if weight is None else (entry.T @ weight).T


def _factors(
    outputs: Float[Array, "batch width"], weight: Float[Array, "hidden width"] | None
) -> Float[Array, "batch hidden"]:
    """What to multiply a jet before a layer by, instead of the jet after it by the outputs."""
    return outputs if weight is None else outputs @ weight.T
