"""Evaluation: operators and a problem in, rows of numbers out."""

from stablepdenet.evaluation.errors import (
    EvaluationRow,
    common_attack_errors,
    common_perturbation,
    predict,
    relative_l2,
    test_inputs,
)

__all__ = ["EvaluationRow", "common_attack_errors", "common_perturbation", "predict", "relative_l2", "test_inputs"]
