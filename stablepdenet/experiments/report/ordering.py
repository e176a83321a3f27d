"""Whether a method is better than another beyond the spread of the seeds."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from stablepdenet.experiments.report import names
from stablepdenet.experiments.report.cells import Cell, Table, quotient, spread
from stablepdenet.experiments.report.summary import Place, Summary

PAIR = ("adv", "stable")
# The paper's question, and the worst case that it leaves out.
CASES = (("none", "clean"), ("common", "0.05"), ("common", "0.10"), ("whitebox", "0.05"), ("whitebox", "0.10"))
HEADER = ("Setting", "gain", "in standard errors", "seeds won", "relative", "the paper's gain", "relative")


def paired_table(summary: Summary, recipe: str, problem: str) -> Table:
    """AdvPI's error minus StablePDENet's, seed by seed: both methods share a seed's initial weights, functions and
    warm-up, so the difference spreads less than the errors do."""
    rows = []
    for attack, setting in CASES:
        found = [summary.get(Place(recipe, problem, method, attack, setting, "relative_l2")) for method in PAIR]
        if any(mean is None for mean in found):
            continue
        adv, stable = (mean for mean in found if mean is not None)
        gains = [adv.values[seed] - stable.values[seed] for seed in adv.values if seed in stable.values]
        if not gains:
            continue
        printed = adv.paper - stable.paper if adv.paper and stable.paper else None
        case = names.setting_title(setting)
        rows.append(
            (
                Cell(case if attack != "whitebox" else f"{names.attack_title(attack)}, {case}"),
                Cell(spread(statistics.fmean(gains), statistics.stdev(gains) if len(gains) > 1 else None)),
                Cell(_in_standard_errors(gains)),
                Cell(f"{sum(gain > 0 for gain in gains)} of {len(gains)}"),
                Cell(_percent(statistics.fmean(gains), adv.mean)),
                Cell("–" if printed is None else quotient(printed)),
                Cell("–" if printed is None or adv.paper is None else _percent(printed, adv.paper)),
            )
        )
    title = f"{names.problem_title(problem)}: what the sensitivity term gains, AdvPI's error minus StablePDENet's"
    return Table(title, HEADER, tuple(rows), numbers=True)


def _in_standard_errors(gains: Sequence[float]) -> str:
    deviation = statistics.stdev(gains) if len(gains) > 1 else 0.0
    return f"{statistics.fmean(gains) / (deviation / math.sqrt(len(gains))):+.1f}" if deviation else "–"


def _percent(gain: float, whole: float) -> str:
    return f"{100 * gain / whole:+.0f} %"
