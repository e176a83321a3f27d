"""Where the time of a PI step goes, from a profile of the compiled program on one pinned core:

    python benchmarks/profile_step.py --out runs/bench            (or: make bench-profile)

Every kernel of the program is one of: matrix products, elementwise loops (tanh and its chain rule, residuals, Adam),
reductions (gradients of biases, means), the rest. What the profile does not see is the time between kernels.
"""

import argparse
import collections
import glob
import gzip
import json
import re
import sys
import tempfile
from pathlib import Path

from common import TIMED, pin, save, seconds

pin()  # before jax starts its threads

import jax
import jax.numpy as jnp

from stablepdenet.experiments.problems import make_problem
from stablepdenet.experiments.runs import configure
from stablepdenet.experiments.training import initial_state, make_program
from stablepdenet.training import Program

# XLA's name for the whole program.
WHOLE = "ThunkExecutor::Execute (wait for completion)"
KINDS = ("products", "elementwise", "reductions", "rest", "between kernels")


def kinds_of_kernels(text):
    """{instruction: kind} of a compiled program, by the operations inside of each fusion."""
    bodies, name = collections.defaultdict(set), ""
    calls = {}
    for line in text.splitlines():
        if header := re.match(r"\s*(?:ENTRY )?%([\w.\-]+) .*\{$", line):
            name = header[1]
        elif found := re.match(r"\s*(?:ROOT )?%([\w.\-]+) = .*? ([\w\-]+)\(", line):
            instruction, operation = found.groups()
            bodies[name].add(operation)
            target = re.search(r"calls=%([\w.\-]+)", line)
            calls[instruction] = bodies[target[1]] if target else {operation}
    return {instruction: _kind(operations) for instruction, operations in calls.items()}


def _kind(operations):
    if operations & {"dot", "custom-call"}:
        return "products"
    if operations & {"reduce"}:
        return "reductions"
    return "rest" if operations & {"sort", "while", "call", "copy", "gather"} else "elementwise"


def profiled(function, folder):
    """Seconds by event name, from one traced call."""
    with jax.profiler.trace(folder):
        jax.block_until_ready(function())
    (path,) = glob.glob(f"{folder}/**/*.trace.json.gz", recursive=True)
    with gzip.open(path) as file:
        events = json.load(file)["traceEvents"]
    total = collections.Counter()
    for event in events:
        if event.get("ph") == "X":
            total[event["name"]] += 1e-6 * event["dur"]
    return total


def measure(name, steps):
    """ms of a step by kind, and of the same step without a profiler."""
    problem = make_problem(name)
    config = configure(problem, TIMED | {"method.name": "pi"})
    program = make_program(problem, config)
    functions, state = program.functions, initial_state(problem, config)

    def run(n=steps):
        return program._warm_up(state, functions, jnp.asarray(n))

    compiled = Program._warm_up.lower(program, state, functions, jnp.asarray(steps)).compile()
    kinds = kinds_of_kernels(compiled.compiled.as_text())
    seconds(run, 1)
    plain = min(seconds(run) for _ in range(5))
    with tempfile.TemporaryDirectory() as folder:
        total = profiled(run, folder)
    row = dict.fromkeys(KINDS, 0.0)
    for kernel, spent in total.items():
        # Loops contain their kernels, which are counted by themselves.
        if kernel in kinds and not kernel.startswith(("while", "call")):
            row[kinds[kernel]] += 1e3 * spent / steps
    if WHOLE not in total:
        sys.exit(f"The profile has no event '{WHOLE}': this version of jax names it otherwise.")
    whole = 1e3 * total[WHOLE] / steps
    row["between kernels"] = max(0.0, whole - sum(row.values()))
    return row | {"profiled step": whole, "plain step": 1e3 * plain / steps}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("runs/bench"), help="folder for profile.json")
    parser.add_argument("--steps", type=int, default=50)
    options = parser.parse_args()
    table = {name: measure(name, options.steps) for name in ("poisson", "heat", "burgers", "helmholtz-3.5pi")}
    save(options.out / "profile.json", {"ms": table})
    print(f"{'ms of a step':16}" + "".join(f"{kind:>16}" for kind in (*KINDS, "profiled step", "plain step")))
    for name, row in table.items():
        print(f"{name:16}" + "".join(f"{value:16.2f}" for value in row.values()))


if __name__ == "__main__":
    main()
