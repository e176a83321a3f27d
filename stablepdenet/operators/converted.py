"""Networks from PyTorch as networks in JAX: their weights are copied, and PyTorch is not called again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy import ndarray

from stablepdenet.errors import ConfigError
from stablepdenet.operators.base import BasisOperator

# What a layer without weights may be. It is known by its values, so it may be a module, a function or a lambda.
ACTIVATIONS: tuple[Callable[[Array], Array], ...] = (
    lambda x: x,
    jnp.tanh,
    jnp.sin,
    jax.nn.relu,
    jax.nn.sigmoid,
    jax.nn.silu,
    jax.nn.softplus,
    jax.nn.elu,
    jax.nn.selu,
    partial(jax.nn.gelu, approximate=False),
    partial(jax.nn.gelu, approximate=True),
)
NAMES = "the identity, tanh, sin, relu, sigmoid, silu, softplus, elu, selu or gelu"
# How near an activation must be to one of these, and a whole network, where rounding adds up, to its layers.
SAME, SAME_NETWORK = 1e-6, 1e-4


class Affine(eqx.Module):
    """x W + b."""

    weight: Float[Array, "fan_in fan_out"]
    bias: Float[Array, " fan_out"]

    def __call__(self, x: Float[Array, "rows fan_in"]) -> Float[Array, "rows fan_out"]:
        return x @ self.weight + self.bias


class Layers(eqx.Module):
    """One layer after another, and `further` outputs that are the same everywhere."""

    layers: tuple[Callable[[Array], Array], ...]
    further: Float[Array, " _"]

    def __call__(self, x: Float[Array, "rows fan_in"]) -> Float[Array, "rows fan_out"]:
        for layer in self.layers:
            x = layer(x)
        return jnp.concatenate([x, jnp.broadcast_to(self.further, (len(x), len(self.further)))], axis=1)


def from_torch(branch: Any, trunk: Any, *, last: Callable[[Any], Any] | None = None, bias: Any = None) -> BasisOperator:
    """A DeepONet of PyTorch in JAX: u(xi) = sum_j branch(a)_j last(trunk(xi))_j + bias.

    Branch and trunk are made of linear layers and activations: a `torch.nn.Sequential`, or a module with `linears` and
    `activation` as DeepXDE's. DeepXDE also has the activation after the trunk's last layer:

        operator = sp.from_torch(net.branch, net.trunk, last=torch.tanh, bias=net.b)
    """
    own, seen = _converted(branch, "branch"), _converted(trunk, "trunk")
    if last is not None:
        seen = (*seen, _activation(last, "last"))
    widths = [jax.eval_shape(Layers(part, jnp.zeros(0)), _like_input(part)).shape[1] for part in (own, seen)]
    if widths[0] != widths[1]:
        raise ConfigError(f"The branch gives {widths[0]} numbers and the trunk {widths[1]}: they must be as many.")
    constant = jnp.zeros(0) if bias is None else _array(bias).reshape(-1)
    if len(constant) > 1:
        raise ConfigError(f"The bias has {len(constant)} numbers: it must be one, as the solution has one component.")
    return BasisOperator(Layers(own, constant), Layers(seen, jnp.ones_like(constant)))


def _converted(module: Any, name: str) -> tuple[Callable[[Array], Array], ...]:
    """A network's layers, if they are all that it does: not if it has hooks, or transforms what comes in or out."""
    layers = tuple(_layers(module, name))
    x = np.random.default_rng(0).normal(size=_like_input(layers).shape)
    expected = _in_torch(module, x)
    found = np.asarray(Layers(layers, jnp.zeros(0))(jnp.asarray(x)))
    if expected is None or not _same(found, expected, SAME_NETWORK):
        raise ConfigError(
            f"{_called(name, module)} gives something else than its layers one after another: write what else it does "
            "in JAX, as a BasisOperator, or give the whole model to `refine`."
        )
    return layers


def _layers(module: Any, name: str) -> Iterator[Callable[[Array], Array]]:
    nn = import_module("torch.nn")
    if isinstance(module, nn.Linear):
        weight = _array(module.weight).T
        yield Affine(weight, jnp.zeros(weight.shape[1]) if module.bias is None else _array(module.bias))
    elif isinstance(module, nn.Sequential):
        for number, layer in enumerate(module):
            yield from _layers(layer, f"{name}[{number}]")
    elif isinstance(module, nn.Module) and hasattr(module, "linears") and hasattr(module, "activation"):
        # DeepXDE's: one activation, or one for each layer but the last.
        between = len(module.linears) - 1
        given = module.activation if isinstance(module.activation, list | tuple) else [module.activation] * between
        for number, layer in enumerate(module.linears):
            yield from _layers(layer, f"{name}.linears[{number}]")
            if number < between:
                yield _activation(given[number], f"{name}.activation")
    else:
        yield _activation(module, name)


def _activation(layer: Any, name: str) -> Callable[[Array], Array]:
    # Of several columns: what mixes them is no activation.
    x = np.linspace(-6.0, 6.0, 96).reshape(12, 8)
    found = _in_torch(layer, x)
    same = [each for each in ACTIVATIONS if found is not None and _same(np.asarray(each(jnp.asarray(x))), found, SAME)]
    if not same:
        raise ConfigError(
            f"{_called(name, layer)} cannot be converted: layers must be torch.nn.Linear, torch.nn.Sequential, or an "
            f"activation equal to {NAMES}. Write the network in JAX, as a BasisOperator, or give the whole model to "
            "`refine`."
        )
    return same[0]


def _in_torch(layer: Any, x: Float[ndarray, "rows columns"]) -> ndarray | None:
    """What PyTorch gives, in the precision of the layer's weights; nothing where it fails."""
    torch = import_module("torch")
    weights = layer.parameters() if isinstance(layer, torch.nn.Module) else ()
    like = next((each for each in weights if each.is_floating_point()), torch.zeros(1))
    try:
        with torch.no_grad():
            return layer(torch.tensor(x).to(like)).double().numpy(force=True)
    except Exception:  # it is anybody's code and may fail in any way
        return None


def _same(found: ndarray, expected: ndarray, tolerance: float) -> bool:
    # NumPy's size of nothing is no number.
    allowed = tolerance * max(1.0, float(np.max(np.abs(expected), initial=0.0)))
    return found.shape == expected.shape and bool(np.allclose(found, expected, rtol=0, atol=allowed))


def _array(tensor: Any) -> Float[Array, "*shape"]:
    return jnp.asarray(import_module("torch").as_tensor(tensor).double().numpy(force=True))


def _like_input(layers: tuple[Callable[[Array], Array], ...]) -> jax.ShapeDtypeStruct:
    """The shape of a few inputs; a network without weights takes any number of columns."""
    columns = next((layer.weight.shape[0] for layer in layers if isinstance(layer, Affine)), 1)
    return jax.ShapeDtypeStruct((5, columns), jnp.result_type(float))


def _called(name: str, layer: Any) -> str:
    kind = getattr(layer, "__name__", None) or type(layer).__name__
    return f"{name} ({kind})"
