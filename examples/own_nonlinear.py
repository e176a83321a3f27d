"""A nonlinear PDE of your own, by what we recommend: reaction and diffusion, with the source as input.

Run it with `python examples/own_nonlinear.py`: a minute on one core.
"""

import argparse
import json
from pathlib import Path

import jax
import numpy as np
import scipy

import stablepdenet as sp
from stablepdenet import points

# --- the problem, in forty lines --------------------------------------------------------------------------------------
RATE, CELLS = 100.0, 2000
sensors, grid = points.uniform(100), points.uniform(101)


def newton(a):
    """Second-order differences on 2,000 cells by Newton's method; inputs are linear between their sensors."""
    source = np.stack([np.interp(points.uniform(CELLS + 1)[1:-1], sensors, row) for row in np.asarray(a, float)])
    off, u = np.full(CELLS - 1, -(float(CELLS) ** 2)), np.zeros_like(source)
    for f, v in zip(source, u, strict=True):
        step = np.ones(1)
        while np.max(np.abs(step)) > 1e-12:
            laplace = CELLS**2 * (2 * v - np.append(v[1:], 0) - np.append(0, v[:-1]))
            bands = np.stack([off, 2 * CELLS**2 + 3 * RATE * v**2])
            step = scipy.linalg.solveh_banded(bands, laplace + RATE * v**3 - f)
            v -= step
    return np.pad(u, ((0, 0), (1, 1)))[:, :: CELLS // (len(grid) - 1)]


reaction = sp.Problem(
    name="reaction-diffusion",
    equation="-u_xx + 100 u^3 = a,  u(0) = u(1) = 0",
    domain=sp.Box(x=(0, 1)),
    inputs=sp.Inputs(a=sp.SensorInput(sp.GaussianField(length_scale=0.2, variance=100.0), sensors)),
    blocks=(
        sp.Block("pde", points.hammersley(500), lambda u, u_xx, a: -u_xx + RATE * u**3 - a),
        sp.Block("bc", points.boundary(), lambda u: u, weight=1000.0),
    ),
    attack=sp.PGD(sp.LinfBall(1.0)),
    reference=newton,
    axes=(grid,),
    tests=200,
)
# ----------------------------------------------------------------------------------------------------------------------


def main() -> dict[str, float]:
    """Makes the operator and returns its relative L2 errors: clean, and under the paper's test attack on it."""
    operator = sp.robust(reaction)
    a = reaction.sample(3, key=jax.random.key(0))
    print("estimated errors of three answers:", operator.answer(a, reaction.grid).estimate)
    audit = sp.audit({"robust": operator}, reaction, parts=["errors"], tests=None, eps=[reaction.attack.eps])
    return {str(row["attack"]): float(row["value"]) for row in audit.rows if row["metric"] == "relative_l2"}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, help="a JSON file for the errors")
    arguments = parser.parse_args()
    errors = main()
    for name, error in errors.items():
        print(f"attack {name}: relative L2 error {error:.1e}")
    if arguments.out:
        arguments.out.write_text(json.dumps(errors, indent=1) + "\n")
