"""The paper's tables as data, with this campaign's numbers beside the paper's."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from stablepdenet.auditing.session import EXACT
from stablepdenet.experiments.report import names
from stablepdenet.experiments.report.cells import Cell, Table, as_bound, as_printed, quotient, spread, text_table
from stablepdenet.experiments.report.ordering import paired_table
from stablepdenet.experiments.report.summary import Mean, Summary
from stablepdenet.experiments.report.tables import CONSTANTS, GAINS
from stablepdenet.experiments.results import Result

# Numbers that stand for themselves, by title; Lipschitz constants have a table of their own.
FURTHER = {title: metrics for title, metrics in CONSTANTS.items() if "lipschitz_mean" not in metrics}
# Which of a line's columns is the best, if any is to be marked.
Rule = Callable[[Mapping[str, float]], str | None]
# A table of one problem from the summary, the problem's name and what it shows.
Maker = Callable[[Summary, str, str], Table]


class Line(NamedTuple):
    """A line of a table: a number for each column that has one. A `bound` may be too large to say anything."""

    label: str
    means: Mapping[str, Mean]
    best: Rule
    bound: bool = False


def tables_of(recipe: str, summary: Summary, results: Sequence[Result]) -> dict[str, list[Table]]:
    """The tables of one recipe by kind; kinds of which there is nothing are left out."""
    own = {place: mean for place, mean in summary.items() if place.recipe == recipe}
    problems = list(dict.fromkeys(place.problem for place in own))
    beyond: dict[str, Maker] = {
        "Errors under attacks on each model": _attacks,
        "Errors on unseen inputs": _unseen,
        **{title.capitalize(): partial(_constants, metrics) for title, metrics in FURTHER.items()},
    }
    found = {
        "Problems": [_benchmarks([result for result in results if result.recipe == recipe])],
        "Relative L² error": [_errors(own, name, "relative L² error") for name in problems],
        "Response gains": [_gains(own, name, "response gains") for name in problems],
        "Local Lipschitz constants": [_lipschitz(own, problems)],
        "What the sensitivity term gains": [paired_table(own, recipe, name) for name in problems],
        **{kind: [make(own, name, kind[0].lower() + kind[1:]) for name in problems] for kind, make in beyond.items()},
    }
    filled = {kind: [table for table in tables if table.rows] for kind, tables in found.items()}
    return {kind: tables for kind, tables in filled.items() if tables}


def smallest(values: Mapping[str, float]) -> str | None:
    """Errors, mismatches."""
    return min(values, key=lambda name: values[name]) if len(values) > 1 else None


def closest(values: Mapping[str, float]) -> str | None:
    """Constants beside the exact one: neither small nor large is good."""
    models = {name: value for name, value in values.items() if name != EXACT}
    if EXACT not in values or len(models) < 2:
        return None
    return min(models, key=lambda name: abs(models[name] - values[EXACT]))


def unmarked(values: Mapping[str, float]) -> str | None:
    """Numbers of which none is better."""
    return None


def _benchmarks(results: Sequence[Result]) -> Table:
    """The paper's table of problems, with what was run."""
    rows = []
    for name in names.problems_in_order(result.problem for result in results):
        own = [result for result in results if result.problem == name]
        methods = names.methods_in_order({str(row["method"]) for result in own for row in result.rows} - {EXACT})
        known = names.equation_of(name)
        seeds = ", ".join(str(result.seed) for result in own)
        titles = ", ".join(map(names.method_title, methods))
        rows.append((names.problem_title(name), known.equation, known.input, titles, seeds))
    return text_table("What was run", ("Problem", "Equation", "Input", "Methods", "Seeds"), rows)


def _errors(summary: Summary, problem: str, kind: str) -> Table:
    found = _found(summary, problem, ("relative_l2",))
    lines = [Line(names.setting_title(case.setting), found[case], smallest) for case in found if case.of_the_paper]
    return table_of(_title(problem, kind), "Setting", lines)


def _gains(summary: Summary, problem: str, kind: str) -> Table:
    found = _found(summary, problem, GAINS)
    lines = []
    for case in found:
        if case.of_the_paper:
            # A small response is no merit: it should be the true one.
            rule = unmarked if case.metric in ("kappa_S", "kappa_G") else smallest
            lines.append(Line(f"{names.METRICS[case.metric]}, {names.setting_title(case.setting)}", found[case], rule))
    return table_of(_title(problem, kind), "Gain", lines)


def _lipschitz(summary: Summary, problems: Sequence[str]) -> Table:
    metrics, lines = ("lipschitz_mean", "lipschitz_exact_mean"), []
    for problem in problems:
        found = _found(summary, problem, metrics)
        learned, listed = (found.get(TableKey(metric, "none", "clean"), {}) for metric in metrics)
        # The exact constant is listed with every method.
        exact = {EXACT: next(iter(listed.values()))} if listed else {}
        if learned:
            lines.append(Line(names.problem_title(problem), exact | learned, closest))
    return table_of("Mean over the test inputs, learned and exact", "Problem", lines)


def _attacks(summary: Summary, problem: str, kind: str) -> Table:
    found = _found(summary, problem, ("relative_l2",))
    lines = [
        Line(
            f"{names.attack_title(case.attack)}, {names.setting_title(case.setting)}",
            found[case],
            smallest,
            bound=case.attack == names.CERTIFIED,
        )
        for case in found
        if case.attack not in ("none", "common")
    ]
    return table_of(_title(problem, kind), "Attack", lines)


def _unseen(summary: Summary, problem: str, kind: str) -> Table:
    found = _found(summary, problem, ("relative_l2",))
    lines = [
        Line(case.setting, found[case], smallest) for case in found if case.attack == "none" and case.setting != "clean"
    ]
    return table_of(_title(problem, kind), "Input", lines)


def _constants(metrics: Sequence[str], summary: Summary, problem: str, kind: str) -> Table:
    found = _found(summary, problem, metrics)
    # The first of them tells the two theorems apart.
    if not any(case.metric == metrics[0] for case in found):
        return table_of(_title(problem, kind), "Constant", [])
    lines = [Line(f"{case.metric}, {names.setting_title(case.setting)}", found[case], unmarked) for case in found]
    return table_of(_title(problem, kind), "Constant", lines)


def _title(problem: str, kind: str) -> str:
    return f"{names.problem_title(problem)}: {kind}"


class TableKey(NamedTuple):
    """A line's place among the numbers of one problem."""

    metric: str
    attack: str
    setting: str

    @property
    def of_the_paper(self) -> bool:
        """Whether it is clean or the common perturbation's."""
        return self.attack == "common" or (self.attack == "none" and self.setting == "clean")


def _found(summary: Summary, problem: str, metrics: Sequence[str]) -> dict[TableKey, dict[str, Mean]]:
    """The numbers of each method by case: metrics in the order given, then attacks, then settings."""
    found: dict[TableKey, dict[str, Mean]] = {}
    for place, mean in summary.items():
        if place.problem == problem and place.metric in metrics:
            found.setdefault(TableKey(place.metric, place.attack, place.setting), {})[place.method] = mean
    attacks = list(dict.fromkeys(case.attack for case in found))
    settings = names.settings_in_order(case.setting for case in found)
    order = sorted(
        found, key=lambda case: (metrics.index(case.metric), attacks.index(case.attack), settings.index(case.setting))
    )
    return {case: found[case] for case in order}


def table_of(title: str, corner: str, lines: Sequence[Line]) -> Table:
    """Columns of methods; each has the paper's number and the ratio to it beside it where the paper has any."""
    present = {name for line in lines for name in line.means}
    columns = [*({EXACT} & present), *names.methods_in_order(present - {EXACT})]
    printed = any(mean.paper is not None for line in lines for mean in line.means.values())
    titles = [names.method_title(name) for name in columns]
    rows = tuple((Cell(line.label), *_cells(line, columns, printed)) for line in lines)
    if not printed:
        return Table(title, (corner, *titles), rows, numbers=True)
    groups = (("", 1), *((name, 3) for name in titles))
    return Table(title, (corner, *("ours", "paper", "ratio") * len(columns)), rows, groups, numbers=True)


def _cells(line: Line, columns: Sequence[str], printed: bool) -> Iterator[Cell]:
    ours = line.best({name: mean.mean for name, mean in line.means.items()})
    theirs = line.best({name: mean.paper for name, mean in line.means.items() if mean.paper is not None})
    for name in columns:
        mean = line.means.get(name)
        text = spread(mean.mean, mean.std) if mean else "–"
        yield Cell(as_bound(mean.mean, text) if mean and line.bound else text, bold=name == ours)
        if printed:
            yield Cell(as_printed(mean.paper if mean else None), bold=name == theirs)
            yield Cell(quotient(mean.ratio if mean else None))
