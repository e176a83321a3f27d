"""Operators: inputs and points in, solutions and their derivatives out."""

from collections.abc import Callable

from stablepdenet.operators.ansatz import Ansatz, Functions, GalileanFrame, evaluated, table
from stablepdenet.operators.base import (
    AbstractBasisOperator,
    AbstractOperator,
    BasisOperator,
    Evaluator,
    Fields,
    FunctionOperator,
    Query,
    component,
)
from stablepdenet.operators.box_functions import BoxFunctions, axis_derivatives, axis_functions
from stablepdenet.operators.constrained import ConstrainedOperator
from stablepdenet.operators.converted import from_torch
from stablepdenet.operators.deeponet import DeepONet
from stablepdenet.operators.embeddings import EMBEDDINGS, PLAIN
from stablepdenet.operators.foreign import Capabilities, ModuleOperator, as_operator, capabilities
from stablepdenet.operators.host import HostOperator
from stablepdenet.operators.jets import SUM, Derivative, nested_derivatives
from stablepdenet.operators.linear import LinearOperator
from stablepdenet.operators.modified import ModifiedDeepONet
from stablepdenet.operators.moving import MovingFrameOperator
from stablepdenet.operators.pytorch import TorchOperator

OPERATORS: dict[str, Callable[..., AbstractOperator]] = {"deeponet": DeepONet, "modified": ModifiedDeepONet}

__all__ = [
    "EMBEDDINGS",
    "OPERATORS",
    "PLAIN",
    "SUM",
    "AbstractBasisOperator",
    "AbstractOperator",
    "Ansatz",
    "BasisOperator",
    "BoxFunctions",
    "Capabilities",
    "ConstrainedOperator",
    "DeepONet",
    "Derivative",
    "Evaluator",
    "Fields",
    "FunctionOperator",
    "Functions",
    "GalileanFrame",
    "HostOperator",
    "LinearOperator",
    "ModifiedDeepONet",
    "ModuleOperator",
    "MovingFrameOperator",
    "Query",
    "TorchOperator",
    "as_operator",
    "axis_derivatives",
    "axis_functions",
    "capabilities",
    "component",
    "evaluated",
    "from_torch",
    "nested_derivatives",
    "table",
]
