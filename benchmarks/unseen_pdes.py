"""`robust` on PDEs that nobody tuned it for, each posed as a new user would and judged by a solver of its own.

    python benchmarks/unseen_pdes.py                                        (about two minutes a PDE, on two cores)

Every PDE is solved with all settings as they come. The reference takes the input as `robust` does, joined by straight
lines between sensors: Fourier functions and an implicit solver on 512 points (256 for the fourth order),
characteristics for advection, finite differences for diffusion-reaction. PDEs that docs/unseen_pdes.json has already
are not solved again. The table of docs/trust.md is made of it.
"""

import argparse
import json
import warnings
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from common import save
from reproduction import filled
from scipy.integrate import solve_ivp
from scipy.sparse import diags_array

import stablepdenet as sp
from stablepdenet import points
from stablepdenet.spectral import trial_inputs

DOCS = Path(__file__).parent.parent / "docs"
TESTS, GRID = 20, points.uniform(101)
UNIT = [(0.0, 1.0), (0.0, 1.0)]


def evolution(name, pde, slope, *, length=1.0, end=1.0, modes=512, field=None):
    """A periodic initial value problem, and its solution by `slope(u, derivative)`."""
    box = [(0.0, length), (0.0, end)]
    x = points.uniform(101, box[0])
    problem = sp.Problem(
        name=name,
        domain=sp.Box(x=box[0], t=box[1]),
        inputs=sp.Inputs(a=sp.SensorInput(field or sp.PeriodicGaussianField(), x)),
        blocks=(
            sp.Block("pde", points.hammersley(1000, box), pde),
            sp.Block("bc", points.periodic(points.uniform(40, box[1]), box[0]), sp.periodic_residual),
            sp.Block("ic", points.initial(x), lambda u, a: u - a),
        ),
        attack=sp.PGD(sp.LinfBall(0.05), sp.PeriodicEndpoints()),
        axes=(x, points.uniform(101, box[1])),
    )
    waves = 2j * np.pi * np.arange(modes // 2 + 1) / length

    def solution(row):
        dense = np.interp(length * np.arange(32 * modes) / (32 * modes), x, row)
        start = np.fft.irfft(np.fft.rfft(dense)[: modes // 2 + 1] / 32, modes)

        def derivative(u, order):
            return np.fft.irfft(waves**order * np.fft.rfft(u), modes)

        times = problem.axes[1]
        found = solve_ivp(
            lambda t, u: slope(u, derivative), (0, end), start, method="LSODA", t_eval=times, rtol=1e-7, atol=1e-9
        )
        weights = np.where(np.arange(len(waves)) % (len(waves) - 1) == 0, 1.0, 2.0) / modes
        return (np.exp(x[:, None] * waves) * weights @ np.fft.rfft(found.y, axis=0)).real.ravel()

    return problem, solution


def allen_cahn():
    return evolution(
        "Allen-Cahn",
        lambda u, u_t, u_xx: u_t - 0.001 * u_xx - 5.0 * (u - u**3),
        lambda u, d: 0.001 * d(u, 2) + 5.0 * (u - u**3),
    )


def kuramoto_sivashinsky():
    return evolution(
        "Kuramoto-Sivashinsky",
        lambda u, u_t, u_x, u_xx, u_xxxx: u_t + u * u_x + u_xx + u_xxxx,
        lambda u, d: -u * d(u, 1) - d(u, 2) - d(u, 4),
        length=22.0,
        end=10.0,
        modes=256,
        field=sp.PeriodicGaussianField(sigma=0.2, tau=0.5, period=22.0),
    )


def advection():
    problem, _ = evolution("advection", lambda u_t, u_x: u_t + u_x, lambda u, d: -d(u, 1))
    x, t = problem.grid.T
    return problem, lambda row: np.interp((x - t) % 1.0, problem.axes[0], row)


def variable_advection():
    """u_t + c(x) u_x = 0 with the velocity as input; where the conditions meet, the solution has a kink."""
    sensors = points.uniform(100)
    problem = sp.Problem(
        name="advection with a variable velocity",
        domain=sp.Box(x=(0, 1), t=(0, 1)),
        inputs=sp.Inputs(c=sp.SensorInput(sp.LogNormal(sp.GaussianField(0.2, 0.3)), sensors)),
        blocks=(
            sp.Block("pde", points.hammersley(1000, UNIT), lambda u_t, u_x, c: u_t + c * u_x),
            sp.Block("bc", points.grid(np.zeros(1), points.uniform(40)), lambda u, t: u - jnp.sin(jnp.pi * t / 2)),
            sp.Block("ic", points.initial(sensors), lambda u, x: u - jnp.sin(jnp.pi * x)),
        ),
        axes=(GRID, GRID),
    )
    x, dense = problem.grid, np.linspace(0, 1, 20_001)

    def solution(row):
        slowness = 1.0 / np.interp(dense, sensors, row)
        arrival = np.concatenate([[0.0], np.cumsum(0.5 * (slowness[1:] + slowness[:-1]) * np.diff(dense))])
        since = np.interp(x[:, 0], dense, arrival) - x[:, 1]
        inside = np.sin(np.pi * np.interp(since, arrival, dense))
        return np.where(since >= 0, inside, np.sin(-np.pi * since / 2))

    return problem, solution


def diffusion_reaction():
    """u_t = 0.01 u_xx + 0.01 u^2 + f(x), zero at the start and on both sides."""
    sensors, cells = points.uniform(100), 400
    problem = sp.Problem(
        name="diffusion-reaction",
        domain=sp.Box(x=(0, 1), t=(0, 1)),
        inputs=sp.Inputs(f=sp.SensorInput(sp.GaussianField(0.2), sensors)),
        blocks=(
            sp.Block(
                "pde",
                points.hammersley(1000, UNIT),
                lambda u, u_t, u_xx, f: u_t - 0.01 * u_xx - 0.01 * u**2 - f,
            ),
            sp.Block("bc", points.boundary(times=points.uniform(40)), lambda u: u),
            sp.Block("ic", points.initial(sensors), lambda u: u),
        ),
        axes=(GRID, GRID),
    )
    shape = (cells - 1, cells - 1)
    second = 0.01 * cells**2 * diags_array([1.0, -2.0, 1.0], offsets=[-1, 0, 1], shape=shape).tocsr()
    inner = np.linspace(0, 1, cells + 1)[1:-1]

    def solution(row):
        source = np.interp(inner, sensors, row)
        found = solve_ivp(
            lambda t, u: second @ u + 0.01 * u**2 + source,
            (0, 1),
            np.zeros(cells - 1),
            method="LSODA",
            lband=1,
            uband=1,
            t_eval=GRID,
            rtol=1e-8,
            atol=1e-10,
        )
        return np.pad(found.y, ((1, 1), (0, 0)))[::4].ravel()

    return problem, solution


PDES = (allen_cahn, kuramoto_sivashinsky, advection, variable_advection, diffusion_reaction)


def measured(problem, solution):
    """Errors and estimates over errors on inputs as drawn, with noise, and twice as large."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        operator = sp.robust(problem)
    row = {"name": problem.name, "warned": bool(said)}
    _, noisy, twice = np.split(np.asarray(trial_inputs(problem, key=jax.random.key(992))), [6, 12])
    drawn = problem.sample(TESTS, key=jax.random.key(991))
    for kind, inputs in (("drawn", drawn), ("noisy", noisy), ("twice", twice)):
        answer = operator.answer(jnp.asarray(inputs), problem.grid)
        exact = np.stack([solution(each) for each in np.asarray(inputs, np.float64)])
        errors = np.linalg.norm(answer.u - exact, axis=1) / np.linalg.norm(exact, axis=1)
        ratio = np.asarray(answer.estimate) / errors
        row[kind] = {
            "error": float(np.linalg.norm(answer.u - exact) / np.linalg.norm(exact)),
            "largest": float(np.max(errors)),
            "effectivity": [float(np.min(ratio)), float(np.median(ratio)), float(np.max(ratio))],
        }
    return row


def table(rows):
    """The rows in Markdown."""
    lines = [
        "| PDE | error | with noise | twice as large | estimate / error | warned |",
        "| :-- | --: | --: | --: | --: | :-- |",
    ]
    for row in rows:
        kinds = [row[kind] for kind in ("drawn", "noisy", "twice")]
        errors = " | ".join(f"{kind['error']:.2g}" for kind in kinds)
        low, high = min(kind["effectivity"][0] for kind in kinds), max(kind["effectivity"][2] for kind in kinds)
        warned = "yes" if row["warned"] else "no"
        lines.append(f"| {row['name']} | {errors} | {low:.2f} to {high:.2f} | {warned} |")
    return "\n".join(lines)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=DOCS / "unseen_pdes.json")
    out = parser.parse_args().out
    rows = json.loads(out.read_text(encoding="utf-8"))["rows"] if out.exists() else []
    page = DOCS / "trust.md"
    for make in PDES:
        problem, solution = make()
        if problem.name not in {row["name"] for row in rows}:
            rows.append(measured(problem, solution))
            save(out, {"rows": rows})
        page.write_text(filled(page.read_text(encoding="utf-8"), {"unseen": table(rows)}), encoding="utf-8")
