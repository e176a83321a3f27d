"""The demo: the three methods on Poisson, briefly trained, attacked, and set beside the paper."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import jax
import numpy as np
from jaxtyping import PRNGKeyArray
from matplotlib.figure import Figure

from stablepdenet.config import Config
from stablepdenet.evaluation import EvaluationRow, common_attack_errors, common_perturbation, evaluation_inputs, predict
from stablepdenet.operators import AbstractOperator
from stablepdenet.problems import Problem
from stablepdenet.report.figures import perturbation_figure, save_figure
from stablepdenet.training.run import storage
from stablepdenet.training.state import streams

EVALUATION_EPS = (0.05, 0.10)


def evaluate(
    operators: dict[str, AbstractOperator], problem: Problem, config: Config, out: Path
) -> list[EvaluationRow]:
    """Attacks the operators, writes `errors.json` and the figure below `out`, and returns the rows."""
    attacks = [dataclasses.replace(problem.attack, eps=eps) for eps in EVALUATION_EPS]
    key = streams(jax.random.key(config.seed)).evaluation
    rows = common_attack_errors(operators, problem, attacks, key=key)
    with storage(out):
        (out / "errors.json").write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
        save_figure(_figure(operators, problem, key), out / "poisson.png")
    return rows


def _figure(operators: dict[str, AbstractOperator], problem: Problem, key: PRNGKeyArray) -> Figure:
    """The first test input, clean and perturbed."""
    clean = evaluation_inputs(problem, 1)
    attack = dataclasses.replace(problem.attack, eps=EVALUATION_EPS[0])
    perturbed = common_perturbation(operators["pi"], problem, clean, attack, key=key)
    settings = {"clean": clean, "perturbed": perturbed}
    return perturbation_figure(
        problem.axes[0],
        {name: np.asarray(a)[0] @ problem.input.matrix(problem.axes[0]).T for name, a in settings.items()},
        problem.axes[0],
        {name: problem.reference(np.asarray(a))[0] for name, a in settings.items()},
        {
            name: {method: predict(operator, problem, a)[0] for method, operator in operators.items()}
            for name, a in settings.items()
        },
        input_label="source $f(x)$",
    )
