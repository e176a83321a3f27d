"""Balls of perturbations: a norm and a radius.

To add a norm, write one class with four short methods: where a search starts, which way it goes, the nearest point of
the ball, and the norm itself. Every search and every admissible set then works with it.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from stablepdenet.errors import ConfigError
from stablepdenet.functions import AbstractInput

# A number, or a traced one: a sweep over budgets then compiles once.
Budget = float | Float[Array, ""]
# eta_pgd: keeps directions and projections finite at the origin.
ETA = 1e-12


class AbstractBall(eqx.Module):
    """A ball of radius `eps` around each input, in coordinates z of its own with delta = perturbation(z)."""

    eps: eqx.AbstractVar[Budget]

    @abstractmethod
    def start(self, a: Float[Array, "batch m"], *, key: PRNGKeyArray) -> Float[Array, "batch k"]:
        """A random z, not yet projected."""

    @abstractmethod
    def normalise(self, gradient: Float[Array, "batch k"]) -> Float[Array, "batch k"]:
        """The direction of steepest ascent: of all z of norm 1, the one with the largest product with the gradient."""

    @abstractmethod
    def project(self, z: Float[Array, "batch k"], a: Float[Array, "batch m"]) -> Float[Array, "batch k"]:
        """The nearest point of the ball, for each input."""

    @abstractmethod
    def norm(
        self, z: Float[Array, "batch k"]
    ) -> Float[
        Array,
        (
            batch  # k
        ),
    ]:
        """The ball's norm of z; of a product of balls, for each coordinate that of the ball it belongs to."""

    @abstractmethod
    def describe(self) -> str:
        """A few words for listings."""

    def radius(
        self, a: Float[Array, "batch m"]
    ) -> Float[
        Array,
        (
            batch  # k
        ),
    ]:
        """The radius for each input; of a product of balls, for each coordinate."""
        return jnp.full((len(a), 1), self.eps)

    def size(self, m: int) -> int:
        """How many coordinates z has for inputs of m numbers."""
        return m

    def perturbation(self, z: Float[Array, "batch k"]) -> Float[Array, "batch m"]:
        """delta from z."""
        return z

    def coordinates(self, delta: Float[Array, "batch m"]) -> Float[Array, "batch k"]:
        """z from delta, or from the part of it that the coordinates can express."""
        return delta

    def moved(self, z: Float[Array, "batch k"], move: Callable[[Array], Array]) -> Float[Array, "batch k"]:
        """z after its perturbation was moved, where coordinates are those of the perturbation; else z as it is."""
        return move(z)


class LinfBall(AbstractBall):
    """|delta_i| <= eps, absolute; ascent along the gradient's sign (eq:linf-admissible-set, eq:pgd-attack-linf)."""

    eps: Budget

    def start(self, a: Float[Array, "batch m"], *, key: PRNGKeyArray) -> Float[Array, "batch m"]:
        return jax.random.uniform(key, a.shape, a.dtype, minval=-self.eps, maxval=self.eps)

    def normalise(self, gradient: Float[Array, "batch m"]) -> Float[Array, "batch m"]:
        return jnp.sign(gradient)

    def project(self, z: Float[Array, "batch m"], a: Float[Array, "batch m"]) -> Float[Array, "batch m"]:
        return jnp.clip(z, -self.eps, self.eps)

    def norm(self, z: Float[Array, "batch m"]) -> Float[Array, "batch 1"]:
        return jnp.max(jnp.abs(z), axis=1, keepdims=True)

    def describe(self) -> str:
        return f"linf, |delta| <= {self.eps:g}"


class BandLimitedBall(AbstractBall):
    """delta = sum_{n <= band} beta_n phi_n with ||beta||_2 <= eps ||c||_2.

    The radius is relative to the input's own norm, the ascent goes along the normalised gradient
    (eq:bl-l2-admissible-set, eq:pgd-attack-bl-l2).

    For an input that is itself modal, phi_n are its own first `band` modes; for sensor values they are the
    orthonormal sine modes at the sensors.
    """

    eps: Budget
    input: AbstractInput
    band: int

    def start(self, a: Float[Array, "batch m"], *, key: PRNGKeyArray) -> Float[Array, "batch band"]:
        return jax.random.normal(key, (len(a), self.band), a.dtype)

    def normalise(self, gradient: Float[Array, "batch band"]) -> Float[Array, "batch band"]:
        return gradient / (jnp.linalg.norm(gradient, axis=1, keepdims=True) + ETA)

    def project(self, z: Float[Array, "batch band"], a: Float[Array, "batch m"]) -> Float[Array, "batch band"]:
        return z * jnp.minimum(1.0, self.radius(a) / jnp.maximum(self.norm(z), ETA))

    def norm(self, z: Float[Array, "batch band"]) -> Float[Array, "batch 1"]:
        return jnp.linalg.norm(z, axis=1, keepdims=True)

    def radius(self, a: Float[Array, "batch m"]) -> Float[Array, "batch 1"]:
        return self.eps * self.input.radius(a)[:, None]

    def size(self, m: int) -> int:
        return self.band

    def perturbation(self, z: Float[Array, "batch band"]) -> Float[Array, "batch m"]:
        return z @ jnp.asarray(self.input.modes(self.band), z.dtype)

    def coordinates(self, delta: Float[Array, "batch m"]) -> Float[Array, "batch band"]:
        return delta @ jnp.asarray(np.linalg.pinv(self.input.modes(self.band)), delta.dtype)

    def moved(self, z: Float[Array, "batch band"], move: Callable[[Array], Array]) -> Float[Array, "batch band"]:
        return z

    def describe(self) -> str:
        return f"l2 in {self.band} modes, ||beta|| <= {self.eps:g} ||c||"


class L1Ball(AbstractBall):
    """sum_i |delta_i| <= eps, absolute; ascent in the entry with the largest gradient."""

    eps: Budget

    def start(self, a: Float[Array, "batch m"], *, key: PRNGKeyArray) -> Float[Array, "batch m"]:
        # Over its norm, a vector of Laplace variables is uniform on the sphere.
        z = jax.random.laplace(key, a.shape, a.dtype)
        return self.eps * z / self.norm(z)

    def normalise(self, gradient: Float[Array, "batch m"]) -> Float[Array, "batch m"]:
        return jnp.sign(_largest(gradient, 1))

    def project(self, z: Float[Array, "batch m"], a: Float[Array, "batch m"]) -> Float[Array, "batch m"]:
        # max(|z_i| - theta, 0) with the theta for which they sum to eps; 0 inside (Duchi et al. 2008).
        sizes = jnp.sort(jnp.abs(z), axis=1, descending=True)
        theta = jnp.max((jnp.cumsum(sizes, axis=1) - self.eps) / jnp.arange(1, z.shape[1] + 1), axis=1, keepdims=True)
        return jnp.sign(z) * jnp.maximum(jnp.abs(z) - jnp.maximum(theta, 0.0), 0.0)

    def norm(self, z: Float[Array, "batch m"]) -> Float[Array, "batch 1"]:
        return jnp.sum(jnp.abs(z), axis=1, keepdims=True)

    def describe(self) -> str:
        return f"l1, sum |delta| <= {self.eps:g}"


class SparseBall(AbstractBall):
    """At most `count` entries change, each by at most eps: a few broken sensors.

    It is not convex: between two choices of sensors lie none of its points, so that only a step longer than the radius
    goes from one to another. PGD with `step_size` above 1 takes such steps, `apgd` does by itself.
    """

    eps: Budget
    count: int

    def __check_init__(self) -> None:
        if self.count < 1:
            raise ConfigError(f"SparseBall(count={self.count}): at least one entry must be allowed to change.")

    def start(self, a: Float[Array, "batch m"], *, key: PRNGKeyArray) -> Float[Array, "batch m"]:
        return jax.random.uniform(key, a.shape, a.dtype, minval=-self.eps, maxval=self.eps)

    def normalise(self, gradient: Float[Array, "batch m"]) -> Float[Array, "batch m"]:
        return jnp.sign(_largest(gradient, self.count))

    def project(self, z: Float[Array, "batch m"], a: Float[Array, "batch m"]) -> Float[Array, "batch m"]:
        # Nearest: what is gained by keeping an entry grows with its size, whether or not it is cut at eps.
        return jnp.clip(_largest(z, self.count), -self.eps, self.eps)

    def norm(self, z: Float[Array, "batch m"]) -> Float[Array, "batch 1"]:
        return jnp.max(jnp.abs(z), axis=1, keepdims=True)

    def describe(self) -> str:
        return f"{self.count} entries, |delta| <= {self.eps:g}"


def _largest(values: Float[Array, "batch m"], count: int) -> Float[Array, "batch m"]:
    """The `count` largest entries of each row, zeros for the others."""
    places = jax.lax.top_k(jnp.abs(values), min(count, values.shape[1]))[1]
    kept = jnp.take_along_axis(values, places, axis=1)
    return jnp.put_along_axis(jnp.zeros_like(values), places, kept, axis=1, inplace=False)
