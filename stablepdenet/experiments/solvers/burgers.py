"""Viscous Burgers: u_t + u u_x = νu_xx, of period 1 in x."""

import math
from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy import ndarray

from stablepdenet.errors import ConfigError
from stablepdenet.functions import piecewise_linear

_NEGLIGIBLE = 69.0  # exp(−69) ≈ 1e-30: below round-off even where φ is many orders below its maximum
_LARGEST_EXPONENT = 22.0  # a float64 round-off of 2e-16 times exp(22) is 8e-7
_FUNCTIONS_AT_ONCE = 50  # bounds the memory of the trigonometric sums

_ROUND_OFF = 41.0  # exp(−41) ≈ 1e-18, below round-off beside terms of one sign
_NODES_PER_WIDTH = 4  # of the narrowest Gaussian factor, for the trapezoidal rule: its error is then exp(−32π²)
_MOST_NODES = 2**15
_LONGEST_BLOCK = 64
_LARGEST_DROP = 500.0  # exp(−500 − 41) is a normal float64
_INPUT_CELLS = 2**19  # bounds the memory of the temporary arrays of inputs × nodes, 4 MB each
_POINT_CELLS = 2**15  # and of points × nodes: 256 kB each, which stay in the cache


class Where(NamedTuple):
    """Where inputs are given, where their solution is asked for, its viscosity, and the nodes of one period."""

    sensors: Float[ndarray, "sensors"]
    x: Float[ndarray, "points"]
    times: Float[ndarray, "times"]
    viscosity: float
    grid: int = 4096


def _potential(sensors: Float[ndarray, "sensors"], x: Float[ndarray, "points"]) -> Float[ndarray, "points sensors"]:
    """The matrix a ↦ Ψ(x) = ∫₀ˣ (a − μ) ds for x in [0, 1], with μ the mean of the interpolant of a."""
    return piecewise_linear.integrals(sensors, x) - np.outer(x, piecewise_linear.integrals(sensors, np.ones(1)))


def cole_hopf_jax(a: Float[Array, "batch sensors"], where: Where) -> Float[Array, "batch times points"]:
    """The solution from the piecewise-linear interpolant of a, differentiable in a and of its dtype.

    The sensors run from 0 to 1 and a[:, 0] = a[:, −1]. With μ the mean, u(x, t) = μ + v(x − μt, t), and Cole–Hopf
    takes the zero-mean v to the heat equation:

    v = −2ν φ_x/φ,  φ_t = νφ_xx,  φ(x, 0) = exp(−(Ψ(x) − min Ψ)/(2ν)),  Ψ' = v(·, 0).

    Ψ is exact at the grid nodes, φ a Fourier sum whose relative error, where φ is smallest, is the round-off of the
    dtype times exp((max Ψ − min Ψ)/(2ν)): that product limits small viscosities.
    """
    sensors, x, times, viscosity, grid = where
    psi = a @ jnp.asarray(_potential(sensors, np.arange(grid) / grid).T, a.dtype)
    mean = a @ jnp.asarray(piecewise_linear.integrals(sensors, np.ones(1)).T, a.dtype)
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
    initial = a @ jnp.asarray(piecewise_linear.values(sensors, x % 1).T, a.dtype)
    return jnp.where(jnp.asarray(times > 0)[:, None], solution, initial[:, None, :])


def cole_hopf(a: Float[ndarray, "batch sensors"], where: Where) -> Float[ndarray, "batch times points"]:
    """The solution of `cole_hopf_jax` in float64, whatever JAX is set to.

    Inputs on which round-off would ruin the Fourier sum take the slower sums of positive terms instead.
    """
    a = np.asarray(a, np.float64)
    potential = _potential(where.sensors, np.arange(where.grid) / where.grid)
    steep = np.ptp(a @ potential.T, axis=1) / (2 * where.viscosity) > _LARGEST_EXPONENT
    u = np.empty((len(a), len(where.times), len(where.x)))
    for rows, solve in ((~steep, _fourier_sums), (steep, _positive_sums)):
        if rows.any():
            u[rows] = solve(a[rows], where)
    return u


def _fourier_sums(a: Float[ndarray, "batch sensors"], where: Where) -> Float[ndarray, "batch times points"]:
    """`cole_hopf_jax` a few functions at a time."""
    *axes, viscosity, grid = where
    solve = _compiled(*(np.asarray(axis, np.float64).tobytes() for axis in axes), viscosity, grid)
    with jax.enable_x64(True):
        return np.array(solve(jnp.asarray(a, jnp.float64)))


@cache
def _compiled(sensors: bytes, x: bytes, times: bytes, viscosity: float, grid: int) -> Callable[[Array], Array]:
    """The solver for one grid: a search asks it a thousand times. Arrays do not hash, their bytes do."""
    nodes, points, instants = (np.frombuffer(axis) for axis in (sensors, x, times))

    def one(row: Float[Array, "sensors"]) -> Float[Array, "times points"]:
        return cole_hopf_jax(row[None], Where(nodes, points, instants, viscosity, grid))[0]

    return jax.jit(lambda rows: jax.lax.map(one, rows, batch_size=_FUNCTIONS_AT_ONCE))


def _positive_sums(a: Float[ndarray, "batch sensors"], where: Where) -> Float[ndarray, "batch times points"]:
    """Cole–Hopf without cancellation, for any range of Ψ:

    v(x, t) = ∫ (x − y)/t w dy / ∫ w dy,   w(y) = exp(−[Ψ(y) + (x − y)²/(2t)]/(2ν)),   u(x, t) = μ + v(x − μt, t),

    by the trapezoidal rule. Each block of nodes is scaled by the maxima of both factors of w in it. So one product per
    block serves all inputs and points, and nothing that counts underflows.
    """
    sensors, x, times, viscosity, grid = where
    mean = a @ piecewise_linear.integrals(sensors, np.ones(1)).T
    speed = float(np.abs(a - mean).max())
    slope = float(np.max(np.diff(a) / np.diff(sensors), initial=0.0))
    initial = a @ piecewise_linear.values(sensors, x % 1).T
    u = np.empty((len(a), len(times), len(x)))
    for row, t in zip(u.swapaxes(0, 1), times.tolist(), strict=True):
        if t <= 0:
            row[:] = initial
            continue
        # Beyond this distance w is negligible beside w(x): Ψ has period 1, so its range is at most speed/2.
        reach = math.sqrt(2 * t * (speed / 2 + 2 * viscosity * _ROUND_OFF))
        y = _blocks(t, viscosity, slope=slope, steepest=speed + reach / t, grid=grid)
        inputs_at_once, points_at_once = max(1, _INPUT_CELLS // y.size), max(1, _POINT_CELLS // y.size)
        for i in range(0, len(a), inputs_at_once):
            inputs = slice(i, i + inputs_at_once)
            # The drift is in the nodes of Ψ, so that all inputs share one kernel.
            psi = _shifted_potential(a[inputs], sensors, y.ravel() - mean[inputs] * t).reshape(-1, *y.shape)
            lowest = psi.min(axis=2)
            weight = np.exp((lowest[:, :, None] - psi) / (2 * viscosity)).swapaxes(0, 1)
            for p in range(0, len(x), points_at_once):
                points = slice(p, p + points_at_once)
                least, kernel = _heat_kernel(x[points], y, t, viscosity, images=math.ceil(2 * reach))
                mass, moment = weight @ kernel.transpose(0, 2, 3, 1)
                bound = (lowest.T[:, :, None] + least.T[:, None, :] / (2 * t)) / (2 * viscosity)
                scale = np.exp(bound.min(axis=0) - bound)
                row[inputs, points] = mean[inputs] + (scale * moment).sum(axis=0) / (scale * mass).sum(axis=0) / t
    return u


def _blocks(t: float, viscosity: float, *, slope: float, steepest: float, grid: int) -> Float[ndarray, "blocks block"]:
    """At least `grid` nodes of one period, and more where w(y) is narrow, in blocks over which it stays representable.

    With v' ≤ slope, w is nowhere narrower than a Gaussian of standard deviation (2ν/(1/t + slope))^½.
    """
    nodes = max(grid, math.ceil(_NODES_PER_WIDTH * math.sqrt((1 / t + slope) / (2 * viscosity))))
    if nodes > _MOST_NODES:
        raise ConfigError(
            f"problem.viscosity = {viscosity:g} is too small for the exact solver on these inputs: t = {t:g} needs "
            f"{nodes} nodes per period, more than {_MOST_NODES}. Take a larger viscosity or a later first time."
        )
    longest = np.clip(_LARGEST_DROP * 2 * viscosity * nodes / steepest, 1, _LONGEST_BLOCK)
    block = 2 ** int(math.log2(longest))
    blocks = math.ceil(nodes / block)
    return (np.arange(blocks * block) / (blocks * block)).reshape(blocks, block)


def _shifted_potential(
    a: Float[ndarray, "batch sensors"], sensors: Float[ndarray, "sensors"], x: Float[ndarray, "batch nodes"]
) -> Float[ndarray, "batch nodes"]:
    """Ψ at other x for every input, exactly: Ψ(s_j) + d (v(s_j) + d v'/2) with d = x − s_j on the j-th interval."""
    x = x - np.floor(x)
    interval = np.searchsorted(sensors[1:-1], x, side="right")
    start = a @ _potential(sensors, sensors[:-1]).T
    v = a - a @ piecewise_linear.integrals(sensors, np.ones(1)).T
    half_slope = np.diff(a) / (2 * np.diff(sensors))
    d = x - sensors[interval]
    psi, v, half_slope = (np.take_along_axis(part, interval, axis=1) for part in (start, v, half_slope))
    return psi + d * (v + d * half_slope)


def _heat_kernel(
    x: Float[ndarray, "points"], y: Float[ndarray, "blocks block"], t: float, viscosity: float, *, images: int
) -> tuple[Float[ndarray, "points blocks"], Float[ndarray, "2 points blocks block"]]:
    """The least of d² over each block, and the sums of exp((least − d²)/(4νt)) (1, d) over so many nearest images,

    where d runs over the distances x − y + m to the periodic images of y; all but the k nearest are at least k/2 away.
    """
    nearest = x[:, None, None] - y
    nearest -= np.rint(nearest)
    side = np.copysign(1.0, nearest)
    least = np.min(nearest**2, axis=2)
    kernel, moment = sums = np.zeros((2, *nearest.shape))
    for image in range(images):
        d = nearest + (-1) ** image * ((image + 1) // 2) * side
        term = np.exp((least[:, :, None] - d**2) / (4 * viscosity * t))
        kernel += term
        moment += d * term
    return least, sums


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
