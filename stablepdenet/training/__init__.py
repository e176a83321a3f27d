"""Training: state in, state out."""

from stablepdenet.training.fitting import fit
from stablepdenet.training.loop import Report, train, train_in
from stablepdenet.training.making import (
    SOLVED,
    deployed,
    initial_state,
    make_attack,
    make_objective,
    make_operator,
    make_program,
    state_shapes,
    symmetric,
)
from stablepdenet.training.program import Program
from stablepdenet.training.run import Run
from stablepdenet.training.schedule import Schedule
from stablepdenet.training.state import TrainState
from stablepdenet.training.suite import train_suite

__all__ = [
    "SOLVED",
    "Program",
    "Report",
    "Run",
    "Schedule",
    "TrainState",
    "deployed",
    "fit",
    "initial_state",
    "make_attack",
    "make_objective",
    "make_operator",
    "make_program",
    "state_shapes",
    "symmetric",
    "train",
    "train_in",
    "train_suite",
]
