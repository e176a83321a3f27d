"""A symmetry that holds by construction: answers in the frame that moves with the input's mean."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from stablepdenet.operators.ansatz import GalileanFrame
from stablepdenet.operators.base import AbstractBasisOperator, AbstractOperator, Evaluator, Fields, Query
from stablepdenet.operators.jets import nested_derivatives


class Resting(NamedTuple):
    """Points, the functions phi there, and what becomes of phi there as the frame begins to move."""

    points: Float[Array, "n dim"]
    basis: Float[Array, "n k"]
    slopes: Float[Array, "n k"]


class MovingFrameOperator(AbstractOperator):
    """G(a)(x, t) = m + F(a - m)(x - m t, t) with the mean m of the input a and another operator F.

    So F only answers inputs of mean zero. Where all inputs have that already, its functions are evaluated once for all
    of them, as without a frame; else once for each input.
    """

    operator: AbstractBasisOperator
    frame: GalileanFrame = eqx.field(static=True)

    def __call__(self, a: Float[Array, "batch m"], points: Float[Array, "n dim"]) -> Float[Array, "batch n"]:
        return self.combine(self.tabulate(jnp.asarray(points)), a)

    def tabulate(self, points: Float[Array, "n dim"]) -> Resting:
        speed = jnp.zeros((), points.dtype)
        basis, slopes = jax.jvp(
            lambda speed: self.operator.basis(self.frame.moved(points, speed)), (speed,), (jnp.ones_like(speed),)
        )
        return Resting(points, basis, slopes)

    def combine(self, table: Resting, a: Float[Array, "batch m"]) -> Float[Array, "batch n"]:
        return self._answer(table, *self._at_rest(a))

    def prepare(self, queries: Sequence[Query]) -> Evaluator:
        """By nested forward mode, with one set of coefficients for all derivatives."""

        def evaluate(a: Float[Array, "batch m"]) -> list[Fields]:
            means, c = self._at_rest(a)

            def answer(points: Float[Array, "n dim"]) -> Float[Array, "batch n"]:
                return self._answer(self.tabulate(points), means, c)

            points = [jnp.asarray(query.points) for query in queries]
            return [
                query.answer(nested_derivatives(answer, where, query.multi_indices))
                for query, where in zip(queries, points, strict=True)
            ]

        return evaluate

    def _at_rest(self, a: Float[Array, "batch m"]) -> tuple[Float[Array, " batch"], Float[Array, "batch k"]]:
        """The means, and the coefficients of what is left without them."""
        means = self.frame.means(a)
        return means, self.operator.coefficients(a - means[:, None])

    def _answer(
        self, table: Resting, means: Float[Array, " batch"], c: Float[Array, "batch k"]
    ) -> Float[Array, "batch n"]:
        # A gradient makes the functions again: kept, they would fill the memory with points x functions x inputs.
        @jax.checkpoint
        def of_one(pair: tuple[Float[Array, ""], Float[Array, " k"]]) -> Float[Array, " n"]:
            mean, own = pair
            return self.operator.basis(self.frame.inside(self.frame.moved(table.points, mean))) @ own

        u = jax.lax.cond(
            jnp.all(means == 0.0),
            lambda: c @ table.basis.T + _setting_off(means, c, table.slopes),
            lambda: jax.lax.map(of_one, (means, c)),
        )
        return means[:, None] + u


def _first_order(
    means: Float[Array, " batch"], c: Float[Array, "batch k"], slopes: Float[Array, "n k"]
) -> Float[Array, "batch n"]:
    return means[:, None] * (c @ slopes.T)


@jax.custom_jvp
def _setting_off(
    means: Float[Array, " batch"], c: Float[Array, "batch k"], slopes: Float[Array, "n k"]
) -> Float[Array, "batch n"]:
    """`_first_order` of means that are zero: nothing, and no product is spent on it, but it has a derivative."""
    return jnp.zeros((len(c), len(slopes)), c.dtype)


@_setting_off.defjvp
def _setting_off_slope(primals: tuple[Array, ...], tangents: tuple[Array, ...]) -> tuple[Array, Array]:
    return _setting_off(*primals), jax.jvp(_first_order, primals, tangents)[1]
