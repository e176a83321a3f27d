"""The tables of docs/audit.md, for `reproduction.py`, from the rows in docs/audit."""

import csv

from document import DOCS, markdown

from stablepdenet.experiments.report import names
from stablepdenet.training.objectives import METHODS

ATTACKS = ("noise", "common", "physics", "search", "apgd", "whitebox")
VISCOSITIES = ("0.01", "0.005", "0.002")
FRONT = ("front_exact_median", "front_learned_median", "front_error_median")


def read(name):
    """The values of one file by method, attack, setting and metric."""
    with (DOCS / "audit" / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        keys = ("method", "attack", "setting", "metric")
        return {tuple(row[key] for key in keys): float(row["value"]) for row in csv.DictReader(file)}


def example():
    """Poisson's three models under every perturbation."""
    found, rows = read("rows"), []
    for title, attack, setting in [
        ("clean", "none", "clean"),
        *((f"`{name}`, 0.05", name, "0.05") for name in ATTACKS),
    ]:
        rows.append([title, *(f"{found[method, attack, setting, 'relative_l2']:.3f}" for method in METHODS)])
    return markdown(["", *map(names.method_title, METHODS)], rows)


def viscosity():
    """Errors, gains and fronts of Burgers as the viscosity falls."""
    rows = []
    for value in VISCOSITIES:
        found = read(f"burgers-{value}")
        for method in (*METHODS, "robust"):
            clean = found[method, "none", "clean", "relative_l2"]
            attacked = [found[method, "common", "0.10", metric] for metric in ("relative_l2", "kappa_S", "kappa_E")]
            fronts = [f"{found[method, 'common', '0.10', metric]:.3f}" for metric in FRONT]
            first = value if method == "pi" else ""
            rows.append([first, names.method_title(method), *(f"{x:.2g}" for x in (clean, *attacked)), *fronts])
    header = ["viscosity", "", "clean", "ε = 0.10", "κ_S", "κ_E", "front moves: exact", "learned", "error"]
    return markdown(header, rows)
