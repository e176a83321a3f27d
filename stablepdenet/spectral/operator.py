"""The operator of a march: any input in, the solution anywhere out, with an estimate of its error."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol, cast, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float
from numpy import ndarray

from stablepdenet.errors import ConfigError
from stablepdenet.operators import AbstractOperator, Derivative, Evaluator, Fields, Query
from stablepdenet.spectral.bounds import cheap_enclosure, error_bounds
from stablepdenet.spectral.march import Answer, March, make_march
from stablepdenet.spectral.places import Places, field_at, places_of, traced_places
from stablepdenet.spectral.plan import Plan
from stablepdenet.spectral.programs import corrections, settled, slopes_of, solutions_of
from stablepdenet.spectral.prolonging import prolonged
from stablepdenet.spectral.rows import Coefficients
from stablepdenet.spectral.setting import Setting
from stablepdenet.spectral.trials import warn_of_strangers
from stablepdenet.spectral.waves import WaveMarch, make_wave_march
from stablepdenet.spectral.wide import split

Points = Float[Array, "n dim"] | Float[ndarray, "n dim"]

# What rounding adds to an answer, in units of its dtype's, and what iterations leave at least.
ROUNDINGS, ITERATED = 2.0, 1e-8
# What is left of an error when functions and steps grow, at most: answers that do not get better are hardly known.
STAYS = 0.7
# The same where the coarser answer is no number.
UNKNOWN = 0.5
# A finer answer is not the solution.
SAFETY = 1.25
# Numbers in the tables of a linear problem, of each function of time, at most; beyond, each input is solved for.
LARGEST = 2**24
# A guaranteed bound is worth more than an estimate of this part of it.
WORTH = 2.0
# The relative error that is asked for, unless told otherwise.
TOLERANCE = 1e-3


class Estimated(NamedTuple):
    """Answers, the estimated difference of the true solutions from them at every point, the estimated relative L2 error
    of each over these points, and whether that is within the tolerance."""

    u: Float[Array, "batch n *components"]
    errors: Float[Array, "batch n *components"]
    estimate: Float[Array, " batch"]
    trusted: Bool[Array, " batch"]


class Tabulated(eqx.Module):
    """The solutions of a problem that is linear in its solution and inputs: of zero, and what each number of the input
    adds to it."""

    slopes: Coefficients
    rest: Coefficients


class SpectralOperator(AbstractOperator):
    """G(a) = the solution of all residual blocks in smooth functions on the box, found anew for each input: by one
    factorisation where the problem is linear, by Gauss-Newton iterations where it is not, one time step after another.

    No network, no training, no labels. Everything is solved in float64 and answered in the dtype of the input.
    Gradients with respect to the input are those of the solution, not of the iterations.
    """

    numbers: March | WaveMarch | Tabulated
    plan: Plan = eqx.field(static=True)
    # A finer one, which says how wrong the answers are, and a coarser one, which says how fast they get better.
    judge: SpectralOperator | None = None
    coarse: SpectralOperator | None = None
    # The relative error that it was made for.
    tolerance: float = eqx.field(static=True, default=TOLERANCE)

    @property
    def setting(self) -> Setting:
        """How its problem is posed."""
        return self.plan.setting

    def __call__(self, a: Float[Array, "batch m"], points: Points) -> Float[Array, "batch n *components"]:
        self.look_at(a)
        return self.combine(self.tabulate(points), a)

    def look_at(self, a: Float[Array, "batch m"]) -> None:
        """Warns of inputs that are not admissible, or unlike all that were tried."""
        warn_of_strangers(a, self.setting.problem, linear=self.setting.all_linear)

    def tabulate(self, points: Points) -> Places:
        if points.shape[1] != self.plan.setting.problem.domain.dimension:
            raise ConfigError(
                f"Points have {points.shape[1]} columns: this operator needs "
                f"{self.plan.setting.problem.domain.dimension}."
            )
        if isinstance(points, jax.core.Tracer):
            return traced_places(self.plan, points)
        return places_of(self.plan, np.asarray(points, np.float64), ())

    def combine(self, table: Places, a: Float[Array, "batch m"]) -> Float[Array, "batch n *components"]:
        return self.evaluate(table, self.solutions(a).coefficients, a)

    def evaluate(
        self, table: Places, coefficients: Coefficients, a: Float[Array, "batch m"]
    ) -> Float[Array, "batch n *components"]:
        """The solutions from their coefficients, and from what the input says of them."""
        fields = _fields(table, coefficients)
        known = [start.put(own, a) if start else own for own, start in zip(fields, table.start, strict=True)]
        return _stacked(known)

    def solutions(self, a: Float[Array, "batch m"]) -> Answer:
        """The coefficients of all inputs' solutions."""
        if not isinstance(self.numbers, Tabulated):
            return solutions_of(self.numbers, a)
        found = tuple(
            jnp.tensordot(a, slopes, 1) + rest
            for slopes, rest in zip(self.numbers.slopes, self.numbers.rest, strict=True)
        )
        return Answer(found, jnp.ones(len(a), bool))

    def answer(self, a: Float[Array, "batch m"], points: Points) -> Estimated:
        """Answers, and by how much solving again in the judge's finer functions moves them. The estimate
        is infinite where the iterations did not arrive.

        The judge has an error too. If each refinement leaves a share r of the error, the error is the judge's change
        over 1 - r; and r is the judge's change over that from the coarser answer to this one.
        """
        judge, coarse = self.judge, self.coarse
        if judge is None or coarse is None:
            raise ConfigError("This operator has nothing to judge its answers by: make it with `robust`.")
        self.look_at(a)
        found = self.solutions(a)
        guess = prolonged(self.plan, judge.plan, found.coefficients)
        better = judge.solutions(a) if isinstance(judge.numbers, Tabulated) else corrections(judge.numbers, a, guess)
        change = jax.tree.map(jnp.subtract, better.coefficients, guess)
        u = self.evaluate(self.tabulate(points), found.coefficients, a)
        finer = judge.tabulate(points)
        differences = zip(_fields(finer, change), finer.start, strict=True)
        moved = _stacked([start.put_nothing(own) if start else own for own, start in differences])
        before, now = _norms(u - coarse.combine(coarse.tabulate(points), a)), _norms(moved)
        slow = jnp.clip(now / before, 0.0, STAYS)
        rounding = max(ROUNDINGS * float(jnp.finfo(u.dtype).eps), ITERATED)
        left = jnp.where(jnp.isfinite(before), jnp.where(now > rounding * _norms(u), slow, 0.0), UNKNOWN)
        errors = moved / (1.0 - left).reshape(-1, *[1] * (u.ndim - 1))
        sound = settled(found) & settled(better._replace(arrived=found.arrived))
        estimate = jnp.where(sound, SAFETY * shares(errors, u + errors) + rounding, jnp.inf)
        return sharpened(Estimated(u, errors, estimate, estimate <= self.tolerance), self, a, points)

    def bound(self, a: Float[Array, "batch m"], points: Points) -> Float[ndarray, " batch"]:
        """The relative L2 error of each answer over these points, at most: guaranteed, not estimated. Infinite where
        nothing is known. In NumPy: not for the inside of a compiled program."""
        return error_bounds(self.setting, self(a, points), a, points)

    def prepare(self, queries: Sequence[Query]) -> Evaluator:
        if any(isinstance(query.points, jax.core.Tracer) for query in queries):
            return super().prepare(queries)
        tables = [
            {index: places_of(self.plan, np.asarray(q.points, np.float64), index) for index in q.multi_indices}
            for q in queries
        ]

        def evaluate(a: Float[Array, "batch m"]) -> list[Fields]:
            found = self.solutions(a).coefficients

            def fields(number: int, table: dict[Derivative, Places]) -> dict[Derivative, Array]:
                own = {index: field_at(places, found[number], number) for index, places in table.items()}
                starts = {index: places.start[number] for index, places in table.items()}
                return {index: start.put(own[index], a) if start else own[index] for index, start in starts.items()}

            return [query.answer(fields(query.component, table)) for query, table in zip(queries, tables, strict=True)]

        return evaluate

    def jacobian(self, a: Float[Array, "batch m"], points: Points) -> Float[Array, "batch n *components m"]:
        table = self.tabulate(points)
        if isinstance(self.numbers, Tabulated):
            slopes = tuple(jnp.broadcast_to(c[:, None], (len(c), len(a), *c.shape[1:])) for c in self.numbers.slopes)
        else:
            slopes = slopes_of(self.numbers, a)
        fields = [jnp.moveaxis(own, 0, -1) for own in jax.lax.map(lambda along: _fields(table, along), slopes)]
        known = [start.put_slopes(own) if start else own for own, start in zip(fields, table.start, strict=True)]
        return known[0] if len(known) == 1 else jnp.stack(known, axis=2)


@runtime_checkable
class Posed(Protocol):
    """What says how its problem is posed, and within which relative error answers are trusted."""

    @property
    def setting(self) -> Setting: ...
    @property
    def tolerance(self) -> float: ...


def sharpened(found: Estimated, operator: Posed, a: Float[Array, "batch m"], points: Points) -> Estimated:
    """The same, with what is known for certain where that says about as much as the estimates or more, and is quickly
    known. What is traced stays as it is."""
    if any(isinstance(each, jax.core.Tracer) for each in (found.u, a, points)):
        return found
    known = cheap_enclosure(operator.setting, np.asarray(a, np.float64), np.asarray(points, np.float64))
    if known is None:
        return found
    u, old = np.asarray(found.u), np.asarray(found.estimate)
    bound = known.bound(u)
    certain = bound <= WORTH * old
    errors = np.where(certain[:, None], known.center - u, np.asarray(found.errors))
    # Rounded upwards: a bound stays one.
    estimate = np.where(certain, np.nextafter(bound.astype(old.dtype), np.inf, dtype=old.dtype), old)
    return Estimated(
        found.u, jnp.asarray(errors, u.dtype), jnp.asarray(estimate), jnp.asarray(estimate <= operator.tolerance)
    )


def _fields(table: Places, coefficients: Coefficients) -> list[Float[Array, "batch n"]]:
    """All components as their functions are at the points."""
    return [field_at(table, each, number) for number, each in enumerate(coefficients)]


def _stacked(fields: Sequence[Float[Array, "batch n"]]) -> Float[Array, "batch n *components"]:
    return fields[0] if len(fields) == 1 else jnp.stack(fields, axis=-1)


def timed_solutions(operator: SpectralOperator, a: Float[Array, "batch m"]) -> tuple[Answer, float]:
    """The solutions, and the seconds that they took without those of compiling."""
    program = cast(Any, solutions_of).lower(operator.numbers, a).compile()
    begin = time.monotonic()
    found = jax.block_until_ready(program(operator.numbers, a))
    return found, time.monotonic() - begin


def _norms(rows: Float[Array, "batch n *components"]) -> Float[Array, " batch"]:
    return jnp.sqrt(jnp.sum(rows**2, axis=tuple(range(1, rows.ndim))))


def shares(
    errors: Float[Array, "batch n *components"], solutions: Float[Array, "batch n *components"]
) -> Float[Array, " batch"]:
    """Relative L2 errors; none where there is no error, of a solution that is zero too."""
    size = _norms(errors)
    return jnp.where(size == 0.0, 0.0, size / _norms(solutions))


def spectral_operator(plan: Plan) -> SpectralOperator:
    """The operator of a plan. Where all is linear, it is solved once for each number of the input."""
    operator, size = untabulated(plan), plan.setting.problem.inputs.size
    if not plan.setting.all_linear or size * len(plan.lengths) * plan.space.size > LARGEST:
        return operator
    found = operator.solutions(jnp.concatenate([jnp.zeros((1, size)), jnp.eye(size)])).coefficients
    return SpectralOperator(Tabulated(tuple(c[1:] - c[:1] for c in found), tuple(c[0] for c in found)), plan)


def untabulated(plan: Plan) -> SpectralOperator:
    """The same, which solves for each input that it is given: better for a few inputs, once."""
    march = make_wave_march(plan) if plan.setting.waved else make_march(plan)
    return SpectralOperator(split(march), plan)
