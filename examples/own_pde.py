"""A PDE of your own in a page: advection-diffusion with its initial value as input, trained to be stable.

Run it with `python examples/own_pde.py`: about two minutes on one core.
"""

import argparse

import jax
import numpy as np

import stablepdenet as sp
from stablepdenet import points

# --- the problem, in forty lines --------------------------------------------------------------------------------------
SPEED, DIFFUSION = 0.5, 0.02
sensors, times = points.uniform(64), points.uniform(41)


def exact(a):
    """Every Fourier mode of the input travels with the speed and decays: exact for the trigonometric interpolant."""
    modes = np.fft.rfft(a[:, :-1]) / (a.shape[1] - 1)
    k = 2j * np.pi * np.arange(modes.shape[1])
    evolved = modes[:, None, :] * np.exp(np.outer(times, DIFFUSION * k**2 - SPEED * k))
    weights = np.where(k == 0, 1.0, 2.0)
    return np.real((evolved * weights) @ np.exp(np.outer(k, sensors))).swapaxes(1, 2).reshape(len(a), -1)


advection_diffusion = sp.Problem(
    name="advection-diffusion",
    equation="u_t + c u_x - d u_xx = 0,  u and u_x of period 1,  u(x, 0) = a(x)",
    domain=sp.Box(x=(0, 1), t=(0, 1), periodic="x"),
    inputs=sp.Inputs(a=sp.SensorInput(sp.PeriodicGaussianField(), sensors)),
    blocks=(
        sp.Block(
            "pde",
            points.hammersley(500, [(0, 1), (0, 1)]),
            lambda u_t, u_x, u_xx: u_t + SPEED * u_x - DIFFUSION * u_xx,
        ),
        sp.Block("bc", points.periodic(points.hammersley(50)[:, 0]), sp.periodic_residual),
        sp.Block("ic", points.initial(sensors), lambda u, a: u - a, weight=10.0),
    ),
    attack=sp.PGD(sp.LinfBall(0.02), sp.PeriodicEndpoints()),
    reference=exact,
    axes=(sensors, times),
    functions=500,
    batch=50,
    tests=200,
)
# ----------------------------------------------------------------------------------------------------------------------


def main(steps: int = 10_000) -> dict[str, float]:
    """Trains StablePDENet and returns its relative L2 errors: clean, and under an attack on its own error."""
    # A refresh costs a few steps here, so the attack can be kept much fresher than the paper's M = 1000.
    problem, key = advection_diffusion, jax.random.key(0)
    operator = sp.fit(
        problem,
        sp.DeepONet(problem.inputs.size, problem.domain.dimension, key=key),
        sp.Stable(problem.attack),
        steps=steps,
        warmup=steps // 2,
        refresh=50,
        key=key,
    )
    audit = sp.audit({"stable": operator}, problem, parts=["errors"], tests=None, eps=[problem.attack.eps])
    return {str(row["attack"]): float(row["value"]) for row in audit.rows if row["metric"] == "relative_l2"}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=10_000)
    for name, error in main(parser.parse_args().steps).items():
        print(f"attack {name}: relative L2 error {error:.4f}")
