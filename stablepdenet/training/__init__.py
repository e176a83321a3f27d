"""Training: state in, state out."""

from stablepdenet.training.loop import Report, train, train_in
from stablepdenet.training.making import SOLVED, deployed, make_method, make_operator, symmetric
from stablepdenet.training.program import Program
from stablepdenet.training.run import Run
from stablepdenet.training.state import TrainState
from stablepdenet.training.suite import train_suite

__all__ = [
    "SOLVED",
    "Program",
    "Report",
    "Run",
    "TrainState",
    "deployed",
    "make_method",
    "make_operator",
    "symmetric",
    "train",
    "train_in",
    "train_suite",
]
