"""Problems whose errors have bounds: second-order equations with given values on all sides, read off the residuals."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int
from numpy import ndarray

from stablepdenet.functions import SensorInput
from stablepdenet.operators import Derivative
from stablepdenet.solving import SIZES
from stablepdenet.spectral.regions import Region, evaluate
from stablepdenet.spectral.setting import Setting

# How well a residual must add up to count as linear.
CLOSE = 1e-9
# Points at which a residual is tried.
TRIED = 64
# Coordinates of space at most.
MOST = 2

Numbers = Float[ndarray, "batch n"]


class Linear(NamedTuple):
    """F(u) = sum_i slopes_i D_i u + rest at some points, for some inputs, and whether F is of this form."""

    slopes: dict[Derivative, Numbers]
    rest: Numbers
    sound: bool


class Equation(NamedTuple):
    """u_t - sum_i k_i u_ii + sum_i b_i u_i + c u = f at some points (without u_t where there is no time), and for which
    inputs this is what the residual says."""

    k: tuple[Numbers, ...]
    b: tuple[Numbers, ...]
    c: Numbers
    f: Numbers
    sound: Bool[ndarray, " batch"]


@dataclass(frozen=True, eq=False)
class Form:
    """One equation inside, one on each side that is no period, one at the start of time if there is time. `sides` are
    by coordinate of space and end (0 or 1)."""

    setting: Setting
    inside: Region
    sides: dict[tuple[int, int], Region]
    start: Region | None

    @property
    def columns(self) -> list[int]:
        """The coordinates of space."""
        return self.setting.columns

    @property
    def intervals(self) -> list[tuple[float, float]]:
        """Those of space."""
        return [self.setting.problem.domain.intervals[column] for column in self.columns]

    @property
    def begin(self) -> float:
        """When time begins."""
        time = self.setting.time
        return 0.0 if time is None else self.setting.problem.domain.intervals[time][0]

    def breaks(self, column: int) -> Float[ndarray, " b"]:
        """Where inputs may have kinks along a coordinate."""
        problem, found = self.setting.problem, [np.asarray(self.setting.problem.domain.intervals[column])]
        for each in (problem.inputs[name] for name in problem.inputs):
            own = problem.domain.columns(each.of)
            if isinstance(each, SensorInput) and column in own:
                found.append(each.axes[own.index(column)])
        return np.unique(np.concatenate(found))

    def placed(self, points: Float[ndarray, "n space"]) -> Float[ndarray, "n dim"]:
        """Points of space at the start of time."""
        if self.setting.time is None:
            return points
        return np.insert(points, self.setting.time, self.begin, axis=1)

    def equation(self, a: Float[ndarray, "batch m"], points: Float[ndarray, "n space"]) -> Equation:
        """The equation inside at some points."""
        slopes, rest, linear = self._linear(self.inside, a, points)
        nothing, time = np.zeros_like(rest), self.setting.time
        scale = -np.sign(slopes[(self.columns[0],) * 2][:, :1]) if time is None else 1.0 / _nonzero(slopes[(time,)])
        k = tuple(-scale * slopes[(i, i)] for i in self.columns)
        b = tuple(scale * slopes.get((i,), nothing) for i in self.columns)
        c, f = scale * slopes.get((), nothing), -scale * rest
        finite = np.all([np.all(np.isfinite(each), axis=1) for each in (*k, *b, c, f)], axis=0)
        positive = np.all([np.all(each > 0.0, axis=1) for each in k], axis=0)
        return Equation(k, b, c, f, finite & positive & linear)

    def values(self, region: Region, a: Float[ndarray, "batch m"], points: Float[ndarray, "n space"]) -> Numbers:
        """What a side or the start says of u; NaN where it does not."""
        slopes, rest, linear = self._linear(region, a, points)
        return -rest / _nonzero(slopes[()]) if linear else np.full_like(rest, np.nan)

    def _linear(self, region: Region, a: Float[ndarray, "batch m"], points: Float[ndarray, "n space"]) -> Linear:
        """Unit values of each derivative say its slope; random ones whether that is all."""
        problem, names = self.setting.problem, region.terms.solution
        where, domain, slices = self.placed(points), problem.domain, problem.inputs.slices
        known = {name: where[None, :, domain.columns(name)[0]] for name in region.terms.coordinates}
        inputs = {}
        for name, (of, derivative) in region.terms.inputs.items():
            few = problem.inputs[of].interpolation(where[:, domain.columns(problem.inputs[of].of)], derivative)
            own = a[:, slices[of]]
            if few is None:
                matrix = problem.inputs[of].matrix(where[:, domain.columns(problem.inputs[of].of)], derivative)
                inputs[name] = own @ np.asarray(matrix).T
            else:
                corners = zip(few.sensors.T, few.weights.T, strict=True)
                inputs[name] = sum(own[:, sensors] * weights for sensors, weights in corners)

        every = np.arange(len(where))

        def residual(fields: dict[str, Numbers], at: Int[ndarray, " p"] = every) -> Numbers:
            own: dict[str, Any] = {name: values[:, at] for name, values in known.items()}
            own |= {name: jnp.asarray(values[:, at]) for name, values in inputs.items()}
            found = evaluate(region, {name: jnp.asarray(each) for name, each in fields.items()}, own)
            # Several equations in one are none of this form.
            whole = found.size == len(a) * len(at)
            return np.asarray(found, np.float64).reshape(len(a), -1) if whole else np.full((len(a), len(at)), np.nan)

        with jax.enable_x64(True), np.errstate(all="ignore"):
            zero, one = np.zeros((len(a), len(where))), np.ones((len(a), len(where)))
            rest = residual(dict.fromkeys(names, zero))
            found = {
                index: residual({other: one if other == name else zero for other in names}) - rest
                for name, (_, index) in names.items()
            }
            rng = np.random.default_rng(0)
            some, sound = rng.choice(every, min(TRIED, len(every)), replace=False), True
            for size in SIZES:
                fields = {name: size * rng.normal(size=(len(a), len(some))) for name in names}
                parts = [found[index][:, some] * fields[name] for name, (_, index) in names.items()] + [rest[:, some]]
                allowed = CLOSE * np.sum(np.abs(parts), axis=0)
                # Inputs that are no numbers say nothing.
                close = np.abs(residual(fields, some) - np.sum(parts, axis=0)) <= allowed
                sound &= bool(np.all(close | ~np.isfinite(allowed)))
        return Linear(found, rest, sound)


@lru_cache(maxsize=4)
def read_form(setting: Setting) -> Form | None:
    """The form of a problem; None where it is another one."""
    problem, time, columns = setting.problem, setting.time, setting.columns
    domain = problem.domain
    inside = [region for region in setting.regions if region.inside]
    if len(problem.solution) > 1 or len(inside) != 1 or not 1 <= len(columns) <= MOST:
        return None
    indices = {index for _, index in inside[0].terms.solution.values()}
    needed = {(i, i) for i in columns} | ({(time,)} if time is not None else set())
    if not needed <= indices <= needed | {()} | {(i,) for i in columns}:
        return None
    sides: dict[tuple[int, int], Region] = {}
    start = None
    for region in setting.regions:
        fixed = [i for i in range(domain.dimension) if region.fixed(i)]
        whole = all(region.intervals[i] == domain.intervals[i] for i in range(domain.dimension) if i not in fixed)
        if region.own is not None or region.pair is not None or not whole or _timed(region, setting):
            return None
        if region.inside:
            continue
        if len(fixed) != 1 or [index for _, index in region.terms.solution.values()] != [()]:
            return None
        if setting.initial(region):
            twice, start = start is not None, region
        else:
            place = (columns.index(fixed[0]), int(region.intervals[fixed[0]][0] == domain.intervals[fixed[0]][1]))
            twice, sides[place] = place in sides, region
        if twice:
            return None
    due = {(i, end) for i, column in enumerate(columns) if not setting.periodic[column] for end in (0, 1)}
    return Form(setting, inside[0], sides, start) if set(sides) == due and (start is None) == (time is None) else None


def _timed(region: Region, setting: Setting) -> bool:
    """Whether what is known in an equation may change with time, other than its being at the start."""
    if setting.time is None or setting.initial(region):
        return False
    problem, letter = setting.problem, setting.problem.domain.coordinates[setting.time]
    letters = "".join(problem.inputs[of].of for of, _ in region.terms.inputs.values())
    return letter in region.terms.coordinates or letter in letters


def _nonzero(values: Numbers) -> Numbers:
    return np.where(values == 0.0, np.nan, values)
