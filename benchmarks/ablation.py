"""The recipe robust with one part taken away at a time, on Burgers (trained) and heat (solved):

    python benchmarks/ablation.py --seeds 3 --out results [--problems burgers heat]

Trainings may be interrupted; they lie in OUT/runs/ablation. Rows go to OUT/ablation; what is there is skipped. The
common perturbation is found against the zoo's PI-DeepONet.
"""

import argparse
import dataclasses
import importlib.metadata
from pathlib import Path
from unittest.mock import patch

import jax
from defences import measure

from stablepdenet import load_model, make_problem, refine, solve
from stablepdenet.experiments import recipes
from stablepdenet.experiments.campaign import parse_seeds
from stablepdenet.experiments.campaign.job import PACKAGES
from stablepdenet.experiments.results import Result, path_of, save_result
from stablepdenet.experiments.runs import configure, resolve
from stablepdenet.experiments.training import symmetric, train_in, with_refinement
from stablepdenet.operators import Ansatz

RECIPE, BASELINE = "ablation", "pi"
TRAININGS = {
    "robust": {},
    "soft constraints": {"operator.constraints": "soft"},
    "a trunk that is not periodic": {"operator.embedding": "coordinates"},
    "the problem's own points": {"training.points": "own"},
    "Adam instead of Muon": {"training.optimiser": "adam", "training.learning_rate": 1e-3},
    "a constant rate": {"training.schedule": "constant"},
    "100,000 inputs instead of 1,000": {"training.functions": 100_000},
    "StablePDENet's objective": {"method.name": "stable", "training.warmup": 1_000, "training.refresh": 500},
}
# Of the whole recipe's training, as those with fewer steps are.
WHOLE = "the whole residual, not its projection"
ANSWERS = {"two refinements": 2, "one refinement": 1, "no refinement": 0}


def trained(problem, seed, folder, variants):
    """Operators as they answer, and their configurations."""
    operators, configs = {}, {}
    for name, changes in variants.items():
        _, config = resolve(problem.name, {**recipes.trained(problem), **changes, "seed": seed})
        config = dataclasses.replace(config, recipe="robust")
        state = train_in(folder / name.replace(" ", "-").replace("'", ""), problem, config)
        configs[name], operators[name] = config, with_refinement(state.trained, problem, config)
        print(f"{problem.name} seed {seed}: {name}", flush=True)
        for title, steps in ANSWERS.items() if name == "robust" else ():
            fewer = dataclasses.replace(config, operator=dataclasses.replace(config.operator, refinements=steps))
            configs[title] = fewer
            operators[title] = (
                symmetric(refine(state.trained, problem, steps=steps), problem) if steps else state.trained
            )
        if name == "robust":
            with patch("stablepdenet.refining.residuals._tests", return_value=None):
                configs[WHOLE], operators[WHOLE] = config, with_refinement(state.trained, problem, config)
    return operators, configs


def burgers(problem, seed, folder):
    return trained(problem, seed, folder, TRAININGS)


def heat(problem, seed, folder):
    """Solved, with less and less known of its solutions; and trained, as if it were not linear."""
    whole = problem.ansatz
    known = {
        "robust": whole,
        "without corner functions": Ansatz(lift=whole.lift),
        "without lift and corner functions": None,
    }
    operators = {name: solve(dataclasses.replace(problem, ansatz=ansatz)) for name, ansatz in known.items()}
    found, configs = trained(problem, seed, folder, {"trained, not solved": {}})
    solved = configure(problem, {"seed": seed}, recipe="robust")
    return operators | found, dict.fromkeys(known, solved) | configs


def run(name, seed, out):
    problem, folder = make_problem(name), out / "runs" / RECIPE / name / f"seed-{seed}"
    operators, configs = {"burgers": burgers, "heat": heat}[name](problem, seed, folder)
    rows, notes = measure(problem, RECIPE, seed, {BASELINE: load_model(name, BASELINE), **operators})
    return Result(
        recipe=RECIPE,
        problem=name,
        seed=seed,
        rows=[row for row in rows if row["method"] != BASELINE],
        settings={method: config.as_dict() for method, config in configs.items()},
        curves={},
        seconds={},
        versions={package: importlib.metadata.version(package) for package in PACKAGES},
        notes=notes,
    )


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--problems", nargs="+", default=["burgers", "heat"])
    arguments.add_argument("--seeds", default="3")
    arguments.add_argument("--out", type=Path, default=Path("results"))
    chosen = arguments.parse_args()
    for seed in parse_seeds(chosen.seeds):
        for name in chosen.problems:
            if not path_of(chosen.out, RECIPE, name, seed).exists():
                save_result(chosen.out, run(name, seed, chosen.out))
                print(f"{name} seed {seed}: done", flush=True)
                # A process can hold only so many compiled programs.
                jax.clear_caches()


if __name__ == "__main__":
    main()
