"""Values at the start, where conditions say what they are: no sum of smooth functions follows a rough input as well."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int
from numpy import ndarray

from stablepdenet.spectral.regions import AT_END, Region, evaluate
from stablepdenet.spectral.setting import Setting

# Entries of a matrix at most.
LARGE = 2**26


class Beginning(NamedTuple):
    """u = M a + rest of one component at those of some points that lie at the start."""

    where: Int[Array, " n"]
    matrix: Float[Array, "n m"]
    rest: Float[Array, " n"]

    def put(self, fields: Float[Array, "batch n"], a: Float[Array, "batch m"]) -> Float[Array, "batch n"]:
        """The values at all points, with what is known among them."""
        return fields.at[:, self.where].set(a @ self.matrix.T + self.rest)

    def put_slopes(self, slopes: Float[Array, "batch n m"]) -> Float[Array, "batch n m"]:
        """The same of the values' derivatives in the input."""
        return slopes.at[:, self.where].set(self.matrix)

    def put_nothing(self, errors: Float[Array, "batch n"]) -> Float[Array, "batch n"]:
        """The same of differences between answers: what is known has no error."""
        return errors.at[:, self.where].set(0.0)


def beginnings(setting: Setting, points: Float[ndarray, "n dim"]) -> tuple[Beginning | None, ...]:
    """What is known of each component at some points: of those that a condition at the start gives by an equation of
    their own, s u + F(0, a) = 0."""
    found: list[Beginning | None] = [None] * len(setting.problem.solution)
    for region in setting.regions:
        terms = region.terms.solution
        if not setting.initial(region) or len(terms) != 1 or region.block.name not in setting.linear:
            continue
        ((component, derivative),) = terms.values()
        where = np.flatnonzero(_within(region, points, setting))
        if not derivative and len(where) and len(where) * setting.problem.inputs.size <= LARGE:
            found[component] = _beginning(region, setting, points[where], where)
    return tuple(found)


def _within(region: Region, points: Float[ndarray, "n dim"], setting: Setting) -> np.ndarray:
    """Which points lie in a region."""
    low, high = np.asarray(region.intervals).T
    room = AT_END * np.diff(np.asarray(setting.problem.domain.intervals))[:, 0]
    return np.all((points >= low - room) & (points <= high + room), axis=1)


def _beginning(
    region: Region, setting: Setting, points: Float[ndarray, "n dim"], where: Int[ndarray, " n"]
) -> Beginning | None:
    problem = setting.problem
    (name,), size = region.terms.solution, problem.inputs.size
    known = {each: jnp.asarray(points[None, :, problem.domain.columns(each)[0]]) for each in region.terms.coordinates}
    matrices = {
        each: problem.inputs[of].matrix(points[:, problem.domain.columns(problem.inputs[of].of)], derivative)
        for each, (of, derivative) in region.terms.inputs.items()
    }

    def residual(u: float, a: Float[ndarray, "batch m"]) -> Float[ndarray, "batch n"]:
        slices = problem.inputs.slices
        inputs = {
            each: jnp.asarray(a[:, slices[of]] @ matrices[each].T) for each, (of, _) in region.terms.inputs.items()
        }
        field = jnp.full((len(a), len(points)), u)
        return np.asarray(evaluate(region, {name: field}, inputs | known)).reshape(len(a), len(points), -1)[..., 0]

    with jax.ensure_compile_time_eval(), jax.enable_x64(True):
        nothing = np.zeros((1, size))
        rest = residual(0.0, nothing)
        slope = residual(1.0, nothing) - rest
        if np.any(np.abs(slope) <= AT_END * np.max(np.abs(slope))):
            return None
        matrix = (residual(0.0, np.eye(size)) - rest) / -slope
    return Beginning(jnp.asarray(where), jnp.asarray(matrix.T), jnp.asarray((rest / -slope)[0]))
