"""The demo: three trained operators and the recipe robust on one problem, attacked, and set beside the paper."""

from __future__ import annotations

from pathlib import Path

from stablepdenet.auditing import Row, audit
from stablepdenet.auditing.session import Session
from stablepdenet.experiments.problems import make_problem
from stablepdenet.experiments.report.figures import looks_of, save_figure
from stablepdenet.experiments.report.gallery import field_pictures
from stablepdenet.experiments.results import fields_of
from stablepdenet.experiments.zoo import ROBUST, load_model
from stablepdenet.files import storage, write_json
from stablepdenet.training.objectives import METHODS

# Each operator's own worst case takes 500 steps for an input: the first few of the test set.
SEARCHED, EPS = 10, (0.05, 0.10)


def demonstrate(name: str, out: Path) -> tuple[list[Row], list[Row], Path]:
    """Attacks the zoo's operators of a problem, writes `errors.json` and a picture of the first test input below `out`.
    Returns the rows of each operator's own worst case on the first inputs, those of the paper's common perturbation on
    the whole test set, and where the picture is."""
    operators = {method: load_model(name, method) for method in (*METHODS, ROBUST)}
    problem = make_problem(name)
    session = Session(operators, problem, tests=SEARCHED, eps=EPS, identity={"recipe": "zoo", "seed": 0})
    for eps in EPS:
        for method in operators:
            session.measure(session.perturbed("whitebox", eps, session.worst(method, eps), method))
    found = audit(operators, problem, parts=["errors"], tests=None, eps=EPS, recipe="zoo", seed=0)
    worst, common = (
        [row for row in rows if row["metric"] == "relative_l2"] for rows in (session.audit.rows, found.rows)
    )
    picture = next(field_pictures(fields_of(operators, problem, found), name, 0, looks_of(operators)))
    with storage(out):
        out.mkdir(parents=True, exist_ok=True)
        write_json(out / "errors.json", worst + common)
        save_figure(picture.figure, out / f"{name}.png")
    return worst, common, out / f"{name}.png"
