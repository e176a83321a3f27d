"""Operators whose audit is known by hand."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

from stablepdenet.auditing import evaluation_inputs
from stablepdenet.auditing.inputs import Case
from stablepdenet.experiments.problems import make_problem
from stablepdenet.operators import AbstractBasisOperator, FunctionOperator

KAPPA = 3.5 * np.pi
SYMBOL = (np.pi * np.arange(1, 11)) ** 2 - KAPPA**2
ERRORS = 0.1 * np.array([1.0, -2.0, 0.5, 3.0, -1.0, 0.2, 2.0, -0.3, 0.7, -1.5])


class Modal(AbstractBasisOperator):
    """u = sum_n (1 + e_n) c_n sqrt(2) sin(n pi x) / ((n pi)^2 - kappa^2): Helmholtz, mode n wrong by e_n."""

    errors: np.ndarray
    kappa: float = KAPPA

    def coefficients(self, a):
        symbol = (np.pi * np.arange(1, 11)) ** 2 - self.kappa**2
        return a * jnp.asarray((1 + self.errors) / symbol, a.dtype)

    def basis(self, points):
        return jnp.sqrt(2.0) * jnp.sin(np.pi * points[:, :1] * jnp.arange(1, 11))


def modal_case():
    """Helmholtz inputs and perturbed ones."""
    problem = make_problem("helmholtz-3.5pi")
    clean = np.asarray(evaluation_inputs(problem, 40))
    moved = clean + 0.1 * np.random.default_rng(0).normal(size=clean.shape).astype(np.float32)
    return problem, Case("common", "0.10", moved, moved, clean)


def exact_operator(problem, factor=1.0):
    """factor * S on the evaluation grid, in JAX."""
    return FunctionOperator(lambda a, p: factor * problem.reference.traced(a))
