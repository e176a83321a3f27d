"""`robust` on PDEs that nobody tuned it for (unseen_problems.py), each posed as a new user would.

    python benchmarks/unseen_pdes.py [--only Darcy inflow]                 (about two minutes a PDE, on two cores)

Every PDE is solved with all settings as they come. PDEs that docs/unseen_pdes.json has already are not solved again.
The table of docs/trust.md is made of it.
"""

import argparse
import json
import warnings
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from common import save
from reproduction import filled
from unseen_problems import PDES

import stablepdenet as sp
from stablepdenet.spectral import trial_inputs

DOCS = Path(__file__).parent.parent / "docs"
TESTS = 20


def measured(problem, solution):
    """Errors and estimates over errors on inputs as drawn, with noise, and twice as large."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        operator = sp.robust(problem)
    row = {"name": problem.name, "warned": bool(said)}
    _, noisy, twice = np.split(np.asarray(trial_inputs(problem, key=jax.random.key(992))), [6, 12])
    drawn = problem.sample(TESTS, key=jax.random.key(991))
    for kind, inputs in (("drawn", drawn), ("noisy", noisy), ("twice", twice)):
        answer = operator.answer(jnp.asarray(inputs), problem.grid)
        exact = np.stack([solution(each) for each in np.asarray(inputs, np.float64)])
        rest, size = (each.reshape(len(exact), -1) for each in (answer.u - exact, exact))
        errors = np.linalg.norm(rest, axis=1) / np.linalg.norm(size, axis=1)
        ratio = np.asarray(answer.estimate) / errors
        row[kind] = {
            "error": float(np.linalg.norm(rest) / np.linalg.norm(size)),
            "largest": float(np.max(errors)),
            "effectivity": [float(np.min(ratio)), float(np.median(ratio)), float(np.max(ratio))],
        }
    return row


def table(rows):
    """The rows in Markdown."""
    lines = [
        "| PDE | error | with noise | twice as large | estimate / error | warned |",
        "| :-- | --: | --: | --: | --: | :-- |",
    ]
    for row in rows:
        kinds = [row[kind] for kind in ("drawn", "noisy", "twice")]
        errors = " | ".join(f"{kind['error']:.2g}" for kind in kinds)
        low, high = min(kind["effectivity"][0] for kind in kinds), max(kind["effectivity"][2] for kind in kinds)
        warned = "yes" if row["warned"] else "no"
        lines.append(f"| {row['name']} | {errors} | {low:.2f} to {high:.2f} | {warned} |")
    return "\n".join(lines)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=DOCS / "unseen_pdes.json")
    parser.add_argument("--only", nargs="+", help="names of PDEs; all, if not given")
    chosen = parser.parse_args()
    stored = json.loads(chosen.out.read_text(encoding="utf-8"))["rows"] if chosen.out.exists() else []
    rows = {row["name"]: row for row in stored}
    page = DOCS / "trust.md"
    for make in PDES:
        problem, solution = make()
        if problem.name not in rows and (not chosen.only or problem.name in chosen.only):
            rows[problem.name] = measured(problem, solution)
            save(chosen.out, {"rows": list(rows.values())})
            print(json.dumps(rows[problem.name]), flush=True)
        page.write_text(filled(page.read_text(encoding="utf-8"), {"unseen": table(rows.values())}), encoding="utf-8")
