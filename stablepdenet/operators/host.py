"""Operators that run on the host, outside of what JAX can trace."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy import ndarray

from stablepdenet.errors import ConfigError
from stablepdenet.operators.base import AbstractOperator

Solution = Callable[[Any, Any], Any]


class HostOperator(AbstractOperator):
    """A Python function (a, points) -> u on numpy arrays, e.g. a classical solver. It runs inside of compiled programs,
    but has no derivatives."""

    function: Solution = eqx.field(static=True)
    components: int = eqx.field(static=True, default=1)

    def __call__(
        self, a: Float[Array, "batch m"], points: Float[Array, "n dim"]
    ) -> Float[Array, "batch n *components"]:
        last = (self.components,) if self.components > 1 else ()

        @jax.custom_jvp
        def solve(a: Array, points: Array) -> Array:
            return on_host(self._solve, [(len(a), len(points), *last)], a, points)[0]

        @solve.defjvp
        def refuse(primals: Any, tangents: Any) -> Any:
            raise ConfigError("A function that JAX cannot trace has no derivatives: write it in JAX or PyTorch.")

        return solve(a, points)

    def _solve(self, a: ndarray, points: ndarray) -> list[Any]:
        u = self.function(a, points)
        if type(u).__module__.partition(".")[0] == "torch":
            raise ConfigError("The operator returns a PyTorch tensor: wrap it as TorchOperator(function).")
        return [u]


def on_host(
    function: Callable[..., Sequence[Any]], shapes: Sequence[tuple[int, ...]], a: Array, *arguments: Array
) -> list[Array]:
    """Calls `function` with numpy arrays for results of the given shapes and the dtype of `a`."""

    def call(*arguments: Any) -> list[ndarray]:
        # Copies: the views are read-only, which PyTorch and a solver that works in place refuse.
        results = function(*(np.array(argument) for argument in arguments))
        return [shaped(result, shape, a.dtype) for result, shape in zip(results, shapes, strict=True)]

    if any(isinstance(argument, jax.core.Tracer) for argument in (a, *arguments)):
        results = [jax.ShapeDtypeStruct(shape, a.dtype) for shape in shapes]
        return jax.pure_callback(call, results, a, *arguments, vmap_method="sequential")
    # Nothing to trace: a direct call lets exceptions out as they are, where a callback would turn them into XLA's.
    return [jnp.asarray(result) for result in call(a, *arguments)]


def shaped(result: Any, shape: tuple[int, ...], dtype: Any) -> ndarray:
    array = np.asarray(result, dtype)
    require_shape(array.shape, shape)
    return array


def require_shape(found: tuple[int, ...], wanted: tuple[int, ...]) -> None:
    if found != wanted:
        extra = " times components" if len(wanted) > 2 else ""
        raise ConfigError(f"The operator returned the shape {found}: it must be {wanted}, inputs times points{extra}.")
