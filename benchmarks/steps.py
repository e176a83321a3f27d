"""What a step costs, in ratios taken in one run on one pinned core, at the paper's sizes:

    python benchmarks/steps.py --out runs/bench            (or: make bench-steps)

- products: the time of a PI step over the time of its matrix products alone. The products are read off the step's own
  program (every `dot_general` of loss and gradient, with its shapes and layout) and run in one compiled loop.
- stable: a StablePDENet step over a PI step.
- refresh: a 40-iteration attack on a batch over a PI step.
"""

import argparse
import statistics
import sys
from pathlib import Path

from common import TIMED, pin, save, seconds

pin()  # before jax starts its threads

import jax.numpy as jnp
from products import products_alone, step_products

from stablepdenet.experiments.problems import make_problem
from stablepdenet.experiments.runs import configure
from stablepdenet.experiments.training import initial_state, make_program

BARS = {"products": 1.6, "stable": 1.5, "refresh": 12.0}


def measure(name, rounds, budget):
    """Medians over rounds of the ratios, each taken within its round."""
    problem = make_problem(name)
    config = configure(problem, TIMED | {"method.name": "stable"})
    program = make_program(problem, config)
    functions, state = program.functions, initial_state(problem, config)
    products = products_alone(step_products(problem, state.operator, functions[: problem.batch]))
    state = state._replace(cache=program._refresh(state, functions), lambda_sens=jnp.asarray(1e-3))

    def pi_steps(n):
        return program._warm_up(state, functions, jnp.asarray(n))

    def stable_steps(n):
        return program._defend(state, jnp.asarray(n))

    seconds(pi_steps, 1)
    seconds(stable_steps, 1)
    seconds(products, 1)
    seconds(program._refresh, state, functions)
    n = max(3, int(budget / seconds(pi_steps, 1)))
    rows = []
    for _ in range(rounds):
        pi = seconds(pi_steps, n) / n
        alone = seconds(products, n) / n
        stable = seconds(stable_steps, n) / n
        refresh = seconds(program._refresh, state, functions)
        rows.append({"pi_ms": 1e3 * pi, "products": pi / alone, "stable": stable / pi, "refresh": refresh / pi})
    return {key: statistics.median(row[key] for row in rows) for key in rows[0]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--budget", type=float, default=0.5, help="seconds for each timed piece of a round")
    parser.add_argument("--out", type=Path, default=Path("runs/bench"), help="folder for steps.json")
    options = parser.parse_args()
    table = {n: measure(n, options.rounds, options.budget) for n in ("heat", "poisson", "burgers", "helmholtz")}
    missed = [f"{name} {key}" for name, row in table.items() for key, bar in BARS.items() if not row[key] <= bar]
    save(options.out / "steps.json", {"ratios": table, "bars": BARS, "missed": missed})
    print(f"{'problem':10} {'PI step':>10}" + "".join(f"{key:>10}" for key in BARS))
    for name, row in table.items():
        print(f"{name:10} {row['pi_ms']:7.2f} ms" + "".join(f"{row[key]:10.2f}" for key in BARS))
    print(f"{'at most':21}" + "".join(f"{bar:10.2f}" for bar in BARS.values()))
    sys.exit(f"missed: {', '.join(missed)}" if missed else 0)


if __name__ == "__main__":
    main()
