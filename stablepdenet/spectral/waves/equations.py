"""The equations of a problem that is periodic in all of space, wave by wave: no matrix is larger than a wave's own.

With the equations' slopes replaced by their means over space, a change of the coefficients c changes the part R_m that
the residual has in a wave m by

    M_m dc_m,    M_m = sum over terms of (mean slope) (functions of time at theta_q) / h^n (i w_m)^s.

So c -> c - M^-1 R(c), mixed with earlier iterations, finds where the residual has no part in any of the waves. An
iteration costs some Fourier transforms.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.scipy.sparse.linalg import bicgstab
from jaxtyping import Array, Bool, Complex, Float

from stablepdenet.operators import Derivative
from stablepdenet.spectral.equations import Moment, known_in
from stablepdenet.spectral.regions import evaluate
from stablepdenet.spectral.rows import Coefficients, Numbers, Rows
from stablepdenet.spectral.stepping import better_start
from stablepdenet.spectral.waves.layout import Layout
from stablepdenet.spectral.waves.mixing import fixed_point

# An iteration that moves the coefficients by less, of their size, has arrived; after the last iteration one that moves
# them by less than the second has too.
ARRIVED, NEARLY = 1e-8, 3e-5
ITERATIONS = 60
# What is left of the equations that gradients solve.
LEFT = 1e-8

Change = Float[Array, " unknowns"]


class Waves(eqx.Module):
    """Equations at some times, in coefficients of each component: of its functions of time `free`, times all waves.
    `inverses` are of M, real and imaginary parts, for each of the `kinds` of time steps. `slopes` are those of linear
    equations that are the same everywhere: then no grid is needed."""

    rows: tuple[Rows, ...]
    inverses: tuple[Numbers, Numbers]
    kinds: Numbers
    slopes: tuple[dict[str, Numbers], ...] | None
    layout: Layout = eqx.field(static=True)

    @property
    def unknowns(self) -> int:
        return self.layout.starts[-1]

    def residual(
        self, at: Coefficients, a: Float[Array, " m"], moment: Moment
    ) -> Callable[[Change], Complex[Array, "q equations ..."]]:
        """The residual's parts in the waves, as a function of changes of the coefficients."""
        layout = self.layout
        known = [self._known(number, a, moment) for number in range(len(self.rows))]
        if self.slopes is not None:
            return self._same_everywhere(at, known, moment)

        def parts(change: Change) -> Complex[Array, "q equations ..."]:
            waves = [layout.to_waves(each) for each in self.changed(at, change)]
            values: dict[tuple[int, Derivative], Array] = {}
            fields: list[dict[str, Array]] = []
            for terms in layout.terms:
                fields.append({})
                for name, term in terms.items():
                    key = (term.component, term.inner)
                    if key not in values:
                        values[key] = layout.on_grid(waves[term.component] * layout.symbol(term.inner))
                    fields[-1][name] = (term.times @ values[key] / moment.length**term.order).reshape(1, -1)
            return self._parts(fields, known)

        return parts

    def _parts(
        self, fields: Sequence[dict[str, Array]], known: Sequence[dict[str, Any]]
    ) -> Complex[Array, "q equations ..."]:
        """The parts in the waves of what the equations leave on the grid."""
        layout, found = self.layout, []
        for rows, each, own in zip(self.rows, fields, known, strict=True):
            entries = evaluate(rows.region, each, own).reshape(layout.times, math.prod(layout.shape), -1)
            found.append(jnp.moveaxis(entries, -1, 1))
        entries = jnp.concatenate(found, axis=1)
        return layout.off_grid(entries.reshape(-1, entries.shape[-1])).reshape(*entries.shape[:2], *layout.kept)

    def _same_everywhere(
        self, at: Coefficients, known: Sequence[dict[str, Any]], moment: Moment
    ) -> Callable[[Change], Complex[Array, "q equations ..."]]:
        """The residual's parts by the slopes, and what the equations are without a solution."""
        layout, slopes = self.layout, self.slopes
        assert slopes is not None
        nothing = jnp.zeros((1, layout.times * math.prod(layout.shape)))
        rest = self._parts([dict.fromkeys(terms, nothing) for terms in layout.terms], known)

        def parts(change: Change) -> Complex[Array, "q equations ..."]:
            waves = [layout.to_waves(each) for each in self.changed(at, change)]
            found = []
            for terms, own in zip(layout.terms, slopes, strict=True):
                total: Any = 0.0
                for name, term in terms.items():
                    each = jnp.tensordot(term.times / moment.length**term.order, waves[term.component], 1)
                    total += jnp.tensordot(own[name], each * layout.symbol(term.inner), 0)
                found.append(jnp.moveaxis(total, 0, 1))
            return rest + jnp.concatenate(found, axis=1)

        return parts

    def settled(
        self,
        at: Coefficients,
        a: Float[Array, " m"],
        moment: Moment,
        kind: Numbers,
        *,
        wanted: Bool[Array, ""] | bool = True,
    ) -> tuple[Coefficients, Bool[Array, ""]]:
        """Iterations until they arrive, and whether they do."""
        residual, size = self.residual(at, a, moment), jnp.sqrt(sum(jnp.sum(each**2) for each in at))

        def sized(change: Change) -> Float[Array, ""]:
            return size + jnp.linalg.norm(change)

        begin = jnp.zeros(self.unknowns)
        if self.slopes is not None:
            change = self._solved(residual(begin), kind)
            change += self._solved(residual(change), kind)  # what rounding left
            return self.changed(at, change), jnp.asarray(wanted)
        change, moved = fixed_point(
            lambda change: self._solved(residual(change), kind),
            begin,
            size=sized,
            arrived=ARRIVED,
            most=ITERATIONS,
            wanted=wanted,
        )
        return self.changed(at, change), (moved <= NEARLY) & wanted

    def linearised(self, at: Coefficients, a: Float[Array, " m"], moment: Moment, kind: Numbers) -> Coefficients:
        """One Newton iteration from a solution, with the slopes held: its gradients are those of the solution."""
        begin = jnp.zeros(self.unknowns)
        change = self._solved(self.residual(at, a, moment)(begin), kind)
        held = self.residual(*jax.lax.stop_gradient((at, a, moment)))

        def slope(along: Change) -> Change:
            return -self._solved(jax.jvp(held, (begin,), (along,))[1], kind)

        return self.changed(at, bicgstab(slope, change, tol=LEFT, maxiter=ITERATIONS)[0])

    def better(
        self, starts: Sequence[Coefficients], a: Float[Array, " m"], moment: Moment, kind: Numbers
    ) -> Coefficients:
        """The one that the first iteration moves least; where one iteration is enough, any will do."""
        if self.slopes is not None:
            return starts[0]

        def size(at: Coefficients) -> Float[Array, ""]:
            return jnp.linalg.norm(self._solved(self.residual(at, a, moment)(jnp.zeros(self.unknowns)), kind))

        return better_start(starts, size)

    def changed(self, at: Coefficients, change: Change) -> Coefficients:
        """The coefficients with a change of the free ones."""
        starts = self.layout.starts
        return tuple(
            each.at[first:last].add(change[begin:end].reshape(last - first, each.shape[1]))
            for each, (first, last), (begin, end) in zip(at, self.layout.free, pairwise(starts), strict=True)
        )

    def replaced(self, at: Coefficients, guess: Coefficients) -> Coefficients:
        """The coefficients with the free ones of a guess."""
        return tuple(
            each.at[first:last].set(other[first:last])
            for each, other, (first, last) in zip(at, guess, self.layout.free, strict=True)
        )

    def _known(self, number: int, a: Float[Array, " m"], moment: Moment) -> dict[str, Any]:
        matrices, layout = moment.matrices[number], self.layout
        return known_in(self.rows[number], moment, matrices, a, problem=layout.problem, time=layout.time)

    def _solved(self, parts: Complex[Array, "q equations ..."], kind: Numbers) -> Change:
        """-M^-1 R, as a change of the coefficients."""
        layout = self.layout
        real, imaginary = (each[kind] for each in self.inverses)
        flat = parts.reshape(-1, math.prod(layout.kept)).T
        found = -jnp.einsum("mij,mj->im", jax.lax.complex(real, imaginary), flat)
        return layout.from_waves(found.reshape(-1, *layout.kept)).ravel()
