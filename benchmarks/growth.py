"""How time and memory of a training step grow, one size at a time from the paper's heat problem, on one pinned core:

    python benchmarks/growth.py --out runs/bench            (or: make bench-growth)

Every size runs in a process of its own, so that its peak memory is its own. Peak memory holds what jax needs to be
loaded and to compile, which no size changes much; buffers are what the compiled program itself asks for.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from common import TIMED, pin, quartiles, save, seconds, stop_in_time
from peers.worker import peak_bytes

SIZES = {
    "points": (250, 500, 1000, 2000, 4000, 8000, 16000),
    "functions": (25, 50, 100, 200, 400, 800, 1600),
    "width": (64, 128, 256, 512),
    "dimension": (1, 2, 3),
    "order": (0, 1, 2, 3, 4),
    "iterations": (0, 10, 20, 40, 80, 160),
}
# -Laplace u = a in one, two and three coordinates, and d^k u / dx^k = a.
POISSON = {
    1: lambda u_xx, a: -u_xx - a,
    2: lambda u_xx, u_yy, a: -u_xx - u_yy - a,
    3: lambda u_xx, u_yy, u_zz, a: -u_xx - u_yy - u_zz - a,
}
DERIVATIVE = {
    0: lambda u, a: u - a,
    1: lambda u_x, a: u_x - a,
    2: lambda u_xx, a: u_xx - a,
    3: lambda u_xxx, a: u_xxx - a,
    4: lambda u_xxxx, a: u_xxxx - a,
}


class Effort(NamedTuple):
    """How much is measured: sizes of a sweep, rounds of a size, seconds of a round."""

    sizes: int
    rounds: int
    budget: float


FULL, QUICK = Effort(sizes=7, rounds=11, budget=0.35), Effort(sizes=4, rounds=3, budget=0.05)


def equation(residual, dimension):
    """One residual at as many points as heat has inside, its input as heat's; nobody asks for its solution."""
    from stablepdenet import PGD, Block, Box, GaussianField, Inputs, LinfBall, Problem, SensorInput, points

    return Problem(
        name="growth",
        equation="",
        domain=Box(**dict.fromkeys("xyz"[:dimension], (0, 1))),
        inputs=Inputs(a=SensorInput(GaussianField(length_scale=1.0), points.uniform(101))),
        blocks=(Block("pde", points.hammersley(1000, [(0, 1)] * dimension), residual),),
        attack=PGD(LinfBall(0.05)),
        reference=lambda a: a,
        axes=(points.uniform(2),) * dimension,
    )


def task(sweep, size):
    """The problem of one size, and what its configuration changes."""
    from stablepdenet.experiments.problems import make_problem

    match sweep:
        case "points":
            return make_problem("heat", {"interior": size}), {}
        case "functions":
            # Ten batches an epoch, as in the paper: each epoch shuffles.
            return make_problem("heat"), {"training.batch": size, "training.functions": 10 * size}
        case "width":
            return make_problem("heat"), {"operator.width": size}
        case "dimension":
            return equation(POISSON[size], size), {}
        case "order":
            return equation(DERIVATIVE[size], 1), {}
        case "iterations":
            return make_problem("heat"), {"attack.steps": size}


def compiled(sweep, size):
    """The compiled program of one size, and a function that runs n steps of it, or n refreshes."""
    import jax
    import jax.numpy as jnp

    from stablepdenet.experiments.runs import configure
    from stablepdenet.experiments.training import initial_state, make_program
    from stablepdenet.training import Program

    problem, changes = task(sweep, size)
    config = configure(problem, TIMED | changes)
    program = make_program(problem, config)
    functions, state = program.functions, initial_state(problem, config)
    if sweep == "iterations":
        refresh = Program._refresh.lower(program, state, functions).compile()
        return refresh.compiled, lambda n: [jax.block_until_ready(refresh(program, state, functions)) for _ in range(n)]
    steps = Program._warm_up.lower(program, state, functions, jnp.asarray(1)).compile()
    return steps.compiled, lambda n: steps(program, state, functions, jnp.asarray(n))


def measure(sweep, size, effort):
    """Numbers of one size, in this process."""
    program, run = compiled(sweep, size)
    seconds(run, 1)
    count = max(1, round(effort.budget / (seconds(run, 3) / 3)))
    middle, low, high = quartiles([seconds(run, count) / count for _ in range(effort.rounds)])
    memory = program.memory_analysis()
    buffers = memory.temp_size_in_bytes + memory.argument_size_in_bytes + memory.output_size_in_bytes
    return {
        "size": size,
        "ms": 1e3 * middle,
        "ms_low": 1e3 * low,
        "ms_high": 1e3 * high,
        "peak_mb": peak_bytes() / 1e6,
        "buffers_mb": buffers / 1e6,
        "steps": count * effort.rounds,
    }


def measured_apart(sweep, size, quick):
    """Numbers of one size, in a process of its own."""
    command = [sys.executable, __file__, "--one", sweep, str(size), *(["--quick"] if quick else [])]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        sys.exit(f"{sweep} {size} failed.")
    row = json.loads(done.stdout)
    print(f"{sweep} {size}: {row['ms']:.3g} ms, {row['peak_mb']:.0f} MB", file=sys.stderr)
    return row


def sweep_rows(sweep, quick):
    """A row for each size. Every second size first: a machine that slows down in the meantime tilts no slope."""
    sizes = SIZES[sweep][: (QUICK if quick else FULL).sizes]
    rows = [measured_apart(sweep, size, quick) for size in sizes[::2] + sizes[1::2]]
    return sorted(rows, key=lambda row: row["size"])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("runs/bench"), help="folder for growth.json and growth.png")
    parser.add_argument("--sweeps", nargs="+", choices=SIZES, default=list(SIZES))
    parser.add_argument("--quick", action="store_true", help="only the smaller sizes, a few short rounds")
    parser.add_argument("--one", nargs=2, metavar=("SWEEP", "SIZE"), help="measure one size here and print its numbers")
    options = parser.parse_args()
    pin()
    if options.one:
        sweep, size = options.one
        print(json.dumps(measure(sweep, int(size), QUICK if options.quick else FULL)))
        return
    stop_in_time(20)
    # Only here: what draws the picture is no part of a measured process's memory.
    import growth_report as report

    results = {sweep: report.fitted(sweep_rows(sweep, options.quick)) for sweep in options.sweeps}
    missed = report.missed(results)
    report.table(results)
    save(options.out / "growth.json", {"sweeps": results, "bars": report.BARS, "missed": missed})
    report.picture(results, options.out / "growth.png")
    print(f"\nWritten: {options.out / 'growth.json'}, {options.out / 'growth.png'}")
    sys.exit(f"missed: {'; '.join(missed)}" if missed else 0)


if __name__ == "__main__":
    main()
