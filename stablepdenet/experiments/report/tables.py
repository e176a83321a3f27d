"""Tables from rows, for a terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from stablepdenet.experiments.report import paper
from stablepdenet.experiments.report.cells import as_bound
from stablepdenet.experiments.report.names import CERTIFIED, method_title

TableRow = Mapping[str, Any]

GAINS = ("kappa_S", "kappa_G", "kappa_E", "kappa_r", "angle")
# Attacks whose gains are worth a line: the common one, and each model's worst.
RESPONSES = ("common", "whitebox", "search")
# Numbers that stand for themselves, by table; everything else stays in the rows.
CONSTANTS = {
    "local Lipschitz constants, mean over the inputs": ("lipschitz_mean", "lipschitz_exact_mean"),
    "certificates: allowance for rounding, bound without it, share of inputs without a useful one": (
        "rounding",
        "exact",
        "useless",
    ),
    "displacement of the front, median": ("front_exact_median", "front_learned_median", "front_error_median"),
    "estimated over true errors": (
        "coverage",
        "effectivity_p05",
        "effectivity_p95",
        "below_half",
        "estimate_rank",
        "bound_median",
        "bound_violations",
    ),
    "linear theorem": ("inverse_norm", "gamma_r", "C_E", "bound", "bound_holds"),
    "nonlinear theorem": ("beta", "L_u", "rho_E", "margin", "gamma_r", "C_E"),
}


def print_errors(rows: Sequence[TableRow], title: str, *, beside_paper: bool = False) -> None:
    """Pooled relative L2 errors: a line for each attack and setting, a column for each method."""
    errors = [row for row in rows if row["metric"] == "relative_l2"]
    methods = _unique(row["method"] for row in errors)
    table = Table("attack", "setting", *(escape(method_title(method)) for method in methods), title=escape(title))
    printed = [method for method in methods if beside_paper and method in paper.tables()["methods"]]
    for method in printed:
        table.add_column(escape(f"paper's {method_title(method)}"))
    for attack, setting in _unique((row["attack"], row["setting"]) for row in errors):
        values = [_value(errors, method=method, attack=attack, setting=setting) for method in methods]
        cells = [_bound(value) if attack == CERTIFIED else _number(value) for value in values]
        place = attack, setting, "relative_l2"
        cells += [_number(paper.printed(errors[0]["problem"], method, *place)) for method in printed]
        table.add_row(escape(attack), setting, *cells)
    _show(table)


def print_audit(rows: Sequence[TableRow], title: str, settings: Sequence[str]) -> None:
    """Errors, gains at the radii named by `settings`, constants. The curves' other radii stay in rows and figure."""
    radii = [row for row in rows if row["attack"] == "none" or row["setting"].split()[0] in settings]
    if any(row["metric"] == "relative_l2" for row in radii):
        print_errors(radii, f"{title}: relative L2 error")
    responses = [row for row in radii if row["attack"] in RESPONSES and row["metric"] in GAINS]
    _print_lines(responses, GAINS, f"{title}: response gains, and the angle to the true response in degrees")
    for name, columns in CONSTANTS.items():
        # The first column tells the two theorems apart.
        if any(row["metric"] == columns[0] for row in rows):
            _print_lines([row for row in rows if row["metric"] in columns], columns, f"{title}: {name}")


def _print_lines(rows: Sequence[TableRow], columns: Sequence[str], title: str) -> None:
    """A line for each method, attack and setting; a column for each metric that any of them has."""
    if not rows:
        return
    table = Table("method", "attack", "setting", *columns, title=escape(title))
    for method, attack, setting in _unique((row["method"], row["attack"], row["setting"]) for row in rows):
        place = {"method": method, "attack": attack, "setting": setting}
        table.add_row(
            escape(method_title(method)),
            escape(attack),
            setting,
            *(_number(_value(rows, metric=metric, **place)) for metric in columns),
        )
    _show(table)


def _unique(items: Iterable[Any]) -> list[Any]:
    return list(dict.fromkeys(items))


def _value(rows: Sequence[TableRow], **place: str) -> float | None:
    return next((row["value"] for row in rows if place.items() <= row.items()), None)


def _bound(value: float | None) -> str:
    return "" if value is None else as_bound(value, _number(value))


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"


def _show(table: Table) -> None:
    Console(width=None if sys.stdout.isatty() else 140).print(table)
