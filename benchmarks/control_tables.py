"""The table "Does the network matter?" of docs/robust.md, for `reproduction.py`."""

import statistics

from document import markdown
from robust_tables import SETTINGS, own_results, short

from stablepdenet.experiments.report import names
from stablepdenet.experiments.report.summary import Place

CLEAN = ("none", "clean")
ERRORS = {
    "clean": (*CLEAN, "relative_l2"),
    "median": (*CLEAN, "relative_l2_median"),
    "99 %": (*CLEAN, "relative_l2_p99"),
    "largest": (*CLEAN, "relative_l2_max"),
    "4 steepest": ("none", "hardest", "relative_l2"),
    **{f"ε = {setting}": ("common", setting, "relative_l2") for _, setting in SETTINGS[1:]},
    "signs, 0.10": ("signs", "0.10", "relative_l2"),
    "ms of 100": (*CLEAN, "answer_ms_100"),
    "ms alone": (*CLEAN, "answer_ms_1"),
}
# What all others are compared with stands first.
FIRST = "robust"


def controls(summary, results):
    """Every control of each problem, its number of functions and of seeds first."""
    tables = []
    for problem, own in own_results(results, "controls").items():
        methods = dict.fromkeys(name for result in own for name in result.settings)
        rows = []
        for method in sorted(methods, key=lambda name: name != FIRST):
            having = [result for result in own if method in result.settings]
            count = having[0].settings[method]["functions"]
            cells = [short(summary.get(Place("controls", problem, method, *place))) for place in ERRORS.values()]
            made = statistics.fmean(result.seconds[method] for result in having)
            rows.append([method, str(len(having)), str(count), *cells, f"{made:.0f}"])
        header = ["", "seeds", "functions", *ERRORS, "made in, s"]
        tables.append(f"**{names.problem_title(problem)}**\n\n{markdown(header, rows)}")
    return "\n\n".join(tables)
