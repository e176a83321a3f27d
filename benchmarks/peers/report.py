"""Results as tables, JSON and a picture, and which bars they miss."""

import statistics

from common import save

TITLES = {
    "pi": "PI step",
    "stable": "StablePDENet step",
    "refresh": "PGD refresh",
}
# How many times faster than each of these, in the median over problems, and than anybody on any problem.
MEDIANS = {"zcs": 5.0, "default": 100.0}
EVERYWHERE = 3.0
# The time of a step's matrix products, in whichever library is faster at them, as a share of the step.
LIMITS = {"poisson": 0.55, "heat": 0.65, "burgers": 0.65, "helmholtz-3.5pi": 0.65}


def share_of_limit(rows, ours):
    """The fastest products' time over the step's, within a round: how much of the best product rate a step reaches."""
    return min(row["ratio"] for name, row in rows.items() if name != ours)


def missed(results, ours):
    """The bars of a PI step that these results miss, in words."""
    table = results.get("pi", {})
    shares = {problem: share_of_limit(rows, ours) for problem, rows in results.get("limit", {}).items()}
    words = [
        f"{problem} {share:.0%} of the best product rate, not {LIMITS[problem]:.0%}"
        for problem, share in shares.items()
        if not share >= LIMITS[problem]
    ]
    for name, bar in MEDIANS.items():
        ratio = statistics.median(rows[name]["ratio"] for rows in table.values()) if table else bar
        if not ratio >= bar:
            words.append(f"{name} {ratio:.1f}x in the median, not {bar:g}x")
    for problem, rows in table.items():
        peers = {name: row for name, row in rows.items() if name != ours}
        words += [
            f"{problem} {name} {row['ratio']:.1f}x, not {EVERYWHERE:g}x"
            for name, row in peers.items()
            if not row["ratio"] >= EVERYWHERE
        ]
        best = min(row["peak_mb"] for row in peers.values())
        if not rows[ours]["peak_mb"] <= best:
            words.append(f"{problem} memory {rows[ours]['peak_mb']:.0f} MB, not {best:.0f} MB")
    return words


def write(results, words, labels, ours, folder):
    """The tables on stdout; peers.json and peers.png in `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    save(folder / "peers.json", {"labels": labels, "results": results, "missed": words})
    if "limit" in results:
        _print_limit(results["limit"], labels, ours)
    for kind, table in results.items():
        if kind == "limit":
            continue
        print(f"\n{TITLES[kind]}: median ms (quartiles), times ours, peak memory, timed steps, loss at equal weights")
        if any(row["parts"] > 1 for rows in table.values() for row in rows.values()):
            print("(n/40: n of its 40 equal iterations were timed, and scaled)")
        for problem, rows in table.items():
            for name, row in rows.items():
                spread = f"({_ms(row['ms_low'])} - {_ms(row['ms_high'])})"
                steps = f"{row['steps']}/{row['parts']}" if row["parts"] > 1 else row["steps"]
                print(
                    f"{problem:16} {labels[name]:34} {_ms(row['ms']):>6} ms {spread:17} {row['ratio']:7.1f}x "
                    f"{row['peak_mb']:7.0f} MB {steps:>5}  {row['loss']:.7g}"
                )
        medians = _medians(table)
        print("median over problems: " + ", ".join(f"{labels[name]} {ratio:.1f}x" for name, ratio in medians.items()))
    _picture(results, labels, folder / "peers.png")
    print(f"\nWritten: {folder / 'peers.json'}, {folder / 'peers.png'}")


def _print_limit(table, labels, ours):
    print("\nA PI step and its matrix products alone: median ms, product rate, share of the best product rate")
    for problem, rows in table.items():
        operations = next(row["operations"] for row in rows.values() if "operations" in row)
        for name, row in rows.items():
            rate = operations / row["ms"] / 1e6
            share = f"{share_of_limit(rows, ours):7.0%}" if name == ours else ""
            print(f"{problem:16} {labels[name]:34} {_ms(row['ms']):>6} ms {rate:5.0f} GFLOP/s {share}")


def _ms(value):
    return f"{value:.0f}" if value >= 1000 else f"{value:.3g}"


def _medians(table):
    names = list(next(iter(table.values())))[1:]
    return {name: statistics.median(rows[name]["ratio"] for rows in table.values()) for name in names}


def _picture(results, labels, path):
    """One row of panels for each kind, one panel for each problem; times on a logarithmic axis."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    # Shares of a step want linear axes; the table has them.
    results = {kind: table for kind, table in results.items() if kind != "limit"}
    if not results:
        return
    problems = list(next(iter(results.values())))
    heights = [len(next(iter(table.values()))) for table in results.values()]
    size = 3.0 * len(problems) + 2.5, 0.32 * sum(heights) + 0.9 * len(heights)
    figure, axes = pyplot.subplots(
        len(results),
        len(problems),
        figsize=size,
        squeeze=False,
        sharey="row",
        height_ratios=heights,
        layout="constrained",
    )
    for line, (kind, table) in zip(axes, results.items(), strict=True):
        for axis, (problem, rows) in zip(line, table.items(), strict=True):
            names = list(rows)
            times = [rows[name]["ms"] for name in names]
            around = [
                [row["ms"] - row["ms_low"] for row in rows.values()],
                [row["ms_high"] - row["ms"] for row in rows.values()],
            ]
            colours = ["C1" if i == 0 else "0.6" for i in range(len(names))]
            axis.barh([labels[name] for name in names], times, xerr=around, color=colours, height=0.7)
            for i, name in enumerate(names):
                axis.annotate(
                    f"{rows[name]['ratio']:.1f}x",
                    (rows[name]["ms_high"], i),
                    xytext=(4, 0),
                    textcoords="offset points",
                    va="center",
                )
            axis.set(
                xscale="log", title=f"{problem}: {TITLES[kind]}", xlabel="ms", xlim=(min(times) / 3, max(times) * 8)
            )
            axis.spines[["top", "right"]].set_visible(False)
        line[0].invert_yaxis()
    figure.savefig(path, dpi=150)
    pyplot.close(figure)
