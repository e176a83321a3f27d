"""How the errors of the recipe robust spread over the test inputs, and how far sampling the input is from the truth:

    python benchmarks/spread.py --out docs/spread.json          (three minutes)

Pooled errors hide single inputs: beside them stand the median, the 99th percentile, the maximum, and the share of the
squared error that the worst 1 % of the inputs carry. The operators are the zoo's, of seed 0; StablePDENet stands beside
robust. References solve the piecewise-linear input through the sensor values; `sampling` is the distance of their
solutions from those of the function itself, which is drawn at ten times as many sensors.
"""

import argparse
import json
from pathlib import Path

import jax
import numpy as np
from common import save, stop_in_time

from stablepdenet import load_model, make_problem
from stablepdenet.auditing.inputs import TEST_SEED, clean_case, setting_of
from stablepdenet.auditing.metrics import metrics
from stablepdenet.auditing.session import BASELINE, Session
from stablepdenet.functions import SensorInput

PROBLEMS = ("heat", "poisson", "burgers", "helmholtz-3.5pi", "helmholtz-3pi+0.5", "helmholtz-3pi+0.1")
METHODS, EPS, TESTS, FINER = ("stable", "robust"), (0.05, 0.10), 1000, 10


def spread(measured):
    """One operator's errors on one case."""
    found = metrics(measured)
    worst = np.sort(measured.error)[-max(1, len(measured.error) // 100) :]
    names = {"pooled": "", "median": "_median", "p99": "_p99", "max": "_max"}
    share = float(np.sum(worst) / np.sum(measured.error))
    return {key: found[f"relative_l2{suffix}"] for key, suffix in names.items()} | {"share_of_worst": share}


def spreads(name):
    """Clean, and under the common perturbation."""
    operators = {method: load_model(name, method) for method in (BASELINE, *METHODS)}
    session = Session(operators, make_problem(name), tests=TESTS, eps=EPS, identity={"recipe": "zoo", "seed": 0})
    cases = {"clean": clean_case(session.clean), **{setting_of(eps): session.common(eps) for eps in EPS}}
    found = {setting: session.measure(case) for setting, case in cases.items()}
    return {m: {setting: spread(measured[m]) for setting, measured in found.items()} for m in METHODS}


def sampling(name):
    """Relative distances of the interpolant's solutions from the function's own; None where nothing is sampled."""
    problem = make_problem(name)
    if not isinstance(problem.inputs["a"], SensorInput):
        return None
    finer = make_problem(name, {"sensors": FINER * (problem.inputs.size - 1) + 1})
    a = np.asarray(finer.sample(finer.tests, key=jax.random.key(TEST_SEED)))[:TESTS]
    truth, seen = finer.reference(a), problem.reference(a[:, ::FINER])
    apart, size = np.sum((seen - truth) ** 2, axis=1), np.sum(truth**2, axis=1)
    ratios = np.sqrt(apart / size)
    pooled = float(np.sqrt(np.sum(apart) / np.sum(size)))
    return {"pooled": pooled, "median": float(np.median(ratios)), "max": float(np.max(ratios))}


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--out", type=Path, required=True)
    arguments.add_argument("--problems", nargs="+", default=PROBLEMS, choices=PROBLEMS)
    options = arguments.parse_args()
    stop_in_time(15)
    results = {}
    for name in options.problems:
        results[name] = {"errors": spreads(name), "sampling": sampling(name)}
        print(name, json.dumps(results[name]), flush=True)
    save(options.out, {"tests": TESTS, "finer": FINER, "results": results})


if __name__ == "__main__":
    main()
