"""What an operator is: inputs and points in, the solution and its derivatives there out."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float
from numpy import ndarray

from stablepdenet.operators.jets import SUM, Combination, Derivative, nested_derivatives

# Blocks differ in their number of points, so lists of these do not share it.
Fields = dict[Derivative, Float[Array, "batch _"]]
Evaluator = Callable[[Float[Array, "batch m"]], list[Fields]]


class Query(NamedTuple):
    """Points at which the derivatives `wanted` of one component of the solution are asked for, and a combination of its
    derivatives.

    The combination's field has the key `SUM`; where it is empty there is none.
    """

    points: Float[Array, "n dim"] | Float[ndarray, "n dim"]
    wanted: tuple[Derivative, ...]
    combination: Combination = MappingProxyType({})
    component: int = 0

    @property
    def multi_indices(self) -> tuple[Derivative, ...]:
        """All derivatives that the answer needs."""
        return tuple(dict.fromkeys((*self.wanted, *self.combination)))

    def answer(self, derivatives: Mapping[Derivative, Array]) -> dict[Derivative, Array]:
        """What is asked for, from all `multi_indices`; points are the arrays' last axis."""
        fields = {index: derivatives[index] for index in self.wanted}
        terms = [jnp.asarray(c, derivatives[index].dtype) * derivatives[index] for index, c in self.combination.items()]
        return fields | ({SUM: sum(terms[1:], terms[0])} if terms else {})


def component(function: Callable[[Array], Array], number: int) -> Callable[[Array], Array]:
    """One component of what a function of points gives: entries for each point, or for each and every component."""

    def one(points: Array) -> Array:
        found = function(points)
        return found[..., number] if found.ndim == 3 else found

    return one


class AbstractOperator(eqx.Module):
    """A learned (or exact) solution operator G: a -> u."""

    @abstractmethod
    def __call__(
        self, a: Float[Array, "batch m"], points: Float[Array, "n dim"]
    ) -> Float[Array, "batch n *components"]:
        """The solutions for all inputs at all points; several components are a last axis."""

    def tabulate(self, points: Float[Array, "n dim"]) -> Any:
        """What `combine` needs of the points, whatever the inputs: asked again there, only these are new."""
        return points

    def combine(self, table: Any, a: Float[Array, "batch m"]) -> Float[Array, "batch n *components"]:
        """The solutions for all inputs at the points that `table` was made for."""
        return self(a, table)

    def prepare(self, queries: Sequence[Query]) -> Evaluator:
        """Fixes the points, so that what does not depend on the input is computed once and shared by every call of the
        result.

        This fallback uses nested forward mode and fits any operator; one with more structure does better.
        """

        def evaluate(a: Float[Array, "batch m"]) -> list[Fields]:
            points = [jnp.asarray(query.points) for query in queries]
            return [
                query.answer(
                    nested_derivatives(component(partial(self, a), query.component), where, query.multi_indices)
                )
                for query, where in zip(queries, points, strict=True)
            ]

        return evaluate

    def derivatives(
        self, a: Float[Array, "batch m"], points: Float[Array, "n dim"], wanted: Sequence[Derivative], number: int = 0
    ) -> Fields:
        """The derivatives `wanted` (tuples of coordinate numbers, `()` for the value) of one component, for all inputs
        at all points."""
        return self.prepare([Query(jnp.asarray(points), tuple(wanted), component=number)])(a)[0]

    def jacobian(
        self, a: Float[Array, "batch m"], points: Float[Array, "n dim"]
    ) -> Float[Array, "batch n *components m"]:
        """du/da at every input, a few directions at a time: together they would need `m` times the memory."""

        def along(direction: Array) -> Array:
            return jax.jvp(lambda a: self(a, points), (a,), (jnp.broadcast_to(direction, a.shape),))[1]

        columns = jax.lax.map(along, jnp.eye(a.shape[1], dtype=a.dtype), batch_size=8)
        return jnp.moveaxis(columns, 0, -1)


class AbstractBasisOperator(AbstractOperator):
    """An operator whose solutions are combinations of fixed functions of the point: u(xi) = sum_j c_j(a) phi_j(xi).
    Where the solution has several components, so has each phi_j.

    What is measured on many points then needs the points once: distances by a triangular factor of the basis, the
    input's Jacobian by that of the coefficients alone.
    """

    @property
    def lifted(self) -> bool:
        """Whether the last coefficients are the input itself, as it is."""
        return False

    @abstractmethod
    def coefficients(self, a: Float[Array, "batch m"]) -> Float[Array, "batch k"]:
        """c(a)."""

    @abstractmethod
    def basis(self, points: Float[Array, "n dim"]) -> Float[Array, "n k *components"]:
        """phi at the points; several components are a last axis."""

    def __call__(
        self, a: Float[Array, "batch m"], points: Float[Array, "n dim"]
    ) -> Float[Array, "batch n *components"]:
        # Convert: NumPy defaults to float64.
        return self.combine(self.basis(jnp.asarray(points)), a)

    def tabulate(self, points: Float[Array, "n dim"]) -> Float[Array, "n k *components"]:
        return self.basis(points)

    def combine(
        self, table: Float[Array, "n k *components"], a: Float[Array, "batch m"]
    ) -> Float[Array, "batch n *components"]:
        c = self.coefficients(a)
        return c @ table.T if table.ndim == 2 else jnp.einsum("bk,nkc->bnc", c, table)

    def features(self, query: Query) -> Fields:
        """What a query asks for, of every phi: k x n."""
        found = nested_derivatives(
            component(self.basis, query.component), jnp.asarray(query.points), query.multi_indices
        )
        return query.answer({index: entry.T for index, entry in found.items()})

    def prepare(self, queries: Sequence[Query]) -> Evaluator:
        features = [self.features(query) for query in queries]

        def evaluate(a: Float[Array, "batch m"]) -> list[Fields]:
            c = self.coefficients(a)
            return [{index: c @ entry for index, entry in fields.items()} for fields in features]

        return evaluate


class FunctionOperator(AbstractOperator):
    """Any function (a, points) -> u as an operator: an exact solution, a classical solver, somebody else's model."""

    function: Callable[[Float[Array, "batch m"], Float[Array, "n dim"]], Float[Array, "batch n *components"]] = (
        eqx.field(static=True)
    )

    def __call__(
        self, a: Float[Array, "batch m"], points: Float[Array, "n dim"]
    ) -> Float[Array, "batch n *components"]:
        return jnp.asarray(self.function(a, points))


class BasisOperator(AbstractBasisOperator):
    """Two functions as an operator: u(xi) = sum_j c_j(a) phi_j(xi) with the coefficients c and the basis phi, as a
    DeepONet's branch and trunk. Either may be an equinox module."""

    of_inputs: Callable[[Float[Array, "batch m"]], Float[Array, "batch k"]]
    of_points: Callable[[Float[Array, "n dim"]], Float[Array, "n k *components"]]

    def __init__(
        self,
        coefficients: Callable[[Float[Array, "batch m"]], Float[Array, "batch k"]],
        basis: Callable[[Float[Array, "n dim"]], Float[Array, "n k *components"]],
    ):
        self.of_inputs, self.of_points = coefficients, basis

    def coefficients(self, a: Float[Array, "batch m"]) -> Float[Array, "batch k"]:
        return self.of_inputs(a)

    def basis(self, points: Float[Array, "n dim"]) -> Float[Array, "n k *components"]:
        return self.of_points(points)
