"""Training: state in, state out."""

from stablepdenet.training.loop import Report, train, train_in
from stablepdenet.training.program import Program, make_method, make_operator
from stablepdenet.training.run import Run
from stablepdenet.training.state import TrainState
from stablepdenet.training.suite import train_suite

__all__ = [
    "Program",
    "Report",
    "Run",
    "TrainState",
    "make_method",
    "make_operator",
    "train",
    "train_in",
    "train_suite",
]
