"""The demo: three trained operators on one problem, attacked, and set beside the paper."""

from __future__ import annotations

from pathlib import Path

from stablepdenet.evaluation import Row, audit
from stablepdenet.methods import METHODS
from stablepdenet.problems import make_problem
from stablepdenet.report.figures import looks_of, save_figure
from stablepdenet.report.gallery import field_pictures
from stablepdenet.results import fields_of
from stablepdenet.training.run import storage, write_json
from stablepdenet.zoo import load_model


def demonstrate(name: str, out: Path) -> tuple[list[Row], Path]:
    """Attacks the zoo's operators of a problem on the paper's test set, writes `errors.json` and a picture of the first
    test input below `out`; returns the rows and where the picture is."""
    operators = {method: load_model(name, method) for method in METHODS}
    problem = make_problem(name)
    found = audit(operators, problem, parts=["errors"], tests=None, recipe="paper", seed=0)
    rows = [row for row in found.rows if row["metric"] == "relative_l2"]
    picture = next(field_pictures(fields_of(operators, problem, found), name, 0, looks_of(operators)))
    with storage(out):
        out.mkdir(parents=True, exist_ok=True)
        write_json(out / "errors.json", rows)
        save_figure(picture.figure, out / f"{name}.png")
    return rows, out / f"{name}.png"
