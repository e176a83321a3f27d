"""Trainings that a configuration describes, in folders that can be resumed."""

from stablepdenet.experiments.training.making import (
    SOLVED,
    initial_state,
    make_attack,
    make_objective,
    make_operator,
    make_program,
    state_shapes,
    symmetric,
    with_refinement,
)
from stablepdenet.experiments.training.run import Run
from stablepdenet.experiments.training.running import train, train_in
from stablepdenet.experiments.training.suite import train_suite

__all__ = [
    "SOLVED",
    "Run",
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
    "with_refinement",
]
