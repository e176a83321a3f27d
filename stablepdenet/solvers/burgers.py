"""Viscous Burgers: u_t + u u_x = νu_xx, of period 1 in x."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy import ndarray

from stablepdenet import hats
from stablepdenet.errors import ConfigError

_NEGLIGIBLE = 69.0  # exp(−69) ≈ 1e-30: below round-off even where φ is many orders below its maximum
_LARGEST_EXPONENT = 22.0  # a float64 round-off of 2e-16 times exp(22) is 8e-7
_FUNCTIONS_AT_ONCE = 50  # bounds the memory of the trigonometric sums


def _potential(sensors: Float[ndarray, "sensors"], grid: int) -> Float[ndarray, "grid sensors"]:
    """The matrix a ↦ Ψ(x) = ∫₀ˣ (a − μ) ds at the nodes x = j/grid, with μ the mean of the interpolant of a."""
    nodes = np.arange(grid) / grid
    return hats.integrals(sensors, nodes) - np.outer(nodes, hats.integrals(sensors, np.ones(1)))


def cole_hopf_jax(
    a: Float[Array, "batch sensors"],
    sensors: Float[ndarray, "sensors"],
    x: Float[ndarray, "points"],
    times: Float[ndarray, "times"],
    viscosity: float,
    *,
    grid: int = 4096,
) -> Float[Array, "batch times points"]:
    """The solution from the piecewise-linear interpolant of a, differentiable in a and of its dtype.

    The sensors run from 0 to 1 and a[:, 0] = a[:, −1]. With μ the mean, u(x, t) = μ + v(x − μt, t), and Cole–Hopf
    takes the zero-mean v to the heat equation:

    v = −2ν φ_x/φ,  φ_t = νφ_xx,  φ(x, 0) = exp(−(Ψ(x) − min Ψ)/(2ν)),  Ψ' = v(·, 0).

    Ψ is exact at the grid nodes, φ a Fourier sum whose relative error, where φ is smallest, is the round-off of the
    dtype times exp((max Ψ − min Ψ)/(2ν)): that product limits small viscosities.
    """
    psi = a @ jnp.asarray(_potential(sensors, grid).T, a.dtype)
    mean = a @ jnp.asarray(hats.integrals(sensors, np.ones(1)).T, a.dtype)
    phi = jnp.exp((psi.min(axis=1, keepdims=True) - psi) / (2 * viscosity))

    # t = 0 rows are computed at the earliest time instead, and replaced at the end.
    earliest = np.min(times, initial=1.0, where=times > 0)
    t = np.where(times > 0, times, earliest)
    modes = min(1 + int(np.sqrt(_NEGLIGIBLE / (viscosity * earliest)) / (2 * np.pi)), grid // 2)
    wave = 2 * np.pi * np.arange(modes)
    decay = jnp.asarray(np.exp(-viscosity * np.outer(t, wave**2)), a.dtype)
    drift = mean[:, :, None] * jnp.asarray(np.outer(t, wave), a.dtype)
    spectrum = jnp.fft.rfft(phi)[:, None, :modes] * decay * jnp.exp(-1j * drift)

    # One real product gives φ and φ_x: Re(c e^{iθ}) = Re c cos θ − Im c sin θ. The mode k = 0 has no conjugate.
    angle, weight = np.outer(wave, x), np.where(wave > 0, 2.0, 1.0)[:, None]
    cosine, sine = weight * np.cos(angle), weight * np.sin(angle)
    basis = np.block([[cosine, -wave[:, None] * sine], [-sine, -wave[:, None] * cosine]])
    parts = jnp.concatenate([spectrum.real, spectrum.imag], axis=2)
    phi, phi_x = jnp.split(parts @ jnp.asarray(basis, a.dtype), 2, axis=2)

    solution = mean[:, :, None] - 2 * viscosity * phi_x / phi
    initial = a @ jnp.asarray(hats.values(sensors, x % 1).T, a.dtype)
    return jnp.where(jnp.asarray(times > 0)[:, None], solution, initial[:, None, :])


def cole_hopf(
    a: Float[ndarray, "batch sensors"],
    sensors: Float[ndarray, "sensors"],
    x: Float[ndarray, "points"],
    times: Float[ndarray, "times"],
    viscosity: float,
    *,
    grid: int = 4096,
) -> Float[ndarray, "batch times points"]:
    """`cole_hopf_jax` in float64, whatever JAX is set to, a few functions at a time; refuses what it cannot resolve."""
    exponent = np.ptp(a @ _potential(sensors, grid).T, axis=1).max(initial=0.0) / (2 * viscosity)
    if exponent > _LARGEST_EXPONENT:
        raise ConfigError(
            f"problem.viscosity = {viscosity:g} is too small for the exact solver on these inputs: "
            f"(max Ψ − min Ψ)/(2ν) = {exponent:.1f} exceeds {_LARGEST_EXPONENT:g}, where round-off dominates."
        )

    def one(row: Float[Array, "sensors"]) -> Float[Array, "times points"]:
        return cole_hopf_jax(row[None], sensors, x, times, viscosity, grid=grid)[0]

    with jax.enable_x64(True):
        rows = jnp.asarray(a, jnp.float64)
        return np.array(jax.jit(lambda rows: jax.lax.map(one, rows, batch_size=_FUNCTIONS_AT_ONCE))(rows))


def pseudo_spectral(
    u0: Float[ndarray, "batch nodes"], viscosity: float, duration: float, steps: int
) -> Float[ndarray, "batch times nodes"]:
    """û_t = −½ik (u²)^ − νk²û on the nodes j/n: 2/3-dealiased, Runge–Kutta 4 with the integrating factor exp(νk²t)."""
    n = u0.shape[1]
    mode = np.arange(n // 2 + 1)
    kept = mode < n / 3
    wave = 2 * np.pi * mode
    dt = duration / steps
    half = np.exp(-viscosity * wave**2 * dt / 2)

    def advection(spectrum: ndarray) -> ndarray:
        return np.where(kept, -0.5j * wave, 0) * np.fft.rfft(np.fft.irfft(spectrum, n) ** 2)

    u = np.empty((steps + 1, *u0.shape))
    u[0] = u0
    spectrum = np.where(kept, np.fft.rfft(u0), 0)
    for step in range(1, steps + 1):
        k1 = advection(spectrum)
        k2 = advection(half * (spectrum + dt / 2 * k1))
        k3 = advection(half * spectrum + dt / 2 * k2)
        k4 = advection(half * (half * spectrum + dt * k3))
        spectrum = half * (half * (spectrum + dt / 6 * k1) + dt / 3 * (k2 + k3)) + dt / 6 * k4
        u[step] = np.fft.irfft(spectrum, n)
    return u.transpose(1, 0, 2)
