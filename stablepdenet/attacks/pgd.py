"""The two balls of the paper."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from stablepdenet.attacks.admissible import AbstractAdmissibleSet, Budget, Switch, Unrestricted
from stablepdenet.attacks.base import AbstractPGD
from stablepdenet.spaces import AbstractInput

# eta_pgd: keeps directions and projections finite at the origin.
ETA = 1e-12


class PGDLinf(AbstractPGD):
    """Pointwise PGD-linf: |delta_i| <= eps, absolute, ascent along the gradient's sign (eq:pgd-attack-linf)."""

    eps: Budget
    admissible: AbstractAdmissibleSet = Unrestricted()
    steps: int = 40
    step_size: float = 0.1
    random_start: Switch = True

    def radius(self, a: Float[Array, "batch m"]) -> Float[Array, "batch 1"]:
        return jnp.full((len(a), 1), self.eps)

    def start(self, a: Float[Array, "batch m"], *, key: PRNGKeyArray) -> Float[Array, "batch m"]:
        return jax.random.uniform(key, a.shape, a.dtype, minval=-self.eps, maxval=self.eps)

    def direction(self, gradient: Float[Array, "batch m"]) -> Float[Array, "batch m"]:
        return jnp.sign(gradient)

    def project(self, z: Float[Array, "batch m"], a: Float[Array, "batch m"]) -> Float[Array, "batch m"]:
        return self.admissible.project(z, a, self.eps)

    def length(self, z: Float[Array, "batch m"]) -> Float[Array, "batch 1"]:
        return jnp.max(jnp.abs(z), axis=1, keepdims=True)

    def perturbation(self, z: Float[Array, "batch m"]) -> Float[Array, "batch m"]:
        return z

    def coordinates(self, delta: Float[Array, "batch m"]) -> Float[Array, "batch m"]:
        return delta

    def describe(self) -> str:
        return f"PGD-linf, |delta| <= {self.eps:g}"


class PGDBandLimited(AbstractPGD):
    """Band-limited PGD-l2: delta = sum_{n <= band} beta_n phi_n with ||beta||_2 <= eps ||c||_2.

    The radius is relative to the input's own norm, the ascent goes along the normalised gradient
    (eq:bl-l2-admissible-set, eq:pgd-attack-bl-l2).

    Points outside of the ball go to the nearest one in it. Where the admissible set binds as well, the perturbation is
    shrunk into it, which keeps its shape ("projected or rescaled") but need not be the nearest point.

    For an input that is itself modal, phi_n are its own first `band` modes; for sensor values they are the
    orthonormal sine modes at the sensors.
    """

    eps: Budget
    input: AbstractInput = eqx.field(kw_only=True)
    band: int = eqx.field(kw_only=True)
    admissible: AbstractAdmissibleSet = Unrestricted()
    steps: int = 40
    step_size: float = 0.1
    random_start: Switch = True

    def radius(self, a: Float[Array, "batch m"]) -> Float[Array, "batch 1"]:
        return self.eps * self.input.radius(a)[:, None]

    def start(self, a: Float[Array, "batch m"], *, key: PRNGKeyArray) -> Float[Array, "batch band"]:
        return jax.random.normal(key, (len(a), self.band), a.dtype)

    def direction(self, gradient: Float[Array, "batch band"]) -> Float[Array, "batch band"]:
        return gradient / (jnp.linalg.norm(gradient, axis=1, keepdims=True) + ETA)

    def project(self, z: Float[Array, "batch band"], a: Float[Array, "batch m"]) -> Float[Array, "batch band"]:
        inside = z * jnp.minimum(1.0, self.radius(a) / jnp.maximum(self.length(z), ETA))
        return inside * self.admissible.shrinkage(self.perturbation(inside), a)

    def length(self, z: Float[Array, "batch band"]) -> Float[Array, "batch 1"]:
        return jnp.linalg.norm(z, axis=1, keepdims=True)

    def perturbation(self, z: Float[Array, "batch band"]) -> Float[Array, "batch m"]:
        return z @ jnp.asarray(self.input.modes(self.band), z.dtype)

    def coordinates(self, delta: Float[Array, "batch m"]) -> Float[Array, "batch band"]:
        return delta @ jnp.asarray(np.linalg.pinv(self.input.modes(self.band)), delta.dtype)

    def describe(self) -> str:
        return f"PGD-l2 in {self.band} modes, ||beta|| <= {self.eps:g} ||c||"
