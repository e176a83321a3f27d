"""Recipes: named configurations of the same parts.

`paper` is the paper's training with the features that a problem's trunk gets; `plain` is the same with the paper's own
trunk, which sees the coordinates alone; `robust` is what we recommend.
"""

from __future__ import annotations

from typing import Any

from stablepdenet.errors import ConfigError
from stablepdenet.experiments.config import SUITES, Config
from stablepdenet.operators import PLAIN
from stablepdenet.problems import Problem
from stablepdenet.solving import is_linear

RECIPES = (*SUITES, "robust")


def settings_of(name: str, problem: Problem) -> dict[str, Any]:
    """The settings of a recipe for a problem, by dotted keys.

    robust: a problem that is linear in u and a is solved, which takes a second; any other is trained.
    """
    if name not in RECIPES:
        raise ConfigError(f"--recipe {name!r} must be one of {', '.join(RECIPES)}.")
    if name == "paper":
        return {}
    if name == "plain":
        return {"recipe": name, "operator.embedding": PLAIN}
    solved = {"operator.kind": "solved", "method.name": "pi"}
    return {"recipe": name, **(solved if is_linear(problem) else trained(problem))}


def trained(problem: Problem) -> dict[str, Any]:
    """What robust is for a problem that is not linear: an operator trained on clean inputs, as its functions are what
    matters, and refined by Gauss-Newton steps when it answers."""
    constrained = problem.ansatz is not None and (problem.ansatz.lift or problem.ansatz.envelope)
    return {
        "operator.constraints": "hard" if constrained else "soft",
        "operator.refinements": 3,
        # Train on clean inputs; refinement handles perturbed ones.
        "method.name": "pi",
        "training.points": "fine",
        "training.optimiser": "muon",
        "training.schedule": "cosine",
        "training.learning_rate": 5e-3,
        "training.steps": 10_000,
    }


def explain(config: Config) -> str:
    """Which way a recipe took, in a sentence."""
    if config.operator.kind == "solved":
        return "Solved by least squares, without training: every residual is linear in u and a."
    steps = config.operator.refinements
    return f"Trained, and refined by {steps} steps, or more where needed: not every residual is linear in u and a."
