"""The fully connected network that branch and trunk are made of."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from stablepdenet.errors import ConfigError
from stablepdenet.operators.jets import Jet, Taylor


class Dense(eqx.Module):
    """x W + b with W from the Glorot normal law and b = 0."""

    weight: Float[Array, "fan_in fan_out"]
    bias: Float[Array, " fan_out"]

    def __init__(self, fan_in: int, fan_out: int, *, key: PRNGKeyArray):
        self.weight = jax.nn.initializers.glorot_normal()(key, (fan_in, fan_out))
        self.bias = jnp.zeros(fan_out)

    def __call__(self, x: Float[Array, "*rows fan_in"]) -> Float[Array, "*rows fan_out"]:
        return x @ self.weight + self.bias


class MLP(eqx.Module):
    """tanh layers and a linear last one; `sizes` lists the widths from input to output."""

    layers: tuple[Dense, ...]

    def __init__(self, sizes: Sequence[int], *, key: PRNGKeyArray):
        if len(sizes) < 3:
            raise ConfigError(f"operator.depth = {len(sizes) - 1} must be at least 2: a network needs a hidden layer.")
        keys = jax.random.split(key, len(sizes) - 1)
        self.layers = tuple(Dense(*pair, key=k) for pair, k in zip(pairwise(sizes), keys, strict=True))

    def __call__(self, x: Float[Array, "*rows fan_in"]) -> Float[Array, "*rows fan_out"]:
        for layer in self.layers[:-1]:
            x = jnp.tanh(layer(x))
        return self.layers[-1](x)

    def hidden_jet(self, rules: Taylor, jet: Jet, *further: tuple[Array, Array]) -> Jet:
        """The derivatives of the last hidden layer (features x points), from those of what the network sees; `further`
        tanh layers, of weights and biases, come after it."""
        hidden = [(layer.weight, layer.bias) for layer in self.layers[:-1]]
        for weight, bias in (*hidden, *further):
            jet = rules.tanh(rules.linear(jet, weight, bias))
        return rules.result(jet)
