"""Puts the benchmarks' results into the tables of docs/performance.md:

    python benchmarks/document.py

A table stands between `<!-- name -->` and `<!-- end -->` and is made from the files in docs/performance, which are
copies of what the benchmarks wrote.
"""

import json
import re
import statistics
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent / "peers"))

from accuracy_report import LEVELS, reached
from report import share_of_limit

DOCS = Path(__file__).parents[1] / "docs"


def markdown(header, rows):
    """A table; the first column is text, all others numbers."""
    lines = [header, ["---", *["---:"] * (len(header) - 1)], *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def short(number):
    return f"{number:.0f}" if number >= 100 else f"{number:.3g}"


def steps_of(kind):
    """A table of one kind of step: ms with the ratio to ours."""

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
    kept = [f"{t['ours']['peak_kept_mb']:.0f} MB" for t in results.values()]
    rows.insert(1, [f"{labels['ours']}, program kept from an earlier run", *kept])
    return markdown(["peak memory", *results], rows)


def limit(files):
    rows = []
    for problem, table in files["peers"]["results"]["limit"].items():
        operations = table["xla-products"]["operations"]
        rates = [f"{operations / row['ms'] / 1e6:.0f}" for row in table.values()]
        share = share_of_limit(table, "ours")
        rows.append([problem, f"{operations / 1e6:.0f}", f"{table['ours']['ms']:.2f}", *rates, f"{share:.0%}"])
    header = ["problem", "MFLOP", "step, ms", "step, GFLOP/s", "products in XLA", "in PyTorch", "share of the best"]
    return markdown(header, rows)


def layouts(files):
    rows = []
    for points in files["layouts"]["rates"]["xla"]:
        for name in files["layouts"]["rates"]["xla"][points]:
            cells = [
                f"{value:.0f}" for table in files["layouts"]["rates"].values() for value in table[points][name].values()
            ]
            rows.append([f"{points} points, {name}", *cells])
    sides = [
        f"{library}, {way}" for library in ("XLA", "PyTorch") for way in ("points x features", "features x points")
    ]
    return markdown(["GFLOP/s", *sides], rows)


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
        slopes = [f"{result[key]:.2f}" for key in ("time_slope", "last_slope")]
        rows.append([sweep, f"{first['size']:,} - {last['size']:,}", *spans, *slopes])
    header = ["what grows", "from - to", "ms", "peak MB", "program's buffers, MB", "slope of time", "at the end"]
    return markdown(header, rows)


def accuracy(files):
    labels, rows = files["accuracy"]["labels"], []
    for problem, curves in files["accuracy"]["results"].items():
        for name, points in curves.items():
            times = [reached(points, level) for level in LEVELS]
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
    processors = {content["machine"]["processor"] for content in files.values()}
    assert len(processors) == 1, f"the results come from several machines: {processors}"
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
    "layouts": layouts,
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
        assert pattern.search(text), f"the page has no place for the table '{name}'"
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
