"""Training: objects in, a trained operator out; state in, state out."""

from stablepdenet.training.fitting import fit
from stablepdenet.training.loop import take_steps
from stablepdenet.training.program import Program
from stablepdenet.training.schedule import Schedule
from stablepdenet.training.state import TrainState

__all__ = ["Program", "Schedule", "TrainState", "fit", "take_steps"]
