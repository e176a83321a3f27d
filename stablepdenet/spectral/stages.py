"""Factors of a time step whose stages are solved apart from each other: an eighth of the work of all at once.

In its values y_q at Radau's points, a component's derivatives in time there are those of one matrix B, and what the
start gives: d^n y / dtheta^n = B^n y + .... With the equations' slopes G_n (those in n-th derivatives in time) held at
the middle stage, the Jacobian is sum_n B^n / h^n (x) G_n; in the eigenvectors of B it falls apart into one matrix

    M(lambda) = sum_n (lambda / h)^n G_n

for each eigenvalue, and of a conjugate pair one is enough. Each is solved by least squares. What the slopes change over
a step is left to further iterations.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Complex, Float
from numpy import ndarray

from stablepdenet.spectral.functions import Clock

# Of the Gram matrix's diagonal: what no equation fixes stays where it is.
RIDGE = 1e-13


class Apart(NamedTuple):
    """G_n of one stage's scaled rows, transposed; for each eigenvalue the inverse of the Gram matrix; the scales of the
    rows; the length of the step. With inverses an iteration is a few products; what they round, the next one mends."""

    slopes: tuple[Float[Array, "k rows"], ...]
    inverses: Complex[Array, "e k k"]
    scales: Float[Array, " rows"]
    length: Float[Array, ""]


@dataclass(frozen=True, eq=False)
class Stages:
    """The eigenvalues of B, of pairs one; how the stages' rows go to their eigenvectors and how unknowns come back; and
    from the stages' values to each component's coefficients.

    Eigenvalues are taken one after another: factorisations that run at one time hang in JAX 0.10 on few cores.
    """

    eigenvalues: Complex[ndarray, " e"]
    into: Complex[ndarray, "e q"]
    back: Complex[ndarray, "e q"]
    coefficients: tuple[Float[ndarray, "q q"], ...]

    @property
    def count(self) -> int:
        return self.back.shape[1]

    @property
    def middle(self) -> int:
        """The stage that the slopes are taken at."""
        return self.count // 2

    def _powers(self, orders: int, length: Float[Array, ""]) -> Complex[Array, "e orders"]:
        """(lambda / h)^n."""
        numbers = np.arange(orders)
        return jnp.asarray(self.eigenvalues[:, None] ** numbers) / length**numbers

    def combined(self, slopes: Sequence[Float[Array, "k rows"]], length: Float[Array, ""]) -> Float[Array, "k rows"]:
        """sum_n |lambda / h|^n G_n of one eigenvalue: how large the rows are."""
        size = abs(self.eigenvalues[0])
        return sum((each * (size / length) ** order for order, each in enumerate(slopes)), jnp.zeros_like(slopes[0]))

    def factorise(
        self, slopes: Sequence[Float[Array, "k rows"]], scales: Float[Array, " rows"], length: Float[Array, ""]
    ) -> Apart:
        """From G_n with scaled rows."""
        grams = jnp.stack([jnp.stack([first @ second.T for second in slopes]) for first in slopes])

        def inverse(powers: Complex[Array, " orders"]) -> Complex[Array, "k k"]:
            gram = jnp.einsum("m,n,mnij->ij", jnp.conj(powers), powers, grams)
            # Unknowns of one size: derivatives of high modes are large.
            size = jnp.sqrt(jnp.real(jnp.diagonal(gram)))
            size = jnp.where(size > 0, size, 1.0)
            unit = jnp.eye(len(size), dtype=gram.dtype)
            factor = jnp.linalg.cholesky(gram / (size[:, None] * size) + RIDGE * unit)
            return jax.scipy.linalg.cho_solve((factor, True), unit) / (size[:, None] * size)

        return Apart(tuple(slopes), jax.lax.map(inverse, self._powers(len(slopes), length)), scales, length)

    def solve(self, apart: Apart, residual: Float[Array, "q rows"], starts: Sequence[int]) -> Float[Array, " unknowns"]:
        """The change of all components' coefficients; `starts` are where each component's functions of space begin."""
        # Real products: complex ones would take the slopes as complex numbers, anew each time.
        scaled, into = apart.scales * residual, np.concatenate([self.into.real, self.into.imag])
        parts = [(into @ scaled) @ each.T for each in apart.slopes]
        own = [jax.lax.complex(*jnp.split(each, 2)) for each in parts]
        powers = jnp.conj(self._powers(len(own), apart.length))
        right = -sum(powers[:, n, None] * each for n, each in enumerate(own))
        found = jnp.einsum("eij,ej->ei", apart.inverses, right)
        pairs = np.where(self.eigenvalues.imag == 0, 1.0, 2.0)[:, None]
        values = jnp.real(jnp.asarray(pairs * self.back).T @ found)
        changes = [
            turn @ values[:, begin:end] for turn, (begin, end) in zip(self.coefficients, pairwise(starts), strict=True)
        ]
        return jnp.concatenate([change.ravel() for change in changes])


def make_stages(clocks: Sequence[Clock], theta: Float[ndarray, " q"]) -> Stages:
    """Those of a step with these functions of time, one of which evolves at least, at the points `theta`."""
    values = [clock.values(theta)[:, clock.order :] for clock in clocks]
    clock, own = next(pair for pair in zip(clocks, values, strict=True) if pair[0].order)
    found, vectors = np.linalg.eig(clock.values(theta, 1)[:, clock.order :] @ np.linalg.inv(own))
    kept = found.imag >= 0
    return Stages(
        found[kept].astype(complex),
        np.linalg.inv(vectors)[kept].astype(complex),
        vectors.T[kept].astype(complex),
        tuple(np.linalg.inv(each) for each in values),
    )
