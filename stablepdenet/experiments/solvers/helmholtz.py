"""Helmholtz: −u'' − κ²u = Σ_n c_n φ_n on (0, 1), u(0) = u(1) = 0, with φ_n(x) = √2 sin(nπx), n = 1..modes."""

import numpy as np
from jaxtyping import Float
from numpy import ndarray


def _symbol(kappa: float, modes: int) -> Float[ndarray, "modes"]:
    """(nπ)² − κ², the eigenvalues of −d²/dx² − κ² on the φ_n."""
    return (np.pi * np.arange(1, modes + 1)) ** 2 - kappa**2


def response_matrix(kappa: float, modes: int, x: Float[ndarray, "points"]) -> Float[ndarray, "points modes"]:
    """φ_n(x_i) / ((nπ)² − κ²), so that u = c @ matrix.T (eq:helmholtz_exact_sine)."""
    return np.sqrt(2) * np.sin(np.pi * np.outer(x, np.arange(1, modes + 1))) / _symbol(kappa, modes)


def lipschitz_constant(kappa: float, modes: int) -> float:
    """max_n |(nπ)² − κ²|⁻¹, the L² norm of c ↦ u (eq:helm-l2-constant)."""
    return float(np.max(1 / np.abs(_symbol(kappa, modes))))
