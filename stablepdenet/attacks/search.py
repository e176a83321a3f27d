"""Other ways to search an attack's set: what a low error under PGD is checked with, and what it is compared to.

A low error under fixed-step PGD may mean a stable operator, or gradients that mislead. An automatic step size, restarts
and a search without gradients tell the two apart; noise of equal norm says how much of the harm is due to the search.
Each search here has the form (attack, objective, a, *, key) -> Attacked.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PRNGKeyArray
from numpy import ndarray

from stablepdenet.attacks.balls import ETA
from stablepdenet.attacks.pgd import PGD, Attacked, Objective

Search = Callable[..., Attacked]

# The audit's PGD. On error operators without a gap in their spectrum the training attack (40 steps of a tenth of the
# radius, one start) reaches 0.95 of the worst case in the mean and 0.8 at worst; this reaches 0.99 at worst.
STEPS, STEP_SIZE, RESTARTS = 100, 0.25, 5
# APGD's constants (Croce and Hein 2020): momentum, and the share of ascending steps below which the step is halved.
MOMENTUM, ASCENDING = 0.75, 0.75


class _Ascent(NamedTuple):
    """What APGD carries along, for each input."""

    z: Float[Array, "batch k"]
    previous: Float[Array, "batch k"]
    value: Float[Array, " batch"]
    gradient: Float[Array, "batch k"]
    best: Float[Array, "batch k"]
    best_value: Float[Array, " batch"]
    best_gradient: Float[Array, "batch k"]
    step: Float[Array, " batch"]
    ascents: Float[Array, " batch"]
    checked_value: Float[Array, " batch"]
    halved: Bool[Array, " batch"]


def pgd(attack: PGD, objective: Objective, a: Float[Array, "batch m"], *, key: PRNGKeyArray) -> Attacked:
    """Algorithm 1 as it stands (alg:stable_attack): fixed steps, last iterate."""
    return attack(objective, a, key=key)


def strong_pgd(attack: PGD, objective: Objective, a: Float[Array, "batch m"], *, key: PRNGKeyArray) -> Attacked:
    """Algorithm 1 with longer and more steps and restarts: the audit's white-box attack."""
    longer = dataclasses.replace(attack, steps=STEPS, step_size=STEP_SIZE)
    return best_of(pgd, RESTARTS)(longer, objective, a, key=key)


def apgd(
    attack: PGD, objective: Objective, a: Float[Array, "batch m"], *, steps: int = 100, key: PRNGKeyArray
) -> Attacked:
    """Ascent with momentum. The step starts at twice the radius and is halved, for each input by itself, where progress
    stalls between checkpoints; the ascent then goes on from the best point (Croce and Hein 2020, "Reliable evaluation
    of adversarial robustness with an ensemble of diverse parameter-free attacks")."""
    radius, checkpoints = attack.ball.radius(a), _checkpoints(steps)
    lengths = jnp.asarray(np.diff(checkpoints, prepend=0), a.dtype)
    number = jnp.asarray(np.searchsorted(checkpoints, np.arange(1, steps + 1)))
    due = jnp.asarray(np.isin(np.arange(1, steps + 1), checkpoints))

    def evaluate(z: Float[Array, "batch k"]) -> tuple[Float[Array, " batch"], Float[Array, "batch k"]]:
        value, pull = jax.vjp(lambda z: objective(attack.attacked(z, a).inputs), z)
        return value, pull(jnp.ones_like(value))[0]

    def advance(i: Array, s: _Ascent) -> _Ascent:
        target = attack.project(s.z + s.step[:, None] * radius * attack.ball.normalise(s.gradient), a)
        inertia = jnp.where(i == 0, 0.0, 1.0 - MOMENTUM) * (s.z - s.previous)
        z = attack.project(s.z + jnp.where(i == 0, 1.0, MOMENTUM) * (target - s.z) + inertia, a)
        value, gradient = evaluate(z)
        better = value > s.best_value
        ascended = s._replace(
            z=z,
            previous=s.z,
            value=value,
            gradient=gradient,
            best=_where(better, z, s.best),
            best_value=jnp.where(better, value, s.best_value),
            best_gradient=_where(better, gradient, s.best_gradient),
            ascents=s.ascents + (value > s.value),
        )
        checked = _check(ascended, lengths[number[i]])
        return jax.tree.map(lambda new, old: jnp.where(due[i], new, old), checked, ascended)

    z = attack.first(a, key=key)
    value, gradient = evaluate(z)
    zero = jnp.zeros_like(value)
    state = _Ascent(
        z, z, value, gradient, z, value, gradient, jnp.full_like(value, 2.0), zero, value, jnp.zeros(len(a), bool)
    )
    return attack.attacked(jax.lax.fori_loop(0, steps, advance, state).best, a)


def _check(s: _Ascent, interval: Float[Array, ""]) -> _Ascent:
    """Halves the step where too few steps ascended, or where neither the step nor the best value changed."""
    stalled = (s.ascents < ASCENDING * interval) | (~s.halved & (s.checked_value == s.best_value))
    return s._replace(
        z=_where(stalled, s.best, s.z),
        previous=_where(stalled, s.best, s.previous),
        value=jnp.where(stalled, s.best_value, s.value),
        gradient=_where(stalled, s.best_gradient, s.gradient),
        step=jnp.where(stalled, s.step / 2, s.step),
        ascents=jnp.zeros_like(s.ascents),
        checked_value=s.best_value,
        halved=stalled,
    )


def _checkpoints(steps: int) -> list[int]:
    """Iterations at which progress is checked: intervals shrink from 0.22 to 0.06 of the whole."""
    shares, width = [0.0, 0.22], 0.22
    while shares[-1] < 1:
        width = max(width - 0.03, 0.06)
        shares.append(shares[-1] + width)
    return sorted({int(np.ceil(share * steps)) for share in shares[1:] if share <= 1} | {steps})


def random_search(
    attack: PGD, objective: Objective, a: Float[Array, "batch m"], *, evaluations: int = 1000, key: PRNGKeyArray
) -> Attacked:
    """Without gradients: from an extreme point of the ball, changes a random window of coordinates by a random length,
    in one direction or in a random one for each, and keeps what is better."""

    def propose(i: Array, best: tuple[Array, Array]) -> tuple[Array, Array]:
        z, value = best
        candidate = attack.project(z + _move(attack, a, z.shape[1], jax.random.fold_in(key, i)), a)
        found = objective(attack.attacked(candidate, a).inputs)
        return _where(found > value, candidate, z), jnp.maximum(found, value)

    z = _extreme(attack, a, attack.ball.start(a, key=key))
    value = objective(attack.attacked(z, a).inputs)
    return attack.attacked(jax.lax.fori_loop(0, evaluations, propose, (z, value))[0], a)


def _move(attack: PGD, a: Float[Array, "batch m"], size: int, key: PRNGKeyArray) -> Float[Array, "batch k"]:
    """A step in a random window: of 1 to all coordinates, and of 0.02 to 2 radii, both uniform in the logarithm."""
    keys = jax.random.split(key, 5)
    width = jnp.exp(jax.random.uniform(keys[0], (len(a), 1)) * np.log(size))
    middle = jax.random.uniform(keys[1], (len(a), 1)) * size
    window = jnp.abs(jnp.arange(size) + 0.5 - middle) <= width / 2
    signs = jax.random.normal(keys[2], (len(a), size), a.dtype)
    signs = jnp.where(jax.random.bernoulli(keys[3], 0.5, (len(a), 1)), signs, signs[:, :1])
    length = 2.0 * jnp.exp(jax.random.uniform(keys[4], (len(a), 1)) * np.log(0.01))
    return length * attack.ball.radius(a) * attack.ball.normalise(window * signs)


def best_of(search: Search, restarts: int) -> Search:
    """The search from so many starts, random ones and then the clean input; the best result for each input. Some models
    have corners of the ball as traps for random starts."""

    def repeated(attack: PGD, objective: Objective, a: Float[Array, "batch m"], *, key: PRNGKeyArray) -> Attacked:
        def again(
            best: tuple[Attacked, Array], start: tuple[Array, PRNGKeyArray]
        ) -> tuple[tuple[Attacked, Array], None]:
            random, own = start
            found = search(dataclasses.replace(attack, random_start=random), objective, a, key=own)
            value = objective(found.inputs)
            kept = jax.tree.map(lambda new, old: _where(value > best[1], new, old), found, best[0])
            return (kept, jnp.maximum(value, best[1])), None

        nothing = Attacked(a, jnp.zeros_like(a)), jnp.full(len(a), -jnp.inf, a.dtype)
        # The clean input last: of equal results, a perturbed one says more.
        starts = jnp.arange(restarts) < restarts - 1, jax.random.split(key, restarts)
        return jax.lax.scan(again, nothing, starts)[0][0]

    return repeated


def white_noise(attack: PGD, a: Float[Array, "batch m"], *, key: PRNGKeyArray) -> Attacked:
    """Random signs, or a random direction: noise on the sphere of the ball."""
    return attack.attacked(_extreme(attack, a, attack.ball.start(a, key=key)), a)


def smooth_noise(
    attack: PGD, a: Float[Array, "batch m"], modes: Float[ndarray, "band m"], *, key: PRNGKeyArray
) -> Attacked:
    """A random combination of the given modes with the norm of the ball's radius."""
    delta = jax.random.normal(key, (len(a), len(modes)), a.dtype) @ jnp.asarray(modes, a.dtype)
    z = attack.ball.coordinates(delta)
    return attack.attacked(attack.project(z * attack.ball.radius(a) / (attack.ball.norm(z) + ETA), a), a)


def _extreme(attack: PGD, a: Float[Array, "batch m"], z: Float[Array, "batch k"]) -> Float[Array, "batch k"]:
    return attack.project(attack.ball.radius(a) * attack.ball.normalise(z), a)


def _where(
    condition: Bool[Array, " batch"], yes: Float[Array, "batch k"], no: Float[Array, "batch k"]
) -> Float[Array, "batch k"]:
    return jnp.where(condition[:, None], yes, no)
