"""Tables of what decided the runs: configuration, software, time; and the audit's notes."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from stablepdenet.experiments.config import flatten
from stablepdenet.experiments.report import names
from stablepdenet.experiments.report.cells import Table, spread, text_table
from stablepdenet.experiments.results import Result
from stablepdenet.operators import PLAIN

# What a trunk sees of the points.
TRUNKS = {
    PLAIN: "the coordinates alone, as in the paper",
    "periodic": "cos and sin of 2πx and 4πx for x, unlike the paper's",
    "waves": "cos and sin of nπx, n = 1..10, for x, unlike the paper's: they hold the exact solution's modes",
}
SOLVED = "nothing, there is no network but a least-squares solver"
# How the recipe of the parameters after the last step ends.
LAST = "-last"
# What names a run instead of deciding it.
IDENTITY = ("seed", "method.name", "problem.name", "problem.fingerprint")


def setting_tables(results: Sequence[Result]) -> Iterator[Table]:
    """Of one recipe: settings that all problems share, those that differ, times, versions."""
    problems = names.problems_in_order(result.problem for result in results)
    titles = [names.problem_title(name) for name in problems]
    columns = {name: _settings([result for result in results if result.problem == name]) for name in problems}
    keys = list(dict.fromkeys(key for column in columns.values() for key in column))
    lines = {key: [columns[name].get(key, "–") for name in problems] for key in keys}
    shared = {key: values[0] for key, values in lines.items() if len(set(values)) == 1}
    differing = [[key, *values] for key, values in lines.items() if key not in shared]
    yield text_table("Settings that all problems share", ("Key", "Value"), shared.items())
    yield text_table("Settings that differ", ("Key", *titles), differing)
    yield _seconds(results, problems)
    versions = _joined((name, version) for result in results for name, version in result.versions.items())
    yield text_table("Software", ("Package", "Version"), versions.items())


def conditions(results: Sequence[Result]) -> str:
    """Which trunk the numbers of one recipe have, and which of a training's parameters; in a line."""
    trunks: dict[str, list[str]] = {}
    for problem in names.problems_in_order(result.problem for result in results):
        for text in dict.fromkeys(text for r in results if r.problem == problem for text in _trunks(r)):
            trunks.setdefault(text, []).append(names.equation_of(problem).title)
    if not trunks:
        return ""
    listed = "; ".join(f"{text} ({', '.join(dict.fromkeys(problems))})" for text, problems in trunks.items())
    last = all(result.recipe.endswith(LAST) for result in results)
    chosen = "those after the last step" if last else "those of the smallest validation loss"
    return f"Trunk sees: {listed}." + (f" Parameters: {chosen}." if set(trunks) - {SOLVED} else "")


def _trunks(result: Result) -> Iterator[str]:
    """What each method's trunk sees; nothing where the settings do not tell."""
    for settings in result.settings.values():
        operator = settings.get("operator", {})
        if operator.get("kind") == "solved":
            yield SOLVED
        elif operator.get("embedding") in TRUNKS:
            yield TRUNKS[operator["embedding"]] + (", refined at inference" if operator.get("refinements") else "")


def notes_of(results: Sequence[Result]) -> dict[str, str]:
    """Each note, and whose it is."""
    return _joined(
        (note, f"{names.problem_title(result.problem)}, seed {result.seed}")
        for result in results
        for note in result.notes
    )


def _settings(results: Sequence[Result]) -> dict[str, str]:
    """The values of each key; more than one where methods or seeds differ."""
    return _joined(
        (key, _text(value))
        for result in results
        for settings in result.settings.values()
        for key, value in flatten(settings).items()
        if key not in IDENTITY
    )


def _seconds(results: Sequence[Result], problems: Sequence[str]) -> Table:
    methods = names.methods_in_order(name for result in results for name in result.seconds)
    rows = []
    for problem in problems:
        own = [result.seconds for result in results if result.problem == problem]
        times = [[seconds[method] for seconds in own if method in seconds] for method in methods]
        if any(times):
            rows.append([names.problem_title(problem), *map(_time, times)])
    header = ("Problem", *map(names.method_title, methods))
    return text_table("Seconds of training, mean ± standard deviation over the seeds", header, rows)


def _time(seconds: Sequence[float]) -> str:
    if not seconds:
        return "–"
    return spread(statistics.fmean(seconds), statistics.stdev(seconds) if len(seconds) > 1 else None)


def _joined(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """All different values of each key, in order of appearance."""
    found: dict[str, list[str]] = {}
    for key, value in pairs:
        found.setdefault(key, []).append(value)
    return {key: "; ".join(dict.fromkeys(values)) for key, values in found.items()}


def _text(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value).lower() if isinstance(value, bool) else str(value)
