"""Puts the benchmarks' results into the tables of docs/performance.md:

    python benchmarks/document.py

A table stands between `<!-- name -->` and `<!-- end -->` and is made from the files in docs/performance, which are
copies of what the benchmarks wrote.
"""

import json
import re
import statistics
from pathlib import Path

DOCS = Path(__file__).parents[1] / "docs"
LEVELS = (0.5, 0.2, 0.1, 0.05, 0.02)


def markdown(header, rows):
    """A table; the first column is text, all others numbers."""
    lines = [header, ["---", *["---:"] * (len(header) - 1)], *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def short(number):
    return f"{number:.0f}" if number >= 100 else f"{number:.3g}"


def steps_of(kind):
    """A table of one kind of step: ms with the ratio to ours, and memory in the last row of each problem."""

    def table(files):
        labels, results = files["peers"]["labels"], files["peers"]["results"][kind]
        names = list(next(iter(results.values())))
        rows = []
        for name in names:
            cells = [
                f"{short(t[name]['ms'])} ms" + (f", {short(t[name]['ratio'])}x" if name != "ours" else "")
                for t in results.values()
            ]
            median = statistics.median(t[name]["ratio"] for t in results.values())
            rows.append([labels[name], *cells, "" if name == "ours" else f"{short(median)}x"])
        return markdown(["contender", *results, "median"], rows)

    return table


def memory(files):
    labels, results = files["peers"]["labels"], files["peers"]["results"]["pi"]
    names = list(next(iter(results.values())))
    rows = [[labels[name], *(f"{t[name]['peak_mb']:.0f} MB" for t in results.values())] for name in names]
    return markdown(["peak memory", *results], rows)


def limit(files):
    rows = []
    for problem, table in files["peers"]["results"]["limit"].items():
        operations = table["xla-products"]["operations"]
        rates = {name: operations / row["ms"] / 1e6 for name, row in table.items()}
        best = max(rates["xla-products"], rates["torch-products"])
        rates = [*(f"{rates[name]:.0f}" for name in ("ours", "xla-products", "torch-products"))]
        share = operations / table["ours"]["ms"] / 1e6 / best
        rows.append([problem, f"{operations / 1e6:.0f}", f"{table['ours']['ms']:.2f}", *rates, f"{share:.0%}"])
    header = ["problem", "MFLOP", "step, ms", "step, GFLOP/s", "products in XLA", "in PyTorch", "share of the best"]
    return markdown(header, rows)


def profile(files):
    table = files["profile"]["ms"]
    kinds = [kind for kind in next(iter(table.values())) if not kind.endswith("step")]
    rows = [[name, *(f"{row[kind] / row['profiled step']:.0%}" for kind in kinds)] for name, row in table.items()]
    return markdown(["share of a step", *kinds], rows)


def growth(files):
    rows = []
    for sweep, result in files["growth"]["sweeps"].items():
        first, last = result["rows"][0], result["rows"][-1]
        spans = [f"{short(first[key])} - {short(last[key])}" for key in ("ms", "peak_mb", "buffers_mb")]
        rows.append([sweep, f"{first['size']:,} - {last['size']:,}", *spans, f"{result['time_slope']:.2f}"])
    return markdown(["what grows", "from - to", "ms", "peak MB", "program's buffers, MB", "slope of time"], rows)


def accuracy(files):
    labels, rows = files["accuracy"]["labels"], []
    for problem, curves in files["accuracy"]["results"].items():
        for name, points in curves.items():
            times = [next((p["seconds"] for p in points if p["error"] <= level), None) for level in LEVELS]
            cells = ["-" if seconds is None else f"{seconds:.1f}" for seconds in times]
            lowest, last = min(point["error"] for point in points), points[-1]
            rows.append([f"{problem}, {labels[name]}", *cells, f"{lowest:.4f}", f"{last['step']:,}"])
    return markdown(["seconds to an error of", *map(str, LEVELS), "lowest", "steps"], rows)


def serving(files):
    rows = []
    for problem, counts in files["serving"]["results"].items():
        for count, table in counts.items():
            kept = table["operator, trunk kept"]
            classical = {name: row for name, row in table.items() if name.startswith("classical")}
            name = min(classical, key=lambda name: classical[name]["ms"])
            best = classical[name]
            winner = files["serving"]["winners"][problem][count]
            rows.append(
                [
                    f"{problem}, {int(count):,}",
                    short(kept["ms"]),
                    short(table["operator, compiled call"]["ms"]),
                    short(best["ms"]),
                    f"{best['setting']} ({best['error']:.0e})",
                    f"{winner['winner'].split(':')[0].split(',')[0]}, {winner['times']:.1f}x",
                ]
            )
    header = ["problem, inputs", "operator, trunk kept, ms", "compiled call, ms", "classical, ms", "which", "faster"]
    return markdown(header, rows)


def startup(files):
    middle = statistics.median
    rows = [[f"`{name}`", f"{middle(times):.2f}", ""] for name, times in files["startup"]["commands"].items()]
    for name, states in files["startup"]["trainings"].items():
        cells = [f"{middle(states[state]['step']):.2f}" for state in ("kept", "empty")]
        rows.append([f"first training step, {name}", *cells])
    return markdown(["seconds from process start", "programs kept", "first time"], rows)


def steps(files):
    table = files["steps"]["ratios"]
    rows = [
        [name, f"{row['pi_ms']:.2f} ms", *(f"{row[key]:.2f}" for key in ("products", "stable", "refresh"))]
        for name, row in table.items()
    ]
    return markdown(["problem", "PI step", "over its products", "stable step / PI", "refresh / PI"], rows)


def machine(files):
    about = files["peers"]["machine"]
    versions = ", ".join(f"{name} {about[name]}" for name in ("python", "jax", "jaxlib", "numpy"))
    return f"{about['processor']}, one of {about['cores']} cores, {about['system']}; {versions}."


TABLES = {
    "machine": machine,
    "pi": steps_of("pi"),
    "memory": memory,
    "stable": steps_of("stable"),
    "refresh": steps_of("refresh"),
    "limit": limit,
    "profile": profile,
    "steps": steps,
    "growth": growth,
    "accuracy": accuracy,
    "serving": serving,
    "startup": startup,
}


def filled(text, files):
    """The page with every table made anew."""
    for name, table in TABLES.items():
        pattern = re.compile(rf"(<!-- {name} -->\n).*?(\n<!-- end -->)", re.DOTALL)
        text = pattern.sub(lambda found, table=table: found[1] + table(files) + found[2], text)
    return text


def read():
    """The committed results, by name."""
    return {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in (DOCS / "performance").glob("*.json")}


def main():
    page = DOCS / "performance.md"
    page.write_text(filled(page.read_text(encoding="utf-8"), read()), encoding="utf-8")


if __name__ == "__main__":
    main()
