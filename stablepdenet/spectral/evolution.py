"""The rough part of the values at the start, as it evolves by the linear part of the equations."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from stablepdenet.spectral.equations import Equations, Moment
from stablepdenet.spectral.functions import Clock
from stablepdenet.spectral.plan import Plan
from stablepdenet.spectral.rows import Coefficients, Numbers
from stablepdenet.spectral.stepping import ends, rescaled

# Inputs whose mean says where the linear part of the equations is taken.
DRAWN = 64
# The first is exact but for rounding, and for what changes within a step.
ITERATIONS = 3


def evolution_of(plan: Plan, high: Int[ndarray, " h"]) -> tuple[Float[ndarray, "steps starts size k"], ...]:
    """How each high function at the start evolves by the linear part of the equations, taken at 0 and the mean input:
    of each component, and each derivative in time that the start gives."""
    clocks, size = plan.clocks, plan.space.size
    count = len(high) * sum(clock.order for clock in clocks)
    start = tuple(np.zeros((count, clock.size, size)) for clock in clocks)
    row = 0
    for each, clock in zip(start, clocks, strict=True):
        for order in range(clock.order):
            each[np.arange(row, row + len(high)), order, high] = 1.0
            row += len(high)
    if not count:
        return tuple(np.zeros((len(plan.lengths), *each.shape)) for each in start)
    equations = plan.step(rough=True)
    drawn = plan.setting.problem.inputs.sample(DRAWN, key=jax.random.key(0))
    middle = np.asarray(drawn, np.float64).mean(axis=0)
    with jax.enable_x64(True):
        _, found = eqx.filter_jit(_evolve)(equations, start, plan.moments(equations.rows), middle, clocks)
        return jax.tree.map(np.asarray, found)


def _evolve(
    equations: Equations, start: tuple[Numbers, ...], moments: Moment, a: Numbers, clocks: tuple[Clock, ...]
) -> tuple[Coefficients, Coefficients]:
    """Marches many starts by the linear part at 0 and `a`."""
    zero = jax.tree.map(lambda each: jnp.zeros(each.shape[1:]), start)

    def following(given: Coefficients, moment: Moment) -> tuple[Coefficients, Coefficients]:
        step = equations.factorise(zero, a, moment)

        def one(given: Coefficients) -> Coefficients:
            at = tuple(rescaled(each, moment.length) for each in given)
            for _ in range(ITERATIONS):
                _, slope = jax.jvp(lambda at: equations.residual(at, a, moment), (zero,), (at,))
                at = equations.moved(at, equations.solve(step, slope))
            return at

        found = jax.vmap(one)(given)
        return jax.vmap(lambda at: ends(at, clocks, moment.length))(found), found

    return jax.lax.scan(following, start, moments)
