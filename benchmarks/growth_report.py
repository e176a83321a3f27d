"""Growth as fits, a table and a picture, and which bars it misses."""

import matplotlib
import numpy as np

matplotlib.use("Agg")
from matplotlib import pyplot
from matplotlib.ticker import LogLocator

LABELS = {
    "points": "interior points",
    "functions": "functions in the batch",
    "width": "width of the networks",
    "dimension": "coordinates",
    "order": "order of the derivative",
    "iterations": "PGD iterations",
}
MEMORY = {"peak_mb": "peak memory", "buffers_mb": "buffers"}
# Log-log slopes of time, and how far memory may be from a straight line, in percent.
BARS = {"time_slope": {"points": 1.05, "functions": 1.05, "iterations": 1.05}, "line_off": {"points": 10.0}}
# Okabe and Ito's colours, which the colour-blind tell apart.
BLUE, ORANGE, GREEN = "#0072B2", "#D55E00", "#009E73"


def fitted(rows):
    """The rows of a sweep, the log-log slope of time and of memory, and memory as a line in the size.

    Size 0 is left out of the fits: it has no logarithm, and a program without attack or derivatives is another one.
    """
    sizes = [row["size"] for row in rows if row["size"]]
    columns = {key: [row[key] for row in rows if row["size"]] for key in ("ms", *MEMORY)}
    return {
        "rows": rows,
        "time_slope": slope(sizes, columns["ms"]),
        "last_slope": slope(sizes[-2:], columns["ms"][-2:]),
        "memory_slope": {key: slope(sizes, columns[key]) for key in MEMORY},
        "memory_line": {key: line(sizes, columns[key]) for key in MEMORY},
    }


def slope(sizes, values):
    """The least-squares slope in logarithms."""
    return float(np.polyfit(np.log(sizes), np.log(values), 1)[0])


def line(sizes, values):
    """values = base + each * size by least squares, and the largest deviation from it in percent of the value."""
    each, base = np.polyfit(sizes, values, 1)
    off = np.max(np.abs(base + each * np.asarray(sizes) - values) / values)
    return {"base": float(base), "each": float(each), "off": float(100 * off)}


def missed(results):
    """The bars that these results miss, in words."""
    found = []
    for sweep, bar in BARS["time_slope"].items():
        if sweep in results and not results[sweep]["time_slope"] <= bar:
            found.append(f"{sweep} time slope {results[sweep]['time_slope']:.2f}, not {bar:g}")
    for sweep, bar in BARS["line_off"].items():
        for key, fit in results[sweep]["memory_line"].items() if sweep in results else ():
            if not fit["off"] < bar:
                found.append(f"{sweep} {MEMORY[key]} {fit['off']:.0f} % off a line, not below {bar:g} %")
    return found


def table(results):
    """The numbers on stdout."""
    for sweep, result in results.items():
        what = "refresh" if sweep == "iterations" else "PI step"
        print(f"\n{LABELS[sweep]}: median ms of a {what} (quartiles), peak memory, buffers of its program, timed runs")
        for row in result["rows"]:
            spread = f"({row['ms_low']:.3g} - {row['ms_high']:.3g})"
            print(
                f"{row['size']:8} {row['ms']:8.3g} ms {spread:17} {row['peak_mb']:7.0f} MB "
                f"{row['buffers_mb']:7.1f} MB {row['steps']:6}"
            )
        bar = BARS["time_slope"].get(sweep)
        slopes = ", ".join(f"{MEMORY[key]} {value:.2f}" for key, value in result["memory_slope"].items())
        time = f"{result['time_slope']:.2f}" + (f" (at most {bar:g})" if bar else "")
        # A constant part of the time flattens the fit, and hides what happens at the large end.
        print(f"   slopes: time {time}, between the last two sizes {result['last_slope']:.2f}, {slopes}")
        if sweep in BARS["line_off"]:
            for key, fit in result["memory_line"].items():
                print(
                    f"   {MEMORY[key]}: {fit['base']:.3g} MB + {1e3 * fit['each']:.3g} kB x size, at most "
                    f"{fit['off']:.1f} % off (below {BARS['line_off'][sweep]:g} %)"
                )


def picture(results, path):
    """A panel of times for each sweep and one of memory below it; logarithmic axes."""
    wide = min(3, len(results))
    high = -(-len(results) // wide)
    figure, axes = pyplot.subplots(
        2 * high,
        wide,
        figsize=(4.2 * wide, 4.6 * high),
        height_ratios=[2, 1.2] * high,
        squeeze=False,
        layout="constrained",
    )
    for axis in axes.flat:
        axis.set_visible(False)
    for i, (sweep, result) in enumerate(results.items()):
        times, memory = axes[2 * (i // wide) : 2 * (i // wide) + 2, i % wide]
        _times(times, sweep, result)
        _memory(memory, sweep, result)
    figure.savefig(path, dpi=150)
    pyplot.close(figure)


def _times(axis, sweep, result):
    rows = result["rows"]
    sizes, ms = _column(rows, "size"), _column(rows, "ms")
    around = [ms - _column(rows, "ms_low"), _column(rows, "ms_high") - ms]
    first = np.argmax(sizes > 0)
    guide = ms[first] * sizes[first:] / sizes[first]
    axis.plot(sizes[first:], guide, "--", color="0.6", label="in proportion to the size")
    axis.errorbar(
        sizes, ms, around, fmt="o-", color=BLUE, capsize=3, label=f"measured, slope {result['time_slope']:.2f}"
    )
    what = "PGD refresh" if sweep == "iterations" else "PI step"
    axis.set(title=f"{what}: {LABELS[sweep]}", ylabel="time (ms)")
    _style(axis, sizes, legend="best")


def _memory(axis, sweep, result):
    sizes = _column(result["rows"], "size")
    for (key, name), colour, mark in zip(MEMORY.items(), (ORANGE, GREEN), "so", strict=True):
        values = _column(result["rows"], key)
        axis.plot(sizes, values, f"{mark}-", color=colour, label=name)
    axis.set(xlabel=LABELS[sweep], ylabel="memory (MB)")
    _style(axis, sizes, legend="center left")


def _style(axis, sizes, legend):
    """Logarithmic axes with the sizes as ticks; a size 0 stands left of the logarithms."""
    if min(sizes) > 0:
        axis.set_xscale("log")
    else:
        axis.set_xscale("symlog", linthresh=min(sizes[sizes > 0]), linscale=0.4)
    axis.set_yscale("log")
    axis.set_xticks(sizes, [f"{size:,.0f}" for size in sizes])
    axis.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.yaxis.set_major_formatter("{x:g}")
    axis.minorticks_off()
    axis.legend(frameon=False, loc=legend)
    axis.spines[["top", "right"]].set_visible(False)
    axis.set_visible(True)


def _column(rows, key):
    return np.array([row[key] for row in rows], float)
