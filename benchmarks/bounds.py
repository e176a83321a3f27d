"""Are guaranteed bounds never below errors, and how far above them? 10,000 inputs for each problem and operator, fewer
in two coordinates:

    python benchmarks/bounds.py [--only poisson heat]                    (about half an hour in all, on one core)

Inputs are as drawn; with noise (random signs, 0.05 at each sensor; of positive inputs 5 %); twice as large; smooth
(straight lines); and rough (random signs at all sensors). Errors are those of the float32 answers, in float64, against
exact solutions of the registered problems and other solvers of the others: quadrature in one coordinate; in two, finite
elements of degree 8 that are refined towards the sides, and finite differences for Darcy. Rows that docs/bounds.json
has already are not made again. The table of docs/trust.md is made of it.
"""

import argparse
import json
import sys
import time
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

import jax
import jax.numpy as jnp
import numpy as np
import pde_cases
import scipy
import unseen_problems
from common import save
from document import markdown
from numpy.polynomial import Legendre, Polynomial
from numpy.polynomial.legendre import leggauss
from reproduction import filled

import stablepdenet as sp
from stablepdenet import points
from stablepdenet.functions.piecewise_linear import values
from stablepdenet.spectral import error_bounds

DOCS = Path(__file__).parent.parent / "docs"
TESTS, CHUNK = 10_000, 250
# Of what takes longer: bounds in two coordinates, and a reference of seconds for each input.
FEWER = {"poisson-2d": 2_000, "Darcy": 100}
KINDS = ("drawn", "noisy", "twice", "smooth", "rough")
SENSORS = points.uniform(17)
LINE = points.grid(points.uniform(101))
SQUARE = points.grid(points.uniform(33), points.uniform(33))


def inputs_of(problem, kind, count, key):
    """Inputs of one kind."""
    drawn, parts = np.asarray(problem.sample(count, key=key), np.float64), []
    rng = np.random.default_rng(KINDS.index(kind))
    for name, columns in problem.inputs.slices.items():
        each, own = problem.inputs[name], drawn[:, columns]
        signs, positive = rng.choice([-1.0, 1.0], own.shape), isinstance(each.space, sp.LogNormal)
        lines = rng.normal(size=(count, 1 + len(each.axes))) @ _straight(each.axes)
        parts.append(
            {
                "drawn": own,
                "noisy": own * (1.0 + 0.05 * signs) if positive else own + 0.05 * signs,
                "twice": 2.0 * own,
                "smooth": np.exp(0.5 * lines) if positive else lines,
                "rough": np.exp(0.5 * signs) if positive else signs,
            }[kind]
        )
    return np.asarray(problem.admissible.snap(jnp.asarray(np.concatenate(parts, axis=1), jnp.float32)))


def _straight(axes):
    """One, and each coordinate, at all sensors."""
    grid = np.meshgrid(*axes, indexing="ij")
    return np.stack([np.ones(grid[0].size), *(each.ravel() for each in grid)])


def darcy():
    """-(k u_x)_x = 1 with k as input."""
    return sp.Problem(
        name="darcy-1d",
        domain=sp.Box(x=(0, 1)),
        inputs=sp.Inputs(k=sp.SensorInput(sp.LogNormal(sp.GaussianField(0.3, 0.5)), SENSORS)),
        blocks=(
            sp.Block("pde", points.hammersley(200), lambda u_x, u_xx, k, k_x: -k * u_xx - k_x * u_x - 1.0),
            sp.Block("bc", points.boundary(), lambda u: u),
        ),
    )


def by_quadrature(k, f):
    """-(k u_x)_x = f, zero at both ends, with piecewise-linear k and f: u_x = (C - F) / k, integrated between the
    sensors and the points of LINE by 12 Gauss points."""
    edges = np.unique(np.concatenate([LINE[:, 0], SENSORS]))
    z, weights = leggauss(12)
    half = 0.5 * np.diff(edges)[:, None]
    x = 0.5 * (edges[1:] + edges[:-1])[:, None] + half * z
    k = (k @ values(SENSORS, x.ravel()).T).reshape(-1, *x.shape)
    at_edges = f @ values(SENSORS, edges).T
    whole = np.cumsum(half[:, 0] * (at_edges[:, 1:] + at_edges[:, :-1]), axis=1)
    # F is quadratic between edges.
    slope = (np.diff(at_edges, axis=1) / np.diff(edges))[:, :, None]
    inside = x - edges[:-1, None]
    flux = np.pad(whole[:, :-1], ((0, 0), (1, 0)))[:, :, None] + at_edges[:, :-1, None] * inside + slope * inside**2 / 2
    through, driven = (np.cumsum(np.sum(own * weights * half, axis=2), axis=1) for own in (1.0 / k, flux / k))
    u = through * driven[:, -1:] / through[:, -1:] - driven
    return np.pad(u, ((0, 0), (1, 0)))[:, np.searchsorted(edges, LINE[:, 0])]


def by_elements(problem):
    """-Lap u = f + known on the square, for the problem of pde_cases: finite elements of degree 8 on a tensor grid."""
    degree, sensors = 8, problem.inputs["f"].axes[0]
    fine = 0.5 ** np.arange(1, 6) * sensors[1]
    edges = np.unique(np.concatenate([sensors, fine, 1.0 - fine]))
    z, weights = leggauss(degree + 2)
    bubbles = [(Legendre.basis(n + 1) - Legendre.basis(n - 1)).convert(kind=Polynomial) for n in range(1, degree)]
    functions = [Polynomial([0.5, -0.5]), Polynomial([0.5, 0.5]), *bubbles]
    cells, inner = len(edges) - 1, degree - 1
    size = cells + 1 + cells * inner
    half = 0.5 * np.diff(edges)
    x = (0.5 * (edges[1:] + edges[:-1])[:, None] + half[:, None] * z).ravel()

    def table(x, order):
        cell = np.clip(np.searchsorted(edges, x, side="right") - 1, 0, cells - 1)
        at = (x - edges[cell]) / half[cell] - 1.0
        found = np.zeros((len(x), size))
        for number, each in enumerate(functions):
            place = cell + number if number < 2 else cells + 1 + cell * inner + number - 2
            found[np.arange(len(x)), place] = each.deriv(order)(at) / half[cell] ** order
        return found[:, [*range(1, cells), *range(cells + 1, size)]]

    share = (half[:, None] * weights).ravel()
    own, slopes = table(x, 0), table(x, 1)
    eigen, turn = scipy.linalg.eigh(slopes.T * share @ slopes, own.T * share @ own)
    to_modes = (turn.T @ own.T) * share
    at = table(points.uniform(33), 0) @ turn
    hats = to_modes @ values(sensors, x)
    wave, ramp = to_modes @ np.sin(np.pi * x), to_modes @ x
    known = 2 * np.pi**2 * np.outer(wave, wave) - np.outer(ramp, ramp)

    def solved(a):
        fields = np.asarray(a, np.float64).reshape(-1, len(sensors), len(sensors))
        loads = hats @ fields @ hats.T + known
        return (at @ (loads / (eigen[:, None] + eigen)) @ at.T).reshape(len(fields), -1)

    return solved


def posed():
    """Problems with what they are asked at and solved by, and the operators that answer."""
    for name in ("poisson", "heat"):
        problem = sp.make_problem(name)
        yield problem, problem.grid, problem.require_reference(), ("robust", "stable", "pi")
    yield darcy(), LINE, lambda k: by_quadrature(k, np.ones(k.shape)), ("robust",)
    both = pde_cases.coefficient().problem
    yield both, LINE, lambda a: by_quadrature(*np.split(a, 2, axis=1)), ("robust",)
    plate = pde_cases.poisson_2d().problem
    yield plate, SQUARE, by_elements(plate), ("robust",)
    flow, solved = unseen_problems.darcy()
    yield flow, flow.grid, lambda a: np.stack([solved(row).ravel() for row in a]), ("robust",)


def measured(problem, where, solution, operator, setting, tests):
    """Bounds and errors of all kinds of inputs."""
    compiled = jax.jit(lambda a: operator(a, where))
    row, seconds = {}, 0.0
    for number, kind in enumerate(KINDS):
        a = inputs_of(problem, kind, tests // len(KINDS), jax.random.key(number))
        bound, true = [], []
        for part in np.split(a, max(1, len(a) // CHUNK)):
            u = np.asarray(compiled(jnp.asarray(part)), np.float64)
            began = time.perf_counter()
            bound.append(error_bounds(setting, u, part, where))
            seconds += time.perf_counter() - began
            exact = solution(part.astype(np.float64))
            true.append(np.linalg.norm(u - exact, axis=1) / np.linalg.norm(exact, axis=1))
        bound, true = np.concatenate(bound), np.concatenate(true)
        row[kind] = {
            "inputs": len(a),
            "violations": int(np.sum(true > bound)),
            "unbounded": int(np.sum(~np.isfinite(bound))),
            "error": float(np.median(true)),
            "ratio": float(np.median(bound / true)),
            "largest": float(np.max(bound / true)),
        }
    return row | {"milliseconds": 1e3 * seconds / tests}


def table(rows):
    """The rows in Markdown."""
    header = ["problem", "operator", "inputs", "below the error", "no bound", "error", "bound / error", "at most", "ms"]
    lines = []
    for row in rows:
        kinds = [row[kind] for kind in KINDS]

        def total(name, kinds=kinds):
            return f"{sum(kind[name] for kind in kinds):,}"

        errors, ratios = ([kind[name] for kind in kinds] for name in ("error", "ratio"))
        lines.append(
            [
                row["name"],
                row["operator"],
                *map(total, ("inputs", "violations", "unbounded")),
                f"{min(errors):.1e} to {max(errors):.1e}",
                f"{min(ratios):.3g} to {max(ratios):.3g}",
                f"{max(kind['largest'] for kind in kinds):.3g}",
                f"{row['milliseconds']:.2g}",
            ]
        )
    return markdown(header, lines)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=DOCS / "bounds.json")
    parser.add_argument("--only", nargs="+", help="names of problems; all, if not given")
    chosen = parser.parse_args()
    stored = json.loads(chosen.out.read_text(encoding="utf-8"))["rows"] if chosen.out.exists() else []
    rows = {(row["name"], row["operator"]): row for row in stored}
    page = DOCS / "trust.md"
    for problem, where, solution, names in posed():
        due = [name for name in names if (problem.name, name) not in rows]
        if not due or (chosen.only and problem.name not in chosen.only):
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            robust = sp.robust(problem)
        for name in due:
            operator = robust if name == "robust" else sp.load_model(problem.name, name)
            row = measured(problem, where, solution, operator, robust.setting, FEWER.get(problem.name, TESTS))
            rows[problem.name, name] = {"name": problem.name, "operator": name, **row}
            save(chosen.out, {"rows": list(rows.values())})
            print(json.dumps(rows[problem.name, name]), flush=True)
        jax.clear_caches()
    page.write_text(filled(page.read_text(encoding="utf-8"), {"bounds": table(rows.values())}), encoding="utf-8")
