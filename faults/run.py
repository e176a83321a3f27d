"""Faults, many times over (`make faults`). Counts go to stdout, to a file, and into docs/reliability.md:

python faults/run.py --out docs/reliability.json [--parts kills flips]
"""

import argparse
import json
import re
import sys
import tempfile
import time
from pathlib import Path

import kills  # first: it forks, which must come before JAX has threads
from tiny import told

KILLS, CASES = 200, 12_000
# What must not happen, what must happen every time, how often at least, and what it may cost.
NEVER = (
    "unreadable",
    "lost_more",
    "other_bytes",
    "tracebacks",
    "hangs",
    "executed_payloads",
    "files_written_over",
    "published",
)
ALL = (
    ("noticed", "bytes_flipped"),
    ("recovered", "bytes_flipped"),
    ("noticed", "injected"),
    ("named", "injected"),
    ("same_bytes", "pairs"),
)
LEAST = {"kills": KILLS, "inside_a_save": 50, "cases": 10_000}
PERCENT = 2
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


def missed(counts):
    """What did not come out as it must."""
    for part, found in counts.items():
        yield from (f"{part}: {name} {found[name]}, not 0" for name in NEVER if found.get(name))
        yield from (f"{part}: {a} {found[a]} of {found[b]}" for a, b in ALL if b in found and found[a] != found[b])
        yield from (
            f"{part}: {name} {found[name]}, not {low}" for name, low in LEAST.items() if found.get(name, low) < low
        )
    dear = {name: share for name, share in counts.get("cost", {}).items() if share >= PERCENT}
    yield from (f"cost: {share} % of a step of {name}, not under {PERCENT} %" for name, share in dear.items())


def number(value):
    return f"{value:,}" if isinstance(value, int) else f"{value:.2g}"


def fill(page, counts):
    """The page with all counts as a table between its marks."""
    rows = [(part, name, value) for part, found in counts.items() for name, value in found.items()]
    lines = ["| part | count | |", "| --- | --- | ---: |"]
    for part, name, value in rows:
        shown = ", ".join(f"{k} {number(v)}" for k, v in value.items()) if isinstance(value, dict) else number(value)
        lines.append(f"| {part} | {name.replace('_', ' ')} | {shown} |")
    table = "\n".join(lines)
    return re.sub(r"(<!-- counts -->\n).*?(<!-- end -->)", lambda m: f"{m[1]}{table}\n{m[2]}", page, flags=re.DOTALL)


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    arguments.add_argument("--out", type=Path)
    chosen = arguments.parse_args()
    counts = json.loads(chosen.out.read_text()) if chosen.out and chosen.out.exists() else {}
    # In their order, whatever the order asked for.
    for part in [part for part in PARTS if part in chosen.parts]:
        began = time.perf_counter()
        with tempfile.TemporaryDirectory() as folder:
            counts[part] = PARTS[part](folder)
        counts = {name: counts[name] for name in PARTS if name in counts}
        print(f"{part}, {time.perf_counter() - began:.0f} s\n{told(counts[part])}", flush=True)
        if chosen.out:
            chosen.out.write_text(json.dumps(counts, indent=1) + "\n")
            PAGE.write_text(fill(PAGE.read_text(encoding="utf-8"), counts), encoding="utf-8")
    sys.exit("; ".join(missed(counts)) or 0)


if __name__ == "__main__":
    main()
