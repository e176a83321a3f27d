"""The residual rows of some regions as a least-squares problem in the coefficients of space-time functions."""

from __future__ import annotations

from itertools import accumulate
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy import ndarray

from stablepdenet.problems import Problem
from stablepdenet.spectral.regions import Region, evaluate
from stablepdenet.spectral.rows import Coefficients, Numbers, Rows
from stablepdenet.spectral.stages import RIDGE, Apart, Stages

# How much more conditions on sides count than the PDE does, in time steps: what they leave over from step to step grows
# where they count as much (two coordinates, tried: from 11 functions of each on; by 10 times, from 17 on).
SIDES = 1e3


class Moment(eqx.Module):
    """Where a time step lies, and the inputs' matrices there, for each region."""

    start: Numbers
    length: Numbers
    matrices: tuple[dict[str, Numbers], ...]


class Step(NamedTuple):
    """A Gauss-Newton step's factors: J^T of scaled rows, each unknown divided by its `sizes`, the Gram matrix's factor,
    and the rows' scales."""

    columns: Float[Array, "unknowns rows"]
    factor: Float[Array, "unknowns unknowns"]
    sizes: Float[Array, " unknowns"]
    scales: Float[Array, " rows"]


# Of all stages at once, or of each apart.
Factors = Step | Apart


class Equations(eqx.Module):
    """Rows in some coefficients of each component: of its functions of time `free`, times the functions of space at
    `places`. The others are given. `linear` says that they are so in the solution and the inputs together."""

    rows: tuple[Rows, ...]
    places: Numbers
    problem: Problem = eqx.field(static=True)
    free: tuple[tuple[int, int], ...] = eqx.field(static=True)
    time: int | None = eqx.field(static=True)
    linear: bool = eqx.field(static=True)
    # Those of a time step; conditions at the start have none.
    stages: Stages | None = eqx.field(static=True)

    @property
    def _starts(self) -> list[int]:
        """Where each component's unknowns begin, and where all end."""
        return [0, *accumulate((last - first) * len(self.places) for first, last in self.free)]

    @property
    def unknowns(self) -> int:
        return self._starts[-1]

    def _on_side(self, region: Region) -> bool:
        """Whether it is a side's condition in a time step."""
        return self.time is not None and region.own is None and not region.inside

    def known(self, number: int, a: Float[Array, " m"], moment: Moment) -> dict[str, Any]:
        """The inputs and coordinates at a region's points."""
        return known_in(self.rows[number], moment, moment.matrices[number], a, problem=self.problem, time=self.time)

    @property
    def _times(self) -> int:
        return self.stages.count if self.stages else 1

    @property
    def _places(self) -> list[int]:
        """Where each component's functions of space begin, and where all end."""
        return [number * len(self.places) for number in range(len(self.free) + 1)]

    def residual(self, at: Coefficients, a: Float[Array, " m"], moment: Moment) -> Float[Array, " rows"]:
        """All rows, not scaled: those of the first time come first."""
        found = []
        for number, rows in enumerate(self.rows):
            entries = evaluate(rows.region, rows.fields(at, moment.length), self.known(number, a, moment))
            found.append(_weighed(entries, rows.root).reshape(self._times, -1))
        return jnp.concatenate(found, axis=1).ravel()

    def factorise(self, at: Coefficients, a: Float[Array, " m"], moment: Moment) -> Factors:
        """What iterations take: factors of the stages apart from each other, where there are stages."""
        if self.stages is None:
            return self.factorise_whole(at, a, moment)
        count, middle, places = self._times, self.stages.middle, self._places
        orders = range(1 + max(term.order for rows in self.rows for term in rows.terms.values()))
        found, scales = [], []
        for number, rows in enumerate(self.rows):
            fields = rows.fields(at, moment.length, slice(middle, middle + 1))
            known = {name: rows.at_time(row, middle, count) for name, row in self.known(number, a, moment).items()}
            fields, known = (
                {name: _repeated(row, places[-1]) for name, row in each.items()} for each in (fields, known)
            )
            root = rows.root[: len(rows.root) // count]

            def along(order: int, rows: Rows = rows, fields: dict = fields, known: dict = known) -> Array:
                slopes = {name: jnp.zeros_like(row) for name, row in fields.items()}
                for name, term in rows.terms.items():
                    if term.order == order:
                        own = slice(places[term.component], places[term.component + 1])
                        slopes[name] = slopes[name].at[own].set(term.space[:, self.places].T)
                return jax.jvp(lambda fields: evaluate(rows.region, fields, known), (fields,), (slopes,))[1]

            own = [_weighed(along(order), root) for order in orders]
            scale = self._scale(rows, self.stages.combined(own, moment.length), root)
            found.append([each * scale for each in own])
            scales.append(jnp.broadcast_to(scale, own[0].shape[1]))
        slopes = [jnp.concatenate(each, axis=1) for each in zip(*found, strict=True)]
        return self.stages.factorise(slopes, jnp.concatenate(scales), moment.length)

    def _scale(self, rows: Rows, columns: Float[Array, "unknowns rows"], root: Float[Array, " n"]) -> Float[Array, ""]:
        """Conditions are weighed by what the PDE's largest terms are, whatever their units."""
        size = jnp.sqrt(jnp.sum(columns**2)) / (SIDES if self._on_side(rows.region) else 1.0)
        return jnp.sqrt(jnp.sum(root**2)) / jnp.where(size > 0, size, 1.0)

    def factorise_whole(self, at: Coefficients, a: Float[Array, " m"], moment: Moment) -> Step:
        """The linearised rows at some coefficients, each region's scaled to be of one size: all stages at once."""
        columns, scales, starts = [], [], self._starts
        for number, rows in enumerate(self.rows):
            known, fields = (
                {name: _repeated(row, starts[-1]) for name, row in found.items()}
                for found in (self.known(number, a, moment), rows.fields(at, moment.length))
            )
            slopes = {
                name: jnp.zeros_like(fields[name])
                .at[starts[term.component] : starts[term.component + 1]]
                .set(term.slopes / moment.length**term.order)
                for name, term in rows.terms.items()
            }

            def residual(fields: dict[str, Array], rows: Rows = rows, known: dict[str, Any] = known) -> Array:
                return evaluate(rows.region, fields, known)

            own = _weighed(jax.jvp(residual, (fields,), (slopes,))[1], rows.root)
            scale = self._scale(rows, own, rows.root)
            columns.append((own * scale).reshape(len(own), self._times, -1))
            scales.append(jnp.broadcast_to(scale, columns[-1].shape[1:]))
        matrix = jnp.concatenate(columns, axis=2).reshape(starts[-1], -1)
        # Unknowns of one size: derivatives of high modes are large.
        sizes = jnp.sqrt(jnp.sum(matrix**2, axis=1))
        sizes = jnp.where(sizes > 0, sizes, 1.0)
        matrix = matrix / sizes[:, None]
        gram = matrix @ matrix.T + RIDGE * jnp.eye(len(matrix))
        return Step(matrix, jnp.linalg.cholesky(gram), sizes, jnp.concatenate(scales, axis=1).ravel())

    def solve(self, step: Factors, residual: Float[Array, " rows"]) -> Float[Array, " unknowns"]:
        """-(J^T J)^-1 J^T r."""
        if isinstance(step, Apart):
            assert self.stages is not None
            return self.stages.solve(step, residual.reshape(self._times, -1), self._places)
        right = -(step.columns @ (step.scales * residual))
        return jax.scipy.linalg.cho_solve((step.factor, True), right) / step.sizes

    def moved(self, at: Coefficients, change: Float[Array, " unknowns"]) -> Coefficients:
        """The coefficients with a change of the free ones."""
        starts = self._starts
        return tuple(
            each.at[first:last, self.places].add(change[begin:end].reshape(-1, len(self.places)))
            for each, (first, last), begin, end in zip(at, self.free, starts[:-1], starts[1:], strict=True)
        )

    def replaced(self, at: Coefficients, guess: Coefficients) -> Coefficients:
        """The coefficients with the free ones of a guess."""
        return tuple(
            each.at[first:last, self.places].set(other[first:last, self.places])
            for each, other, (first, last) in zip(at, guess, self.free, strict=True)
        )


def known_in(
    rows: Rows,
    moment: Moment,
    matrices: dict[str, Numbers],
    a: Float[Array, " m"] | Float[ndarray, " m"],
    *,
    problem: Problem,
    time: int | None,
) -> dict[str, Any]:
    """The inputs and coordinates at a region's points, by name."""
    slices, domain = problem.inputs.slices, problem.domain
    found = {name: (matrices[name] @ a[slices[of]])[None] for name, (of, _) in rows.region.terms.inputs.items()}
    for name in rows.region.terms.coordinates:
        (column,) = domain.columns(name)
        if column == time:
            found[name] = (moment.start + moment.length * rows.theta)[None]
        else:
            found[name] = rows.where.points[None, :, column]
    return found


def _repeated(row: Any, count: int) -> Any:
    """As so many rows; what is known stays so."""
    library = np if isinstance(row, np.ndarray) else jnp
    return library.broadcast_to(row, (count, row.shape[1]))


def _weighed(entries: Array, root: Float[Array, " n"]) -> Float[Array, "batch rows"]:
    """Points and channels as one axis, with the square roots of the points' weights."""
    entries = entries.reshape(*entries.shape[:2], -1) * root[:, None]
    return entries.reshape(len(entries), -1)
