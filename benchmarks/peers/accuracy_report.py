"""Curves of error against time as tables and a picture."""

LEVELS = (0.5, 0.2, 0.1, 0.05, 0.02)
# Ours stands out; the peers differ in more than their colour.
STYLES = {
    "ours": {"color": "C1", "linewidth": 2.5, "marker": "o"},
    "zcs": {"color": "C0", "marker": "s"},
    "zcs-stacked": {"color": "0.35", "marker": "^"},
}


def reached(points, level):
    """The first time at which the measured error is at most `level`, or None."""
    return next((point["seconds"] for point in points if point["error"] <= level), None)


def table(results, labels):
    """For each problem, the time to some errors, and where each contender ends."""
    print("Seconds until the relative L2 error is first measured to be at most ...; the first step also compiles.")
    print("At a constant learning rate single steps throw the error up, so beside the last one stands the lowest.")
    for problem, curves in results.items():
        levels = "".join(f"{level:>13g}" for level in LEVELS)
        print(f"\n{problem:34}{'first step':>12}{levels}{'lowest':>9}{'last':>9}{'after':>9}{'steps':>9}")
        for name, points in curves.items():
            times = [reached(points, level) for level in LEVELS]
            words = "".join(f"{'not reached' if t is None else f'{t:.1f} s':>13}" for t in times)
            last, lowest = points[-1], min(point["error"] for point in points)
            print(
                f"{labels[name]:34}{points[0]['seconds']:>10.2f} s{words}{lowest:>9.4f}{last['error']:>9.4f}"
                f"{last['seconds']:>7.0f} s{last['step']:>9}"
            )


def picture(results, labels, path):
    """One panel for each problem, both axes logarithmic; a curve begins where the first step ends."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot, ticker

    figure, (axes,) = pyplot.subplots(
        1, len(results), figsize=(4.2 * len(results) + 0.6, 3.9), squeeze=False, layout="constrained"
    )
    for axis, (problem, curves) in zip(axes, results.items(), strict=True):
        for name, points in curves.items():
            seconds, errors = ([point[key] for point in points] for key in ("seconds", "error"))
            axis.plot(seconds, errors, label=labels[name], markersize=3.5, **STYLES[name])
        axis.set(xscale="log", yscale="log", title=problem, xlabel="seconds on one core, compiling included")
        axis.xaxis.set_major_formatter("{x:g}")
        # Errors may span less than a decade, which by itself would have one label or none.
        axis.yaxis.set_major_locator(ticker.LogLocator(subs=(1, 2, 5)))
        axis.yaxis.set_major_formatter("{x:g}")
        for side in (axis.xaxis, axis.yaxis):
            side.set_minor_formatter(ticker.NullFormatter())
        axis.grid(alpha=0.3)
        axis.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel("relative L2 error on 200 test inputs")
    handles, names = axes[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=len(names), frameon=False)
    figure.savefig(path, dpi=150)
    pyplot.close(figure)
