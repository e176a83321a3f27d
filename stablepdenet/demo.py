"""The demo: the three methods on Poisson, briefly trained, attacked, and set beside the paper."""

from __future__ import annotations

from pathlib import Path

from matplotlib.figure import Figure

from stablepdenet.config import Config
from stablepdenet.evaluation import Case, Measurer, Row, audit
from stablepdenet.operators import AbstractOperator
from stablepdenet.problems import Problem
from stablepdenet.report.figures import looks_of, perturbation_figure, save_figure
from stablepdenet.training.run import storage, write_json


def evaluate(operators: dict[str, AbstractOperator], problem: Problem, config: Config, out: Path) -> list[Row]:
    """Attacks the operators, writes `errors.json` and the figure below `out`, and returns the rows."""
    found = audit(operators, problem, parts=["errors"], tests=None, recipe="paper", seed=config.seed)
    rows = [row for row in found.rows if row["metric"] == "relative_l2"]
    with storage(out):
        write_json(out / "errors.json", rows)
        save_figure(_figure(operators, problem, found.cases[0]), out / "poisson.png")
    return rows


def _figure(operators: dict[str, AbstractOperator], problem: Problem, case: Case) -> Figure:
    """The first test input, clean and perturbed."""
    assert case.base is not None
    settings = {"clean": case.base[:1], "perturbed": case.inputs[:1]}
    measurer = Measurer(problem)
    return perturbation_figure(
        problem.axes[0],
        {name: a[0] @ problem.input.matrix(problem.axes[0]).T for name, a in settings.items()},
        problem.axes[0],
        {name: problem.reference(a)[0] for name, a in settings.items()},
        {
            name: {method: measurer.solve(operator, a)[0] for method, operator in operators.items()}
            for name, a in settings.items()
        },
        looks=looks_of(operators),
        input_label="source $f(x)$",
        base="clean",
    )
