"""Where the recipe robust is wrong, and what the library says of it:

    python benchmarks/limits.py --out docs/limits.json
    python benchmarks/limits.py --only amplitude --out docs/limits.json        (some of it)

The operator is the zoo's. Its errors are relative to reference solutions on the evaluation grid: pooled over inputs,
the median and the largest of them, and pooled at the last time alone. Beside them stand the warnings of a call,
`operator(a, points)`, and what `stablepdenet predict` says of the same inputs. Rows that the file has are kept.
"""

import argparse
import json
import warnings
from functools import cache
from pathlib import Path

import jax
import numpy as np
from common import save

from stablepdenet import evaluation_inputs, load_model, make_problem, solve
from stablepdenet.auditing import Measurer
from stablepdenet.errors import InputError
from stablepdenet.experiments.range import beyond_training
from stablepdenet.experiments.reading import read_inputs
from stablepdenet.experiments.runs import configure
from stablepdenet.spectral import inadmissible

TESTS = 50
HEAT = "Heat, α = 1"
SEED = 7


def burgers_inputs():
    return np.asarray(evaluation_inputs(make_problem("burgers"), TESTS))


def amplitude():
    """Inputs that are larger than those of the training."""
    return {f"Burgers, times {factor:g}": factor * burgers_inputs() for factor in (1.0, 1.5, 2.0, 3.0, 4.0)}


def modes():
    """One wave of size 1, which training inputs are five times smaller than."""
    x = make_problem("burgers").input.sensors
    return {f"Burgers, sin({2 * k}πx)": np.sin(2 * np.pi * k * x)[None] for k in (1, 2, 4, 8)}


def means():
    """Inputs with another mean."""
    return {f"Burgers, plus {mean:g}": burgers_inputs() + mean for mean in (0.5, 1.0, 2.0)}


def translation():
    """The same inputs begun elsewhere in the period."""
    a = burgers_inputs()[:, :-1]
    moved = np.roll(a, a.shape[1] // 4, axis=1)
    return {"Burgers, moved by a quarter of the period": np.concatenate([moved, moved[:, :1]], axis=1)}


def signs():
    """Rough inputs: a random sign at each sensor."""
    a = burgers_inputs()
    noise = np.asarray(jax.random.rademacher(jax.random.key(SEED), a.shape), np.float64)
    noise[:, -1] = noise[:, 0]
    return {f"Burgers, random signs of {eps:g}": a + eps * noise for eps in (0.05, 0.1, 0.2, 0.3, 0.5)}


def inadmissible_inputs():
    """What no input should be."""
    a = burgers_inputs()
    x = make_problem("burgers").input.sensors
    broken = a.copy()
    broken[:, 50] = np.nan
    return {
        "Burgers, ends that differ by 0.5": a + 0.5 * x,
        "Burgers, values in another unit (times 100)": 100.0 * a,
        "Burgers, a value that is no number": broken,
    }


@cache
def zoo():
    """Burgers, the zoo's operator, and what compiles its calls once for all rows."""
    problem = make_problem("burgers")
    return problem, load_model("burgers", "robust"), configure(problem, recipe="robust"), Measurer(problem)


def measured(problem, operator, config, measurer, a, folder):
    """A row of numbers and words."""
    a = np.asarray(a, np.float32)
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        u = measurer.solve(operator, a)
    row = {"inputs": len(a), "call": " ".join(str(one.message) for one in heard)}
    row["predict"] = said(problem, config, a, folder)
    if np.all(np.isfinite(a)) and not np.any(inadmissible(a, problem)):
        row |= errors(u, problem.reference(a), len(problem.axes[-1]))
    return row


def errors(u, exact, times):
    """Pooled, the median, the largest, and pooled at the last time."""
    off, whole = (np.sum(v.reshape(len(u), -1, times) ** 2, axis=1) for v in (u - exact, exact))
    each = np.sqrt(off.sum(axis=1) / whole.sum(axis=1))
    last = np.sqrt(off[:, -1].sum() / whole[:, -1].sum())
    found = (np.sqrt(off.sum() / whole.sum()), np.median(each), np.max(each), last)
    return dict(zip(("pooled", "median", "largest", "last"), map(float, found), strict=True))


def said(problem, config, a, folder):
    """What `predict` says of the inputs: how many it warns of, or that it refuses them."""
    file = folder / "inputs.npy"
    np.save(file, a)
    try:
        a = read_inputs(file, problem.inputs.size)
    except InputError:
        return "refuses them"
    finally:
        file.unlink()
    outside = int(np.sum(np.max(list(beyond_training(a, problem, config).values()), axis=0) > 1.0))
    foreign = int(np.sum(inadmissible(a, problem)))
    told = [f"{outside} outside of training"] * bool(outside) + [f"{foreign} not admissible"] * bool(foreign)
    return ", ".join(told)


def of_burgers(inputs):
    """Rows of one group, of the zoo's operator."""

    def rows(folder, known):
        for title, a in inputs().items():
            if title not in known:
                yield title, measured(*zoo(), a, folder)

    return rows


def heat(folder, known):
    """A diffusion for which the corner functions are not made."""
    if HEAT in known:
        return
    problem = make_problem("heat", {"alpha": 1.0})
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        operator = solve(problem)
    config, a = configure(problem, recipe="robust"), evaluation_inputs(problem, TESTS)
    row = measured(problem, operator, config, Measurer(problem), a, folder)
    yield HEAT, row | {"made": " ".join(str(one.message) for one in heard)}


GROUPS = {
    "amplitude": of_burgers(amplitude),
    "modes": of_burgers(modes),
    "means": of_burgers(means),
    "translation": of_burgers(translation),
    "signs": of_burgers(signs),
    "heat": heat,
    "inadmissible": of_burgers(inadmissible_inputs),
}


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--out", type=Path, default=Path("docs/limits.json"))
    arguments.add_argument("--only", nargs="+", choices=GROUPS, default=list(GROUPS))
    chosen = arguments.parse_args()
    there = json.loads(chosen.out.read_text(encoding="utf-8"))["groups"] if chosen.out.exists() else {}
    for name in chosen.only:
        rows = there.setdefault(name, {})
        for title, row in GROUPS[name](chosen.out.parent, tuple(rows)):
            rows[title] = row
            save(chosen.out, {"groups": there})
            print(title, row, flush=True)


if __name__ == "__main__":
    main()
