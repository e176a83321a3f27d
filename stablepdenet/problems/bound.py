"""A residual block bound to its problem: the one place where a residual's parameters get their values."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, final

import jax.numpy as jnp
from jaxtyping import Array, Float
from numpy import ndarray

from stablepdenet.errors import ConfigError
from stablepdenet.functions import AbstractInput
from stablepdenet.operators import SUM, Derivative, Fields, Query
from stablepdenet.problems.linear import Coefficient

if TYPE_CHECKING:
    from stablepdenet.problems.base import Block, Problem

# Entries of an input's matrix at a block's points: beyond, only those that are not zero are kept.
DENSE = 2**22

Values = Callable[[Float[Array, "batch m"]], Float[Array, "batch n"]]


@final
class BoundBlock:
    """F(u, a) of one block, as a function of the solution's derivatives at its points and of the input's array.

    `queries` is what it asks of the solution, one query for each component in it: the linear part of the residual in
    one piece, and the derivatives in the rest of it.
    """

    def __init__(self, problem: Problem, block: Block):
        self.block, self.terms = block, problem.terms(block)
        self._slices = problem.inputs.slices
        domain = problem.domain
        self._coordinates = {name: block.points[:, domain.columns(name)[0]] for name in self.terms.coordinates}
        self.places = {
            name: (problem.inputs[of], block.points[:, domain.columns(problem.inputs[of].of)], word)
            for name, (of, word) in self.terms.inputs.items()
        }
        self._domain = domain

    @cached_property
    def linear(self) -> dict[str, Coefficient]:
        """The terms that enter as a sum with known coefficients, and these."""
        return self.block.linear_part(self.terms, self._domain)

    @cached_property
    def components(self) -> tuple[int, ...]:
        """Which components of the solution are in it; the first where there is none, for the number of inputs."""
        return tuple(self.terms.words) or (0,)

    @cached_property
    def queries(self) -> tuple[Query, ...]:
        return tuple(self._query(component) for component in self.components)

    def _query(self, component: int) -> Query:
        own = {name: word for name, (of, word) in self.terms.solution.items() if of == component}
        rest = dict.fromkeys(word for name, word in own.items() if name not in self.linear)
        combination: dict[Derivative, Coefficient] = {}
        for name, coefficient in self.linear.items():  # u_xt and u_tx are one word
            if name in own:
                combination[own[name]] = combination.get(own[name], 0.0) + coefficient
        return Query(self.block.points, tuple(rest), combination, component)

    def __call__(self, solution: Sequence[Fields], inputs: Mapping[str, Array]) -> Float[Array, "batch n *channels"]:
        """F from what the queries ask for, and the inputs at the points by their names."""
        fields = dict(zip(self.components, solution, strict=True))
        sums = [each[SUM] for each in solution if SUM in each]
        # F(u, a) = (its linear part) + F(0 in place of that part's terms, a).
        named = {
            name: jnp.zeros_like(sums[0]) if name in self.linear else fields[component][word]
            for name, (component, word) in self.terms.solution.items()
        }
        rest = self.plain(named, inputs)
        return sum(sums, rest) if sums else rest

    def plain(self, fields: Mapping[str, Array], inputs: Mapping[str, Array]) -> Float[Array, "batch n *channels"]:
        """F as the user wrote it; one row of inputs may stand for all rows of solutions."""
        batch = max(len(values) for values in (*fields.values(), *inputs.values()))
        known = {name: jnp.broadcast_to(inputs[name], (batch, len(self.block.points))) for name in self.places}
        # Copies: JAX remembers how it converted an array, and takes its float32 for float64 programs too.
        coordinates = {name: values.copy() for name, values in self._coordinates.items()}
        return self._checked(self.block.residual(**fields, **known, **coordinates), batch)

    def inputs(self) -> Callable[[Float[Array, "batch m"]], dict[str, Float[Array, "batch n"]]]:
        """a -> the inputs at the points, by the residual's names for them. Matrices become constants here, in the
        precision of the program that is traced."""
        values = {name: self._values(name, *place) for name, place in self.places.items()}
        return lambda a: {name: value(a) for name, value in values.items()}

    def _values(self, name: str, each: AbstractInput, points: Float[ndarray, "n dim"], word: Derivative) -> Values:
        columns = self._slices[self.terms.inputs[name][0]]
        few = each.interpolation(points, word) if len(points) * each.size > DENSE else None
        if few is None:
            matrix = jnp.asarray(each.matrix(points, word)).T
            return lambda a: a[:, columns] @ matrix
        weights = jnp.asarray(few.weights)
        return lambda a: jnp.sum(a[:, columns][:, few.sensors] * weights, axis=-1)

    def _checked(self, residual: Any, batch: int) -> Float[Array, "batch n *channels"]:
        shape = jnp.shape(residual)
        if len(shape) not in (2, 3) or shape[0] != batch:
            raise ConfigError(
                f"The residual of block '{self.block.name}' has shape {shape}: it must return (batch, points) or "
                f"(batch, points, channels), with the batch of {batch} inputs first."
            )
        return residual
