"""Operators written elsewhere: what they are, and which derivatives they have."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy import ndarray

from stablepdenet.errors import ConfigError
from stablepdenet.operators.base import AbstractBasisOperator, AbstractOperator, Evaluator, FunctionOperator, Query
from stablepdenet.operators.host import HostOperator, Solution, require_shape, shaped
from stablepdenet.operators.moving import MovingFrameOperator
from stablepdenet.operators.pytorch import TorchOperator


class ModuleOperator(AbstractOperator):
    """A callable pytree (a, points) -> u, e.g. an equinox module. Its arrays do not hash, so it cannot be static like
    the function of a `FunctionOperator`."""

    module: Solution

    def __call__(
        self, a: Float[Array, "batch m"], points: Float[Array, "n dim"]
    ) -> Float[Array, "batch n *components"]:
        return jnp.asarray(self.module(a, points))


def as_operator(candidate: Any, inputs: int, points: Float[ndarray, "n dim"], components: int = 1) -> AbstractOperator:
    """Anything callable as (a, points) -> u as an operator, after one call for two equal inputs of `inputs` numbers."""
    if isinstance(candidate, AbstractOperator):
        return candidate
    if not callable(candidate):
        raise ConfigError(f"An operator is called as (a, points) -> u, but {type(candidate).__name__} is not callable.")
    # Positive, with equal ends and not constant: nothing that a solver or a normalisation would refuse.
    wave = 0.1 * (1.5 + np.sin(2 * np.pi * np.linspace(0, 1, inputs)))
    arrays = jnp.asarray(np.stack([wave, wave])), jnp.asarray(points)
    operator, untraced = _wrapped(candidate, *arrays, components)
    shape = (2, len(points)) if components == 1 else (2, len(points), components)
    # Functions that JAX traces are called as they are: their operators check no shapes.
    call = operator if isinstance(operator, HostOperator | TorchOperator) else candidate
    try:
        u = shaped(call(*arrays), shape, np.float64)
    except ConfigError:
        raise
    except Exception as error:
        sentence = f"The operator cannot be called for two inputs: {_sentence(error)}"
        if untraced and untraced != _sentence(error):
            sentence += f" (with numpy arrays; traced by JAX: {untraced})"
        if untraced and "Tensor" in str(error):
            sentence += "; wrap a function of tensors as TorchOperator(function)"
        raise ConfigError(f"{sentence}.") from error
    if not np.all(np.isfinite(u)):
        raise ConfigError("The operator returned numbers that are not finite for a smooth input between 0.05 and 0.25.")
    if not np.allclose(u[0], u[1], rtol=0, atol=1e-3 * np.abs(u).max()):
        raise ConfigError("The operator gives two equal inputs different solutions: switch off its random layers.")
    return operator


def _wrapped(candidate: Solution, a: Array, points: Array, components: int) -> tuple[AbstractOperator, str]:
    """The operator that fits the candidate, and why JAX cannot trace it if it has to run on the host."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(candidate, torch.nn.Module):
        return TorchOperator(candidate), ""
    try:
        jax.eval_shape(lambda a, points: candidate(a, points), a, points)
    except Exception as error:  # whatever stops the trace, it is no function of JAX
        return HostOperator(_hashable(candidate), components), _sentence(error)
    if jax.tree_util.all_leaves([candidate]):
        return FunctionOperator(_hashable(candidate)), ""
    return ModuleOperator(candidate), ""


def _hashable(function: Solution) -> Solution:
    """Static fields are hashed; a callable object with arrays may not be."""
    try:
        hash(function)
    except TypeError:
        return lambda a, points: function(a, points)
    return function


class Capabilities(NamedTuple):
    """Which derivatives an operator has: in `a`, and in the points (with their gradients in `a`). `reasons` says why
    not, under the names of the fields."""

    inputs: bool
    points: bool
    reasons: dict[str, str]


def capabilities(
    operator: AbstractOperator,
    a: Float[Array, "batch m"],
    points: Float[Array, "n dim"] | Float[ndarray, "n dim"],
    queries: Sequence[Query],
) -> Capabilities:
    """Tries the gradients of the operator at the points and of its derivatives at the queries, on the first input."""
    if isinstance(operator, AbstractBasisOperator | MovingFrameOperator):
        return Capabilities(True, True, {})  # written for this library: a trial would cost seconds
    one, grid = a[:1], jnp.asarray(points)
    probes: dict[str, tuple[Evaluator, Sequence[Query]]] = {
        "inputs": (lambda a: [{(): operator(a, grid)}], [Query(grid, ((),))]),
        "points": (lambda a: operator.prepare(queries)(a), queries),
    }
    reasons = {}
    for name, (evaluate, asked) in probes.items():
        try:
            _require_gradient(evaluate, asked, one)
            if name == "points":
                _require_pointwise(operator, one, grid)
        except Exception as error:  # the operator is anybody's code and may fail in any way
            reasons[name] = _sentence(error)
    return Capabilities("inputs" not in reasons, "points" not in reasons, reasons)


def _require_gradient(evaluate: Evaluator, queries: Sequence[Query], a: Array) -> None:
    def total(a: Array) -> Array:
        result = jnp.zeros(())
        for query, fields in zip(queries, evaluate(a), strict=True):
            for field in fields.values():
                require_shape(field.shape[:2], (len(a), len(query.points)))
                result += jnp.sum(field)
        return result

    # A trace shows what JAX cannot differentiate, in a fraction of a second; what runs on the host fails when it runs.
    if "callback" in str(jax.make_jaxpr(jax.grad(total))(a)):
        jax.grad(total)(a)


def _require_pointwise(operator: AbstractOperator, a: Array, points: Array) -> None:
    """A derivative in the points means something only if u at a point is a function of that point."""
    order = np.random.default_rng(0).permutation(len(points))
    u, shuffled = np.asarray(operator(a, points)), np.asarray(operator(a, points[order]))
    if not np.allclose(shuffled, u[:, order], rtol=0, atol=1e-3 * np.abs(u).max()):
        raise ConfigError("It does not follow its points: in another order, they do not keep their values.")


def _sentence(error: Exception) -> str:
    first = next(iter(str(error).splitlines()), "")
    return first if isinstance(error, ConfigError) else f"{type(error).__name__}: {first}"[:200].rstrip(".")
