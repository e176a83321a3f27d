"""Hard constraints: an operator whose solutions have the form that is known of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from stablepdenet.operators.ansatz import Ansatz, Functions, table
from stablepdenet.operators.base import AbstractBasisOperator, Evaluator, Fields, Query
from stablepdenet.operators.jets import SUM, Derivative


class ConstrainedOperator(AbstractBasisOperator):
    """G(a) = lift(a) + envelope * v(a), with the fields v of another operator (see `Ansatz`).

    A linear combination of derivatives of u is one of v with coefficients of its own, so a training step costs what it
    costs without constraints, and the products with the lift.
    """

    operator: AbstractBasisOperator
    ansatz: Ansatz = eqx.field(static=True)

    @property
    def lifted(self) -> bool:
        return self.ansatz.lift is not None

    def coefficients(self, a: Float[Array, "batch m"]) -> Float[Array, "batch k"]:
        own = self.operator.coefficients(a)
        return jnp.concatenate([own, a], axis=1) if self.lifted else own

    def basis(self, points: Float[Array, "n dim"]) -> Float[Array, "n k *components"]:
        own, (lift, envelope) = self.operator.basis(points), (self.ansatz.lift, self.ansatz.envelope)
        if envelope is not None:
            own = own * (envelope(points) if own.ndim == 2 else envelope(points)[:, None, :])
        return own if lift is None else jnp.concatenate([own, lift(points)], axis=1)

    def features(self, query: Query) -> Fields:
        if isinstance(query.points, jax.core.Tracer):  # points that nobody knows yet have no tables
            return super().features(query)
        inner = _inner(self.ansatz, query)
        own, lift = inner.outer(self.operator.features(inner.query)), inner.lift
        return {index: jnp.concatenate([own[index], lift[index]]) if lift else own[index] for index in own}

    def prepare(self, queries: Sequence[Query]) -> Evaluator:
        if any(isinstance(query.points, jax.core.Tracer) for query in queries):
            return super().prepare(queries)
        parts = [_inner(self.ansatz, query) for query in queries]
        inside = self.operator.prepare([part.query for part in parts])

        def evaluate(a: Float[Array, "batch m"]) -> list[Fields]:
            own = [part.outer(fields) for part, fields in zip(parts, inside(a), strict=True)]
            return [
                {index: entry + a @ part.lift[index] if part.lift else entry for index, entry in fields.items()}
                for part, fields in zip(parts, own, strict=True)
            ]

        return evaluate


class _Inner(NamedTuple):
    """What is asked of v where u is asked for, how u follows from it, and the lift's part."""

    query: Query
    outer: Callable[[Fields], Fields]
    lift: Fields


def _inner(ansatz: Ansatz, query: Query) -> _Inner:
    """By Leibniz' rule: D_w (E v) = sum over parts s of the letters of w of D_s E D_(w - s) v."""
    lifted = _derivatives(ansatz.lift, query, query.multi_indices) if ansatz.lift else {}
    lift = query.answer({index: jnp.asarray(entry) for index, entry in lifted.items()}) if lifted else {}
    if ansatz.envelope is None:
        return _Inner(query, lambda fields: fields, lift)
    parts = tuple({part for index in query.multi_indices for part, _ in _splits(index)})
    envelope = _derivatives(ansatz.envelope, query, parts)

    def terms(index: Derivative) -> dict[Derivative, Any]:
        found: dict[Derivative, Any] = {}
        for part, rest in _splits(index):
            factor = envelope[part][query.component]
            if not part or np.any(factor):  # one at least, where the envelope vanishes altogether
                found[rest] = found.get(rest, 0.0) + factor
        return found

    combination: dict[Derivative, Any] = {}
    for index, coefficient in query.combination.items():
        for rest, factor in terms(index).items():
            combination[rest] = combination.get(rest, 0.0) + coefficient * factor
    products = {index: terms(index) for index in query.wanted}
    wanted = tuple(dict.fromkeys(rest for found in products.values() for rest in found))

    def outer(fields: Fields) -> Fields:
        own = {}
        for index, found in products.items():
            shares = [jnp.asarray(factor, fields[rest].dtype) * fields[rest] for rest, factor in found.items()]
            own[index] = sum(shares[1:], shares[0])
        return own | ({SUM: fields[SUM]} if query.combination else {})

    return _Inner(Query(query.points, wanted, combination, query.component), outer, lift)


def _splits(index: Derivative) -> list[tuple[Derivative, Derivative]]:
    """All ways to share out the derivatives of `index`."""
    numbers = range(len(index))
    return [
        (tuple(index[i] for i in chosen), tuple(index[i] for i in numbers if i not in chosen))
        for size in range(len(index) + 1)
        for chosen in combinations(numbers, size)
    ]


def _derivatives(functions: Functions, query: Query, multi_indices: Sequence[Derivative]) -> dict[Derivative, Any]:
    """As k x n."""
    found = table(functions, np.asarray(query.points), multi_indices, query.component)
    return {index: np.asarray(entry.T, jnp.result_type(float)) for index, entry in found.items()}
