"""Faults, many times over (`make faults`). Counts go to stdout, to a file, and into docs/reliability.md:

python faults/run.py --out docs/reliability.json [--parts kills flips]
"""

import argparse
import json
import re
import tempfile
import time
from pathlib import Path

import kills  # first: it forks, which must come before JAX has threads
from tiny import told

KILLS, CASES = 200, 12_000
PAGE = Path(__file__).parents[1] / "docs" / "reliability.md"


def flips(folder):
    import flips

    return flips.run(folder)


def fuzz(folder):
    import fuzz

    return fuzz.run(CASES, folder)


def numbers(folder):
    import finite

    return finite.inject(folder)


def cost(folder):
    import finite

    return finite.cost(folder)


def same_bytes(folder):
    import determinism

    return determinism.run(folder)


PARTS = {
    "kills": lambda folder: kills.run(KILLS, folder),
    "flips": flips,
    "fuzz": fuzz,
    "numbers": numbers,
    "cost": cost,
    "bytes": same_bytes,
}


def fill(page, counts):
    """The page with all counts as a table between its marks."""
    rows = [(part, name, value) for part, found in counts.items() for name, value in found.items()]
    lines = ["| part | count | |", "| --- | --- | ---: |"]
    for part, name, value in rows:
        shown = ", ".join(f"{k} {v:.2g}" for k, v in value.items()) if isinstance(value, dict) else f"{value:,}"
        lines.append(f"| {part} | {name.replace('_', ' ')} | {shown} |")
    table = "\n".join(lines)
    return re.sub(r"(<!-- counts -->\n).*?(<!-- end -->)", lambda m: f"{m[1]}{table}\n{m[2]}", page, flags=re.DOTALL)


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    arguments.add_argument("--out", type=Path)
    chosen = arguments.parse_args()
    counts = json.loads(chosen.out.read_text()) if chosen.out and chosen.out.exists() else {}
    for part in chosen.parts:
        began = time.perf_counter()
        with tempfile.TemporaryDirectory() as folder:
            counts[part] = PARTS[part](folder)
        print(f"{part}, {time.perf_counter() - began:.0f} s\n{told(counts[part])}", flush=True)
        if chosen.out:
            chosen.out.write_text(json.dumps(counts, indent=1) + "\n")
            PAGE.write_text(fill(PAGE.read_text(encoding="utf-8"), counts), encoding="utf-8")


if __name__ == "__main__":
    main()
