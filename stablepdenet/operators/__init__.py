"""Operators: inputs and points in, solutions and their derivatives out."""

from collections.abc import Callable

from stablepdenet.operators.base import (
    AbstractBasisOperator,
    AbstractOperator,
    Evaluator,
    Fields,
    FunctionOperator,
    Query,
)
from stablepdenet.operators.deeponet import DeepONet
from stablepdenet.operators.jets import Derivative
from stablepdenet.operators.modified import ModifiedDeepONet

OPERATORS: dict[str, Callable[..., AbstractOperator]] = {"deeponet": DeepONet, "modified": ModifiedDeepONet}

__all__ = [
    "OPERATORS",
    "AbstractBasisOperator",
    "AbstractOperator",
    "DeepONet",
    "Derivative",
    "Evaluator",
    "Fields",
    "FunctionOperator",
    "ModifiedDeepONet",
    "Query",
]
