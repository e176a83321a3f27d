"""Refines the paper's plain PI-DeepONets, without training them again, and measures them:

    python benchmarks/refined.py --seeds 5 --out results

Seed 0 is the zoo's; other seeds are taken from the trainings below OUT/runs, which `stablepdenet reproduce` leaves
there. Rows go to OUT/refined, the method's name says how many Gauss-Newton steps were taken; what is there is skipped.
"""

import argparse
import importlib.metadata
import time
from pathlib import Path

from stablepdenet import audit, load_model, make_problem, refine
from stablepdenet.experiments.campaign import parse_seeds
from stablepdenet.experiments.campaign.job import PACKAGES
from stablepdenet.experiments.report import paper
from stablepdenet.experiments.results import Result, path_of, save_result
from stablepdenet.experiments.runs import configure, load_operator

RECIPE = "refined"
STEPS = (1, 3)


def plain(problem, seed, out):
    """The plain PI-DeepONet, or None where nobody has trained it here."""
    if not seed:
        return load_model(problem.name, "pi")
    folder = out / "runs" / "paper" / problem.name / f"seed-{seed}" / "pi"
    done = path_of(out, "paper", problem.name, seed).exists() and folder.exists()
    return load_operator(folder, problem)[1] if done else None


def measure(problem, seed, operator):
    """Rows of the refined operators under the paper's protocol."""
    operators = {"pi": operator} | {f"pi-refined-{steps}": refine(operator, problem, steps=steps) for steps in STEPS}
    began = time.perf_counter()
    found = audit(operators, problem, parts=["errors"], tests=None, recipe=RECIPE, seed=seed)
    if found.failures:
        raise SystemExit(found.failures[0])
    counts = {"pi": 0} | {f"pi-refined-{steps}": steps for steps in STEPS}
    own = {"seed": seed, "method.name": "pi"}
    configs = {name: configure(problem, {**own, "operator.refinements": steps}) for name, steps in counts.items()}
    return Result(
        recipe=RECIPE,
        problem=problem.name,
        seed=seed,
        rows=found.rows,
        settings={name: config.as_dict() for name, config in configs.items()},
        curves={},
        seconds={"audit": time.perf_counter() - began},
        versions={name: importlib.metadata.version(name) for name in PACKAGES},
        notes=found.notes,
    )


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--seeds", default="5")
    arguments.add_argument("--out", type=Path, default=Path("results"))
    chosen = arguments.parse_args()
    for seed in parse_seeds(chosen.seeds):
        for name in paper.tables()["relative_l2"]:
            problem = make_problem(name)
            if path_of(chosen.out, RECIPE, name, seed).exists():
                continue
            operator = plain(problem, seed, chosen.out)
            if operator is None:
                print(f"{name} seed {seed}: no finished training below {chosen.out / 'runs'}, left out")
                continue
            save_result(chosen.out, measure(problem, seed, operator))
            print(f"{name} seed {seed}: done")


if __name__ == "__main__":
    main()
