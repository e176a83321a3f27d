"""What the recipe robust costs: making it, and its answers beside a plain DeepONet's and a classical solver's:

    python benchmarks/costs.py --out docs/robust.json          (on an idle machine: one pinned core)

A linear problem is solved in a fresh process, compilation included, and once more in the same one. A training takes
its steps times the time of one; that of the paper's StablePDENet is measured in turn with it, its refreshes included.
The classical solver is the fastest of those in serving.py that is as accurate as robust is on the same inputs.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

from common import pin, save, seconds, stop_in_time

pin()

import jax
import jax.numpy as jnp
import numpy as np
from defences import stopwatch
from serving import KEPT, SCHEMES, Contender, cheapest, formula, measure

from stablepdenet import load_model, make_problem, solve
from stablepdenet.auditing import Measurer
from stablepdenet.auditing.inputs import TEST_SEED
from stablepdenet.auditing.metrics import relative_l2
from stablepdenet.experiments.runs import configure
from stablepdenet.experiments.training import SOLVED, initial_state, make_program
from stablepdenet.problems import LinearReference

PROBLEMS = ("heat", "poisson", "burgers", "helmholtz-3.5pi", "helmholtz-3pi+0.5", "helmholtz-3pi+0.1")
COUNTS, CHECKED, TURNS = (1, 100), 100, 5
FRESH = """
import sys, time
from stablepdenet import make_problem, solve
problem = make_problem(sys.argv[1])
began = time.perf_counter()
solve(problem)
print(time.perf_counter() - began)
"""
# No program is kept from an earlier process.
FORGETFUL = os.environ | {"JAX_COMPILATION_CACHE_DIR": ""}


def making(problem):
    """Seconds from the problem to an operator; of a training also the paper's, and the ratio within turns."""
    config = configure(problem, recipe="robust")
    if config.operator.kind == SOLVED:
        command = [sys.executable, "-c", FRESH, problem.name]
        found = subprocess.run(command, check=True, capture_output=True, text=True, env=FORGETFUL)
        return {"fresh_seconds": float(found.stdout), "again_seconds": seconds(lambda: solve(problem).matrix)}
    paper = configure(problem, {"method.name": "stable"})
    watches = [(each.training.steps, stopwatch(problem, each)) for each in (config, paper)]
    turns = [[steps * watch() for steps, watch in watches] for _ in range(TURNS)]
    ours, theirs = np.median(turns, axis=0)
    ratio = float(np.median([mine / its for mine, its in turns]))
    found = {"training_seconds": float(ours), "paper_training_seconds": float(theirs), "ratio": ratio}
    return found | {"modified_step_ratio": modified_step(problem) / (float(ours) / config.training.steps)}


def modified_step(problem):
    """Seconds of a step with the gated networks, which see every pair of an input and a point."""
    own = {"operator.kind": "modified", "operator.embedding": "coordinates", "method.name": "pi"}
    config = configure(problem, {**own, "training.points": "fine", "training.optimiser": "muon"})
    program = make_program(problem, config)
    state, _ = program.advance(initial_state(problem, config), 1)
    return seconds(lambda: program.advance(state, 2)[0].operator)


def ways(problem, robust, a, count):
    """Robust, as it is called and as `predict` calls it, a plain DeepONet, and classical solvers as accurate as it."""
    measurer, grid, reference = Measurer(problem), jnp.asarray(problem.grid), problem.reference(a)
    plain = load_model(problem.name, "pi")

    def kept(operator):
        """Its functions are on the grid already."""
        table, answer = operator.tabulate(grid), jax.jit(lambda a, table: operator.combine(table, a))
        return lambda a: answer(a, table)

    target = relative_l2(measurer.solve(robust, a), reference)
    found = [("exact, float64", problem.reference)]
    if isinstance(problem.reference, LinearReference):
        found.append(formula(problem, 0))
    else:
        name, make = SCHEMES[problem.name]
        setting = cheapest(problem, a, reference, target, count)
        found += [(f"{name}, {' x '.join(map(str, setting))}", make(problem, *setting)), formula(problem, *setting)]
    classical = [Contender(f"classical: {name}", name, relative_l2(run(a), reference), run) for name, run in found]
    return [
        Contender(KEPT, "robust", target, kept(robust)),
        Contender("robust, as predict calls it", "to float64", target, lambda a: measurer.solve(robust, a)),
        Contender("plain", "a DeepONet, as robust", None, kept(plain)),
        *(way for way in classical if way.error <= max(target, np.finfo(np.float32).eps)),
    ]


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--out", type=Path, required=True)
    arguments.add_argument("--problems", nargs="+", default=PROBLEMS, choices=PROBLEMS)
    arguments.add_argument("--seconds", type=float, default=3.0, help="for the answers to one number of inputs")
    options = arguments.parse_args()
    stop_in_time(15)
    results = {}
    for name in options.problems:
        problem = make_problem(name)
        robust = load_model(name, "robust")
        a = np.asarray(problem.sample(CHECKED, key=jax.random.key(TEST_SEED)))
        answers = {n: measure(ways(problem, robust, a, n), a[:n], options) for n in COUNTS}
        results[name] = {"making": making(problem), "answers": answers}
        print(name, json.dumps(results[name]), flush=True)
    save(options.out, {"results": results})


if __name__ == "__main__":
    main()
