"""PyTorch models as operators. PyTorch stays optional: whoever brings one of its models has it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from threading import Lock
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float
from numpy import ndarray

from stablepdenet.operators.base import AbstractOperator, Evaluator, Fields, Query
from stablepdenet.operators.host import Solution, on_host
from stablepdenet.operators.jets import Derivative

# PyTorch counts nested forward derivatives per process, not per thread, and XLA may run two callbacks at once.
_TORCH = Lock()


class TorchOperator(AbstractOperator):
    """A torch.nn.Module, or any function of tensors, (a, points) -> u: (batch, m), (n, dim) -> (batch, n).

    PyTorch computes u, its derivatives in the points (by `prepare` alone, not by differentiating a call) and the
    gradients of both in `a`. The module stays in the mode, `train` or `eval`, that it is in; it gets tensors of the
    dtype and on the device of its parameters.
    """

    module: Solution = eqx.field(static=True)

    def __call__(self, a: Float[Array, "batch m"], points: Float[Array, "n dim"]) -> Float[Array, "batch n"]:
        return self.derivatives(a, points, [()])[()]

    def jacobian(self, a: Float[Array, "batch m"], points: Float[Array, "n dim"]) -> Float[Array, "batch n m"]:
        """du/da by forward mode in PyTorch. JAX has reverse mode alone here, a pass for each of the n points."""
        batch, m = a.shape
        host = partial(_in_torch, self.module, [((),)], "jvp")
        # One call for all directions: each input once for each of its numbers.
        rows, directions = jnp.repeat(a, m, axis=0), jnp.tile(jnp.eye(m, dtype=a.dtype), (batch, 1))
        (columns,) = on_host(host, [(batch * m, len(points))], rows, points, directions)
        return jnp.swapaxes(columns.reshape(batch, m, len(points)), 1, 2)

    def prepare(self, queries: Sequence[Query]) -> Evaluator:
        points = [jnp.asarray(query.points) for query in queries]
        wanted = [query.multi_indices for query in queries]
        columns = [len(query.points) for query in queries for _ in query.multi_indices]

        @jax.custom_vjp
        def solve(a: Array) -> list[Array]:
            host = partial(_in_torch, self.module, wanted, "value")
            return on_host(host, [(len(a), n) for n in columns], a, *points)

        def forward(a: Array) -> tuple[list[Array], Array]:
            return solve(a), a

        def backward(a: Array, cotangents: list[Array]) -> tuple[Array]:
            host = partial(_in_torch, self.module, wanted, "vjp")
            (gradient,) = on_host(host, [a.shape], a, *points, *cotangents)
            return (gradient,)

        solve.defvjp(forward, backward)

        def evaluate(a: Float[Array, "batch m"]) -> list[Fields]:
            u = iter(solve(a))
            return [query.answer({index: next(u) for index in query.multi_indices}) for query in queries]

        return evaluate


def _in_torch(module: Solution, wanted: Sequence[Sequence[Derivative]], mode: str, *arrays: ndarray) -> list[ndarray]:
    """With u_k(a) the wanted derivatives of the solution at the points of each query, in the order of `arrays`,

    value: (a, points) -> u_k,  jvp: (a, points, t) -> (du_k/da) t,  vjp: (a, points, c) -> sum_k (du_k/da)^T c_k.
    """
    torch = import_module("torch")
    parameters = module.parameters() if isinstance(module, torch.nn.Module) else ()
    # Under no_grad the parameters grow no graph; inside of it, `vjp` records what depends on `a` all the same.
    with _TORCH, torch.no_grad():
        like = next((p for p in parameters if p.is_floating_point()), torch.tensor(arrays[0]))
        a, *rest = (torch.tensor(array).to(like) for array in arrays)
        points, vectors = rest[: len(wanted)], tuple(rest[len(wanted) :])
        solve = partial(_torch_derivatives, module, wanted, points)
        if mode == "vjp":
            results = torch.func.vjp(solve, a)[1](vectors)
        else:
            results = torch.func.jvp(solve, (a,), vectors)[1] if mode == "jvp" else solve(a)
        return [result.numpy(force=True) for result in results]


def _torch_derivatives(
    module: Solution, wanted: Sequence[Sequence[Derivative]], points: Sequence[Any], a: Any
) -> tuple[Any, ...]:
    """All wanted derivatives of u = module(a, points) by nested forward mode, one jvp per letter."""
    torch = import_module("torch")

    def along(coordinate: int, function: Callable[[Any], tuple[Any, ...]]) -> Callable[[Any], tuple[Any, ...]]:
        def extended(x: Any) -> tuple[Any, ...]:
            # u at a point depends on that point alone, so one tangent serves all points.
            tangent = torch.zeros_like(x)
            tangent[:, coordinate] = 1.0
            values, tangents = torch.func.jvp(function, (x,), (tangent,))
            return (*values, tangents[-1])

        return extended

    results: list[Any] = []
    for multi_indices, x in zip(wanted, points, strict=True):
        found: dict[Derivative, Any] = {}
        # Longest first: the way to u_xx passes u and u_x.
        for index in sorted(multi_indices, key=len, reverse=True):
            if index not in found:
                function: Callable[[Any], tuple[Any, ...]] = lambda x: (module(a, x),)  # noqa: E731
                for coordinate in index:
                    function = along(coordinate, function)
                found |= {index[:order]: u for order, u in enumerate(function(x))}
        results += [found[index] for index in multi_indices]
    return tuple(results)
