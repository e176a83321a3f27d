"""What an answer costs: a DeepONet of the paper's size beside classical solvers of its accuracy, on one pinned core:

    python benchmarks/serving.py --out runs/bench            (or: make bench-serving)

The operator is untrained, which does not change its speed; its error is taken to be --error. A classical solver may be
as coarse as that error against the reference allows: it has few nodes and steps, and cubic splines bring its answer to
the evaluation grid ("16 x 3": nodes, steps). Linear problems also have their exact response matrix, which needs one
product for all inputs, and Burgers its formula, which is compiled for a few points.
Everybody gets float32 inputs and answers on the whole grid; what does not depend on the input is prepared before.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections import namedtuple
from itertools import product
from pathlib import Path

from common import pin, quartiles, save, seconds, stop_in_time

pin()

import jax
import jax.numpy as jnp
import numpy as np
from scipy.interpolate import CubicSpline
from scipy.linalg import solve_banded

from stablepdenet import points
from stablepdenet.auditing import Measurer
from stablepdenet.auditing.inputs import TEST_SEED
from stablepdenet.auditing.metrics import relative_l2
from stablepdenet.experiments.problems import complete_options, make_problem
from stablepdenet.experiments.runs import configure
from stablepdenet.experiments.solvers import burgers, heat, poisson
from stablepdenet.experiments.training import initial_state
from stablepdenet.functions import piecewise_linear
from stablepdenet.problems import LinearReference

KEPT = "operator, trunk kept"
COMMAND = "predict, whole command"
COLOURS = {
    COMMAND: "0.7",
    "operator, as predict calls it": "#F0E442",
    "operator, compiled call": "#E69F00",
    KEPT: "#D55E00",
    "classical: scheme": "#56B4E9",
    "classical: reference": "#0072B2",
    "classical: float32 formula": "#003F63",
}
KAPPA = 3.5 * np.pi
NODES = (5, 7, 9, 12, 16, 20, 24, 28, 32, 40, 48, 64, 96, 128, 192, 256)
STEPS = (3, 4, 5, 6, 8, 10, 15, 20, 30, 50, 100)
CHECKED = 200  # inputs on which a classical solver's error is measured
FEWEST, PART = 3, 0.05  # rounds, however slow; seconds for one contender's part of a round, if one call is not longer
# A way from inputs to solutions on the grid; the operator's error is not known here.
Contender = namedtuple("Contender", "name setting error solve")


def splines(coarse, fine):
    """The matrix that takes values at coarse nodes to values at fine ones."""
    return CubicSpline(coarse, np.eye(len(coarse)))(fine).astype(np.float32)


def onto_grid(problem, x, t):
    """The map from (batch, times, nodes) to the evaluation grid (batch, x, t)."""
    along_x, along_t = splines(x, problem.axes[0]), splines(t, problem.axes[1]).T
    return lambda u: along_x @ (u.transpose(0, 2, 1).astype(np.float32) @ along_t)


def poisson_differences(problem, nodes):
    x = points.uniform(nodes)
    to_nodes, to_grid = problem.inputs["a"].matrix(x).T, splines(x, problem.axes[0]).T
    return lambda a: poisson.finite_difference(a @ to_nodes).astype(np.float32) @ to_grid


def helmholtz_differences(problem, nodes):
    x, h = points.uniform(nodes), 1 / (nodes - 1)
    to_inside, to_grid = h**2 * problem.inputs["a"].matrix(x[1:-1]).T, splines(x, problem.axes[0])[:, 1:-1].T
    stencil = np.full((3, nodes - 2), -1.0)
    stencil[1] = 2.0 - (KAPPA * h) ** 2
    return lambda a: solve_banded((1, 1), stencil, (a @ to_inside).T).T.astype(np.float32) @ to_grid


def crank_nicolson(problem, nodes, steps):
    x, to_grid = points.uniform(nodes), onto_grid(problem, points.uniform(nodes), points.uniform(steps + 1))
    to_nodes, alpha = problem.inputs["a"].matrix(x).T, complete_options("heat", {})["alpha"]

    def solve(a):
        u = heat.finite_difference(a @ to_nodes, alpha, 1.0, steps)
        # Splines should not see the jump in the corners; the first time is known on the grid anyway.
        u[:, 0, [0, -1]] = 0
        solution = to_grid(u)
        solution[:, :, 0] = a
        return solution.reshape(len(a), -1)

    return solve


def pseudo_spectral(problem, nodes, steps):
    x = np.arange(nodes) / nodes
    to_nodes = piecewise_linear.values(problem.inputs["a"].sensors, x).T
    to_grid = onto_grid(problem, points.uniform(nodes + 1), points.uniform(steps + 1))

    def solve(a):
        u = burgers.pseudo_spectral(a @ to_nodes, problem.reference.viscosity, 1.0, steps)
        return to_grid(np.concatenate([u, u[:, :, :1]], axis=2)).reshape(len(a), -1)

    return solve


SCHEMES = {
    "poisson": ("differences", poisson_differences),
    "heat": ("Crank-Nicolson", crank_nicolson),
    "burgers": ("pseudo-spectral", pseudo_spectral),
    "helmholtz-3.5pi": ("differences", helmholtz_differences),
}


def formula(problem, nodes, steps=0):
    """The exact solution in float32: by the response matrix, or at the scheme's nodes and steps by Cole-Hopf."""
    if isinstance(problem.reference, LinearReference):
        matrix = problem.reference.matrix.T.astype(np.float32)
        return "response matrix", lambda a: a @ matrix
    x, t = points.uniform(nodes + 1), points.uniform(steps + 1)
    to_grid, exact = onto_grid(problem, x, t), jax.jit(problem.reference.on((x, t)).traced)

    def solve(a):
        u = np.asarray(exact(a)).reshape(len(a), nodes + 1, steps + 1)
        return to_grid(u.swapaxes(1, 2)).reshape(len(a), -1)

    return f"Cole-Hopf, {nodes} x {steps}", solve


def cheapest(problem, a, reference, target, count):
    """The scheme's first setting, from cheap to dear, that reaches the target error on `a`."""
    name, make = SCHEMES[problem.name]
    settings = [(n,) for n in NODES] if len(problem.axes) == 1 else list(product(NODES, STEPS))
    # One input pays for calls, which are as many as steps; many inputs pay for numbers.
    settings.sort(key=(lambda setting: setting[::-1]) if count == 1 else np.prod)
    for setting in settings:
        if relative_l2(make(problem, *setting)(a), reference) <= target:
            return setting
    sys.exit(f"No setting of {name} for {problem.name} reaches an error of {target:g}: raise --error.")


def contenders(problem, a, target, count):
    """All ways to solve for `count` inputs; classical ones are checked on the inputs `a`."""
    operator, measurer, grid = initial_state(problem, configure(problem)).operator, Measurer(problem), problem.grid
    call, kept = jax.jit(lambda a, x: operator(a, x)), jax.jit(lambda a, basis: operator.coefficients(a) @ basis)
    x, basis, reference = jnp.asarray(grid), jnp.asarray(operator.basis(grid).T), problem.reference(a)
    setting = cheapest(problem, a, reference, target, count)
    name, make = SCHEMES[problem.name]
    classical = (
        ("scheme", f"{name}, {' x '.join(map(str, setting))}", make(problem, *setting)),
        ("reference", "exact, float64", problem.reference),
        ("float32 formula", *formula(problem, *setting)),
    )
    found = [Contender(f"classical: {key}", w, relative_l2(solve(a), reference), solve) for key, w, solve in classical]
    return [
        Contender(KEPT, "jit(coefficients(a) @ basis)", None, lambda a: kept(a, basis)),
        Contender("operator, compiled call", "jit(operator(a, grid))", None, lambda a: call(a, x)),
        Contender("operator, as predict calls it", "in parts, to float64", None, lambda a: measurer.solve(operator, a)),
        *(way for way in found if way.error <= target),
    ]


def measure(ways, a, options):
    """{contender: row} for the inputs `a`: rounds in turn, each long enough for the clock."""

    def often(solve, repeats):
        for _ in range(repeats):
            # As an array of numpy, which waits for it: calls must not overlap.
            np.asarray(solve(a))

    for way in ways:
        often(way.solve, 1)
    repeats = {way.name: max(1, int(PART / seconds(often, way.solve, 1))) for way in ways}
    times = {way.name: [] for way in ways}
    number, until = 0, time.monotonic() + options.seconds
    while number < FEWEST or time.monotonic() < until:
        turn = number % len(ways)
        for way in ways[turn:] + ways[:turn]:
            n = repeats[way.name]
            times[way.name].append(seconds(often, way.solve, n) / n)
        number += 1
    return {way.name: row(times[way.name], len(a), way, times[KEPT]) for way in ways}


def row(times, count, way, operator):
    """Numbers of one contender; its ratio to the operator is taken within rounds."""
    middle, low, high = quartiles(times)
    ratio = quartiles([mine / its for mine, its in zip(times, operator, strict=True)])[0]
    timed = {"ms": 1e3 * middle, "ms_low": 1e3 * low, "ms_high": 1e3 * high, "rounds": len(times)}
    return {"setting": way.setting, "error": way.error, **timed, "inputs_per_second": count / middle, "ratio": ratio}


def whole_command(problem, inputs, options):
    """{count: row} of `stablepdenet predict` in fresh processes, with compiled programs kept from a first one."""
    command, rows = str(Path(sys.executable).with_name("stablepdenet")), {}
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "XDG_CACHE_HOME": folder}

        def run(*words):
            began = time.perf_counter()
            subprocess.run([command, *words], env=environment, check=True, capture_output=True)
            return time.perf_counter() - began

        run("train", problem, "--method", "pi", "--out", f"{folder}/run", "--set", "training.steps=1")
        for count, a in inputs.items():
            np.save(f"{folder}/a.npy", a)
            words = ("predict", f"{folder}/run", "--input", f"{folder}/a.npy", "--output", f"{folder}/u.npy")
            run(*words)
            times = [run(*words) for _ in range(options.processes)]
            rows[count] = row(times, count, Contender(COMMAND, "process start included", None, None), times)
    return rows


def winner(rows):
    """Who answers first, and how many times sooner than the first of the other kind."""
    first, *others = sorted(rows, key=lambda name: rows[name]["ms"])
    second = next(name for name in others if name[:8] != first[:8])
    return {"winner": first, "over": second, "times": rows[second]["ms"] / rows[first]["ms"]}


def show(results, winners, target):
    def short(number):
        return f"{number:.0f}" if number >= 100 else f"{number:.3g}"

    print(f"Median ms (quartiles); ratio: time over '{KEPT}'; error: relative L2, the operator's taken as {target:g}")
    for count in next(iter(results.values())):
        print(f"\n{count} input{'s' * (count > 1)}")
        for problem, table in results.items():
            for name, r in table[count].items():
                error = "" if r["error"] is None else f"{r['error']:.1e}"
                ratio = "" if name == COMMAND else f"{r['ratio']:.2f}x"
                spread = f"({short(r['ms_low'])} - {short(r['ms_high'])})"
                print(
                    f"{problem:16}{name:31}{r['setting']:29}{error:>8} {short(r['ms']):>8} ms {spread:18}"
                    f"{short(r['inputs_per_second']):>9} inputs/s {ratio:>8}"
                )
    print("\nwinner")
    for problem, row in winners.items():
        for count, w in row.items():
            print(f"{problem:16}{count:5} input(s)   {w['winner']}, {w['times']:.1f} times as fast as {w['over']}")


def picture(results, path):
    """Bars for each problem, one panel for each number of inputs; operators in warm colours, classical ones in cold."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    counts = list(next(iter(results.values())))
    figure, axes = pyplot.subplots(len(counts), 1, figsize=(9, 3.2 * len(counts)), sharex=True, layout="constrained")
    for axis, count in zip(axes, counts, strict=True):
        for i, (label, colour) in enumerate(COLOURS.items()):
            found = [(group, t[count][label]) for group, t in enumerate(results.values()) if label in t[count]]
            places, heights = [g + 0.12 * (i - len(COLOURS) / 2 + 0.5) for g, _ in found], [r["ms"] for _, r in found]
            around = [[r["ms"] - r["ms_low"] for _, r in found], [r["ms_high"] - r["ms"] for _, r in found]]
            axis.bar(places, heights, 0.11, yerr=around, color=colour, label=label)
        axis.set(yscale="log", ylabel="time (ms)", title=f"{count:,} input{'s' * (count > 1)}")
        axis.set_xticks(range(len(results)), list(results))
        axis.spines[["top", "right"]].set_visible(False)
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False)
    figure.savefig(path, dpi=150)
    pyplot.close(figure)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("runs/bench"), help="folder for serving.json and serving.png")
    parser.add_argument("--problems", nargs="+", choices=SCHEMES, default=list(SCHEMES))
    parser.add_argument("--many", type=int, default=2000, help="inputs at once")
    parser.add_argument("--error", type=float, default=0.02, help="relative L2 error that classical solvers may make")
    parser.add_argument("--seconds", type=float, default=3.0, help="for all rounds of one problem and number of inputs")
    parser.add_argument("--processes", type=int, default=3, help="timed runs of the whole command")
    options = parser.parse_args()
    stop_in_time(20)
    results, winners = {}, {}
    for name in options.problems:
        problem = make_problem(name)
        a = np.asarray(problem.sample(max(options.many, CHECKED), key=jax.random.key(TEST_SEED)))
        inputs = {count: a[:count] for count in (1, options.many)}
        ways = {count: contenders(problem, a[:CHECKED], options.error, count) for count in inputs}
        results[name] = {count: measure(ways[count], inputs[count], options) for count in inputs}
        winners[name] = {count: winner(rows) for count, rows in results[name].items()}
        for count, command in whole_command(name, inputs, options).items():
            results[name][count][COMMAND] = command
        print(f"{name} is done.", file=sys.stderr)
    save(options.out / "serving.json", {"error": options.error, "results": results, "winners": winners})
    show(results, winners, options.error)
    picture(results, options.out / "serving.png")
    print(f"\nWritten: {options.out / 'serving.json'}, {options.out / 'serving.png'}")


if __name__ == "__main__":
    main()
