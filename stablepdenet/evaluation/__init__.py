"""Evaluation: operators and a problem in, rows of numbers out."""

from stablepdenet.evaluation.errors import (
    EvaluationRow,
    common_attack_errors,
    common_perturbation,
    evaluation_inputs,
    predict,
    relative_l2,
)

__all__ = [
    "EvaluationRow",
    "common_attack_errors",
    "common_perturbation",
    "evaluation_inputs",
    "predict",
    "relative_l2",
]
