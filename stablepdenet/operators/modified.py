"""The modified DeepONet."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from stablepdenet.operators.base import AbstractOperator
from stablepdenet.operators.mlp import Dense


class ModifiedDeepONet(AbstractOperator):
    """The gated DeepONet of Wang, Wang and Perdikaris (2022, "Improved architectures and training algorithms for deep
    operator networks").

    Two encoders U = tanh(E_a a), V = tanh(E_xi xi) are mixed into every hidden layer of both networks by gates Z,

        H <- (1 - Z) * U + Z * V,   Z = tanh(W H + b),

    and the output is the inner product of the two last layers. The mixing ties branch and trunk together for every pair
    (input, point), so a step costs batch * n network passes, and derivatives come from the base class's nested forward
    mode.
    """

    encode_input: Dense
    encode_point: Dense
    branch: tuple[Dense, ...]
    trunk: tuple[Dense, ...]
    bias: Float[Array, ""]

    def __init__(self, inputs: int, coordinates: int, *, width: int = 128, depth: int = 4, key: PRNGKeyArray):
        keys = iter(jax.random.split(key, 2 * depth + 2))
        self.encode_input = Dense(inputs, width, key=next(keys))
        self.encode_point = Dense(coordinates, width, key=next(keys))
        self.branch = tuple(Dense(width if i else inputs, width, key=next(keys)) for i in range(depth))
        self.trunk = tuple(Dense(width if i else coordinates, width, key=next(keys)) for i in range(depth))
        self.bias = jnp.zeros(())

    def __call__(self, a: Float[Array, "batch m"], points: Float[Array, "n dim"]) -> Float[Array, "batch n"]:
        of_input = jnp.tanh(self.encode_input(a))[:, None, :]
        of_point = jnp.tanh(self.encode_point(points))[None, :, :]
        h_input = jnp.tanh(self.branch[0](a))[:, None, :]
        h_point = jnp.tanh(self.trunk[0](points))[None, :, :]
        for gate_input, gate_point in zip(self.branch[1:-1], self.trunk[1:-1], strict=True):
            h_input = _mix(gate_input, h_input, of_input, of_point)
            h_point = _mix(gate_point, h_point, of_input, of_point)
        return jnp.sum(self.branch[-1](h_input) * self.trunk[-1](h_point), axis=-1) + self.bias


def _mix(gate: Dense, hidden: Array, of_input: Array, of_point: Array) -> Float[Array, "batch n width"]:
    z = jnp.tanh(gate(hidden))
    return (1.0 - z) * of_input + z * of_point
