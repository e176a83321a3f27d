"""Are estimated errors right? On the registered problems, for operators of each kind:

    python benchmarks/estimates.py --out results [--problems heat burgers]

`robust` is `stablepdenet.robust` with its defaults; it also judges the others: the zoo's StablePDENet, and the zoo's
PI-DeepONet as a bare function, as somebody else's network would come. Rows go to OUT/estimates; what is there is
skipped. The table of docs/trust.md is made of them.
"""

import argparse
import contextlib
import importlib.metadata
import math
import statistics
import time
import warnings
from pathlib import Path

import jax
from document import markdown
from reproduction import filled

import stablepdenet as sp
from stablepdenet.errors import ConfigError
from stablepdenet.experiments.campaign.job import PACKAGES
from stablepdenet.experiments.report import paper
from stablepdenet.experiments.results import Result, load_results, path_of, save_result

DOCS = Path(__file__).parent.parent / "docs"
RECIPE, SEED, TESTS = "estimates", 0, 100
EPS = (0.05,)
TITLES = {"robust": "`sp.robust`", "stable": "StablePDENet, judged", "foreign": "PI-DeepONet as a function, judged"}


def run(name):
    """Rows of one problem."""
    problem = sp.make_problem(name)
    began = time.perf_counter()
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        robust = sp.robust(problem)
    seconds = {"robust": time.perf_counter() - began}
    operators = {"robust": robust}
    with contextlib.suppress(ConfigError):  # not every problem has trained models
        stable, foreign = sp.load_model(name, "stable"), sp.load_model(name, "pi")
        operators["stable"] = sp.JudgedOperator(stable, robust)
        operators["foreign"] = sp.JudgedOperator(sp.FunctionOperator(lambda a, points: foreign(a, points)), robust)
    audit = sp.audit(operators, problem, parts=["estimates"], tests=TESTS, eps=EPS, recipe=RECIPE, seed=SEED)
    versions = {package: importlib.metadata.version(package) for package in PACKAGES}
    notes = [*(str(each.message) for each in said), *audit.notes]
    return Result(RECIPE, name, SEED, audit.rows, {}, {}, seconds, versions, notes)


def row_of(result, method):
    """The range of estimates over errors among the cases of a method, and what they miss."""
    found = {
        (row["metric"], row["attack"], row["setting"]): row["value"] for row in result.rows if row["method"] == method
    }

    def all_of(metric):
        return [value for (name, *_), value in found.items() if name == metric]

    low, high = min(all_of("effectivity_p05"), default=None), max(all_of("effectivity_p95"), default=None)
    return [
        TITLES[method],
        "–" if low is None else f"{low:.2g} to {high:.2g}",
        f"{statistics.median(all_of('effectivity_median') or [math.nan]):.2g}",
        f"{100 * min(all_of('coverage')):.0f} %",
        f"{100 * max(all_of('below_half')):.0f} %",
        f"{100 * max(all_of('estimate_unknown')):.0f} %",
    ]


def table(results):
    """One row a problem and operator."""
    header = ["", "", "estimate / error", "median", "covered", "too small by half", "not known"]
    rows = []
    for result in results:
        present = {row["method"] for row in result.rows}
        rows += [[result.problem if first else "", *row_of(result, method)] for first, method in firsts(present)]
    return markdown(header, rows)


def stored(out):
    """All rows that there are."""
    return [each for each in load_results(out) if each.recipe == RECIPE]


def firsts(methods):
    """The methods in their order, and whether each is the first."""
    return [(number == 0, method) for number, method in enumerate(each for each in TITLES if each in methods)]


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--problems", nargs="+", default=list(paper.tables()["relative_l2"]))
    arguments.add_argument("--out", type=Path, default=Path("results"))
    chosen = arguments.parse_args()
    for name in chosen.problems:
        if not path_of(chosen.out, RECIPE, name, SEED).exists():
            save_result(chosen.out, run(name))
            print(f"{name}: done", flush=True)
            # A process can hold only so many compiled programs.
            jax.clear_caches()
    page = DOCS / "trust.md"
    tables = {"estimates": table(stored(chosen.out))}
    page.write_text(filled(page.read_text(encoding="utf-8"), tables), encoding="utf-8")


if __name__ == "__main__":
    main()
