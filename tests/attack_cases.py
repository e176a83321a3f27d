"""Inputs and runners that the tests of attacks share."""

from __future__ import annotations

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from stablepdenet.attacks import PGD, Attacked
from stablepdenet.functions import GaussianField, ModalInput, SensorInput, SineSeries

MODAL = ModalInput(SineSeries())
SENSORS = np.linspace(0, 1, 21)
SENSOR = SensorInput(GaussianField(), SENSORS)
KEY = jax.random.key(0)


def runner(attack: PGD, objective: Callable[[Array], Array]) -> Callable[..., Attacked]:
    """The attack as a function of (number of steps, inputs, key): one compilation serves them all."""
    return jax.jit(lambda steps, a, key: eqx.tree_at(lambda x: x.steps, attack, steps)(objective, a, key=key))


def attack_jitted(
    attack: PGD, objective: Callable[[Array], Array], a: Array | np.ndarray, key: Array = KEY
) -> Attacked:
    return jax.jit(lambda a, key: attack(objective, a, key=key))(jnp.asarray(a), key)


def modal_inputs() -> np.ndarray:
    """Inputs whose norms differ by a factor of a hundred."""
    c = np.random.default_rng(0).normal(size=(3, 10))
    return c / np.linalg.norm(c, axis=1, keepdims=True) * np.array([[0.1], [1.0], [10.0]])


def sensor_inputs() -> np.ndarray:
    """Smooth inputs in [0.5, 1.5], with equal ends."""
    phases = np.array([[0.0], [0.2], [0.7]])
    a = 1 + np.array([[0.5], [0.3], [0.1]]) * np.sin(2 * np.pi * (SENSORS + phases))
    a[:, -1] = a[:, 0]
    return a
