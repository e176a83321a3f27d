"""`sp.robust` on Burgers as the viscosity falls, on 1,000 test inputs, and what its estimates say:

    python benchmarks/viscosities.py --out docs/viscosities.json            (about five minutes a row, on one core)

Inputs are the test inputs, clean and under the common perturbation of 0.10, found against the zoo's PI-DeepONet. The
last row stops the search at its first trial: its answers are wrong, and are to be flagged. Rows that are there are not
made again. The table of docs/trust.md is made of them.
"""

import argparse
import json
import math
import time
import warnings
from pathlib import Path

import numpy as np
from common import save
from document import markdown
from reproduction import filled

import stablepdenet as sp
from stablepdenet.auditing.estimates import effectivity
from stablepdenet.auditing.inputs import clean_case
from stablepdenet.auditing.session import Session

DOCS = Path(__file__).parent.parent / "docs"
TESTS, EPS = 1_000, 0.10
# Seconds of the search; None as they come.
ROWS = {"0.01": None, "0.005": None, "0.002": None, "0.002, stopped at once": 1.0}
# Errors that are to be flagged, those that are not, and the estimate that flags.
WRONG, RIGHT, FLAG = 0.10, 0.02, 0.05


def measured(name, budget):
    problem = sp.make_problem("burgers", {"viscosity": float(name.split(",")[0])})
    began = time.perf_counter()
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        operator = sp.robust(problem, **({"budget": budget} if budget else {}))
    row = {"made_seconds": time.perf_counter() - began, "warned": bool(said)}
    row |= {"functions": operator.plan.counts[0], "steps": len(operator.plan.lengths)}
    session = Session(
        {"pi": sp.load_model("burgers", "pi")},
        problem,
        tests=TESTS,
        eps=(EPS,),
        identity={"recipe": "viscosities", "seed": 0},
    )
    for kind, case in {"clean": clean_case(session.clean), "common": session.common(EPS)}.items():
        found = session.measurer.answer(operator, case.inputs)
        exact = np.asarray(problem.reference(np.asarray(case.truth))).reshape(len(found.u), -1)
        rest, estimate = np.asarray(found.u, np.float64) - exact, np.asarray(found.estimate)
        true = np.linalg.norm(rest, axis=1) / np.linalg.norm(exact, axis=1)
        flagged = ~(estimate <= FLAG)
        row[kind] = {"error": float(np.linalg.norm(rest) / np.linalg.norm(exact)), "largest": float(true.max())}
        row[kind] |= effectivity(estimate, true)
        row[kind] |= {
            "wrong": int(np.sum(true > WRONG)),
            "wrong_flagged": int(np.sum(flagged & (true > WRONG))),
            "right": int(np.sum(true < RIGHT)),
            "right_flagged": int(np.sum(flagged & (true < RIGHT))),
        }
    return row


def table(rows):
    header = ["viscosity", "functions x steps", "", "error", "largest", "estimate / error"]
    header += ["wrong by 10 %: flagged", "right to 2 %: flagged"]
    lines = []
    for name, row in rows.items():
        for kind in ("clean", "common"):
            own = row[kind]
            ratios = [own.get(f"effectivity_{each}", math.nan) for each in ("p05", "median", "p95")]
            lines.append(
                [
                    *([name, f"{row['functions']} x {row['steps']}"] if kind == "clean" else ["", ""]),
                    {"clean": "clean", "common": "common, 0.10"}[kind],
                    *(f"{own[each]:.1e}" for each in ("error", "largest")),
                    " / ".join(f"{ratio:.2f}" for ratio in ratios),
                    f"{own['wrong_flagged']} of {own['wrong']}",
                    f"{own['right_flagged']} of {own['right']}",
                ]
            )
    return markdown(header, lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=DOCS / "viscosities.json")
    out = parser.parse_args().out
    rows = json.loads(out.read_text(encoding="utf-8"))["rows"] if out.exists() else {}
    for name, budget in ROWS.items():
        if name not in rows:
            rows[name] = measured(name, budget)
            save(out, {"rows": rows})
            print(json.dumps({name: rows[name]}), flush=True)
    page = DOCS / "trust.md"
    page.write_text(filled(page.read_text(encoding="utf-8"), {"viscosities": table(rows)}), encoding="utf-8")


if __name__ == "__main__":
    main()
