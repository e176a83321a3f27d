"""The refined operator: Gauss-Newton steps on the projected residual whenever it is asked."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from stablepdenet.operators import AbstractBasisOperator, Fields
from stablepdenet.problems import Problem
from stablepdenet.refining.least_squares import factorised
from stablepdenet.refining.residuals import Part, Tests, fields_of, jacobian, projected_residual
from stablepdenet.refining.slopes import Slopes

# Where a step moves u or a derivative by more, of its own size, the next one does not arrive.
FAR = 0.25
# What may be unsure of u or a derivative, of its own size, in an answer by `Slopes`.
SURE = 1e-4
# Inputs that are answered together: more do not fit into a processor's cache.
TOGETHER = 128


class Progress(NamedTuple):
    """Fields after some steps and their residual, the sum of the steps in the directions' coordinates, by how much the
    last one moved the fields, of their own size, and how much of that is unsure."""

    fields: list[Fields]
    residual: Float[Array, "batch rows"]
    total: Float[Array, "batch rank"]
    moved: Float[Array, " batch"]
    unsure: Float[Array, " batch"]


class Refined(NamedTuple):
    """Whether the operator's own coefficients are where to start, all steps in the directions' coordinates, by how much
    the last one moved the fields, and how much of that is unsure."""

    kept: Bool[Array, " batch"]
    steps: Float[Array, "batch rank"]
    moved: Float[Array, " batch"]
    unsure: Float[Array, " batch"]


class Row(NamedTuple):
    """Whether an answer by the slopes is sure, the answer, and what it is the answer to."""

    sure: Bool[Array, " *batch"]
    found: Refined
    c: Float[Array, "*batch k"]
    a: Float[Array, "*batch m"]


Advance = Callable[[Progress, Float[Array, "batch m"], bool], Progress]


class RefinedOperator(AbstractBasisOperator):
    """An operator whose coefficients take `steps` Gauss-Newton steps on the physics residual, in the space of its own
    basis. Steps start from c or from 0, whichever has the smaller residual:

        c <- c - W (J W)^+ r(c, a),   r = (sqrt(w_q / N_q) P_q F_q(sum_j c_j phi_j, a))_q,   J = dr/dc.

    So an attack cannot send the steps astray from a start that is worse than none; and steps after which r is larger
    are not taken. Inputs whose last step but one still moved u or a derivative by a quarter take `further` ones before
    the last.
    P_q is the projection onto the functions phi themselves: what no combination of them can follow, as a rough input
    leaves it, is not fitted. W spans the directions that are not rounding, scaled so that J W is near orthonormal.
    It is an operator like any other: attacks and audits go through the steps.

    With `slopes`, J W comes from its modes, for many inputs at once; r is what it was. The last step is corrected by
    the exact J, which also says how wrong the step was: inputs for which a correction is not enough are answered
    without the modes.
    """

    operator: AbstractBasisOperator
    directions: Float[Array, "free rank"]
    parts: list[Part]
    tests: list[Tests]
    problem: Problem = eqx.field(static=True)
    steps: int = eqx.field(static=True)
    further: int = eqx.field(static=True)
    slopes: Slopes | None = None

    @property
    def lifted(self) -> bool:
        return self.operator.lifted

    def basis(self, points: Float[Array, "n dim"]) -> Float[Array, "n k *components"]:
        return self.operator.basis(points)

    def coefficients(self, a: Float[Array, "batch m"]) -> Float[Array, "batch k"]:
        c = self.operator.coefficients(a)
        return self.after(self.refined(c, a), c)

    def settled(self, a: Float[Array, "batch m"]) -> Bool[Array, " batch"]:
        """Whether the steps of each answer come to an end. Where they do not, it may be wrong, however small r is."""
        return self.refined(self.operator.coefficients(a), a).moved <= FAR

    def after(self, found: Refined, c: Float[Array, "batch k"]) -> Float[Array, "batch k"]:
        """The coefficients that the steps from c lead to."""
        free = len(self.directions)
        own = jnp.where(found.kept[:, None], c[:, :free], 0.0) - found.steps @ self.directions.T
        return jnp.concatenate([own, c[:, free:]], axis=1)

    @eqx.filter_jit
    def refined(self, c: Float[Array, "batch k"], a: Float[Array, "batch m"]) -> Refined:
        """The steps from the coefficients c."""
        if self.slopes is None:
            # One input at a time: the Jacobian of each is as large as the basis on all points.
            return jax.lax.map(lambda pair: self._alone(*pair), (c, a))
        whole = len(a) - len(a) % TOGETHER
        batches = jax.tree.map(lambda rows: rows[:whole].reshape(-1, TOGETHER, rows.shape[1]), (c, a))
        first = jax.lax.map(lambda pair: self._together(*pair), batches)
        first = jax.tree.map(lambda rows: rows.reshape(whole, *rows.shape[2:]), first)
        if whole == len(a):
            return first
        return jax.tree.map(lambda *rows: jnp.concatenate(rows), first, self._together(c[whole:], a[whole:]))

    def _alone(self, c: Float[Array, " k"], a: Float[Array, " m"]) -> Refined:
        """The answer to one input, by the exact J."""
        return jax.tree.map(lambda rows: rows[0], self._steps(c[None], a[None], self._advance))

    def _together(self, c: Float[Array, "batch k"], a: Float[Array, "batch m"]) -> Refined:
        """The answers to some inputs by the slopes, but for those of which these are not sure."""
        found = self.by_slopes(c, a)
        sure = found.unsure <= SURE

        def one(row: Row) -> Refined:
            return jax.lax.cond(row.sure, lambda: row.found, lambda: self._alone(row.c, row.a))

        # A gradient takes these steps again: kept, the Jacobians of all inputs would fill the memory.
        careful = jax.checkpoint(lambda rows: jax.lax.map(one, rows))
        return jax.lax.cond(jnp.all(sure), lambda rows: rows.found, careful, Row(sure, found, c, a))

    @eqx.filter_jit
    def by_slopes(self, c: Float[Array, "batch k"], a: Float[Array, "batch m"]) -> Refined:
        """The steps by the slopes, sure or not."""
        return self._steps(c, a, self._advance_by_slopes)

    def _steps(self, c: Float[Array, "batch k"], a: Float[Array, "batch m"], advance: Advance) -> Refined:
        nothing, fields = fields_of(self.parts, c)
        # Also where the residual of 0 is not a number.
        kept = ~(_size(self._residual(fields, a)) >= _size(self._residual(nothing, a)))
        fields = jax.tree.map(lambda ours, none: jnp.where(kept[:, None], ours, none), fields, nothing)
        none = jnp.zeros_like(c, shape=len(c))
        total = jnp.zeros_like(c, shape=(len(c), self.directions.shape[1]))
        start = at = Progress(fields, self._residual(fields, a), total, none, none)
        for _ in range(self.steps - 1):
            at = advance(at, a, False)
        if self.further:
            at = self._arrive(at, a)
        if self.steps:
            at = advance(at, a, True)
        # Steps that did not help are not taken.
        helped = _size(at.residual) < _size(start.residual)
        return Refined(kept, jnp.where(helped[:, None], at.total, 0.0), at.moved, at.unsure)

    def _advance(self, at: Progress, a: Float[Array, "1 m"], last: bool) -> Progress:
        """One step of one input."""
        columns = jacobian(self.problem, self.tests, self.parts, at.fields, a)
        step, _ = factorised(columns[None])(at.residual)
        return self._moved(at, a, step, self._along(step), at.unsure)

    def _advance_by_slopes(self, at: Progress, a: Float[Array, "batch m"], last: bool) -> Progress:
        """One step of many inputs."""
        assert self.slopes is not None
        solve = self.slopes.steps(self.problem, at.fields, a)
        step, arrived = solve(at.residual)
        change = self._along(step)
        if not last:
            return self._moved(at, a, step, change, at.unsure)
        _, image = jax.jvp(lambda fields: self._residual(fields, a), (at.fields,), (change,))
        more, _ = solve(at.residual - image)
        correction = self._along(more)
        after = self._moved(at, a, step + more, jax.tree.map(jnp.add, change, correction), at.unsure)
        # Were it corrected again, it would be by this part of the correction.
        wrong = jax.lax.stop_gradient(jnp.linalg.norm(more, axis=1) / jnp.linalg.norm(step, axis=1))
        return after._replace(unsure=jnp.where(arrived, wrong * _ratio(correction, after.fields), jnp.inf))

    def _moved(
        self,
        at: Progress,
        a: Float[Array, "batch m"],
        step: Float[Array, "batch rank"],
        change: list[Fields],
        unsure: Float[Array, " batch"],
    ) -> Progress:
        fields = jax.tree.map(jnp.subtract, at.fields, change)
        return Progress(fields, self._residual(fields, a), at.total + step, _ratio(change, fields), unsure)

    def _arrive(self, at: Progress, a: Float[Array, "batch m"]) -> Progress:
        """The `further` steps where they are needed. Gradients do not go through them: where they arrive, those of the
        step after them are the answer's."""
        far, stopped = at.moved > FAR, jax.lax.stop_gradient(at)

        def more(at: Progress, a: Float[Array, "1 m"]) -> Progress:
            return jax.lax.fori_loop(0, self.further, lambda _, at: self._advance(at, a, False), at)

        def one(row: tuple[Bool[Array, ""], Progress, Float[Array, " m"]]) -> Progress:
            at, a = jax.tree.map(lambda each: each[None], row[1:])
            found = jax.lax.cond(row[0], more, lambda at, _: at, at, a)
            return jax.tree.map(lambda each: each[0], jax.lax.stop_gradient(found))

        rows = far, stopped, jax.lax.stop_gradient(a)
        arrived = jax.lax.cond(jnp.any(far), lambda rows: jax.lax.map(one, rows), lambda rows: rows[1], rows)
        arrived = jax.tree.map(
            lambda new, old: jnp.where(far.reshape(-1, *[1] * (old.ndim - 1)), new, old), arrived, at
        )
        # It depends on the input where the fields do not.
        return arrived._replace(residual=self._residual(arrived.fields, a))

    def _residual(self, fields: list[Fields], a: Float[Array, "batch m"]) -> Float[Array, "batch rows"]:
        return projected_residual(self.problem, self.tests, fields, a)

    def _along(self, step: Float[Array, "batch rank"]) -> list[Fields]:
        """What a step does to the fields."""
        return [{index: step @ entry for index, entry in part.turned.items()} for part in self.parts]


def _size(residual: Float[Array, "batch rows"]) -> Float[Array, " batch"]:
    # Nobody asks for the gradient.
    return jnp.sum(jax.lax.stop_gradient(residual) ** 2, axis=1)


def _ratio(change: list[Fields], fields: list[Fields]) -> Float[Array, " batch"]:
    """The largest change of u or one of its derivatives over the points of all blocks, of its own norm there."""

    def norms(blocks: list[Fields]) -> Float[Array, "multi_indices batch"]:
        # Nobody asks for the gradient, which at zero is not a number.
        blocks = jax.lax.stop_gradient(blocks)
        multi_indices = sorted({index for block in blocks for index in block})
        own = [[block[index] for block in blocks if index in block] for index in multi_indices]
        return jnp.stack([jnp.linalg.norm(jnp.concatenate(parts, axis=1), axis=1) for parts in own])

    return jnp.max(norms(change) / norms(fields), axis=0)
