"""Faults, many times over (`make faults`). Counts go to stdout and to a file:

python faults/run.py --out docs/reliability.json [--parts kills flips]
"""

import argparse
import json
import tempfile
import time
from pathlib import Path

import kills  # first: it forks, which must come before JAX has threads
from tiny import told

KILLS, CASES = 200, 12_000


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


if __name__ == "__main__":
    main()
