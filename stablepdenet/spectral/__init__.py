"""Spectral solutions of any problem on a box, from its residuals alone: what `robust` answers by, and what judges
operators of any kind."""

from stablepdenet.spectral.choose import choose, estimates, grid_of, trial_inputs, with_estimate
from stablepdenet.spectral.judged import JudgedOperator
from stablepdenet.spectral.operator import Estimated, Points, SpectralOperator, spectral_operator
from stablepdenet.spectral.plan import Plan
from stablepdenet.spectral.setting import read_setting

__all__ = [
    "Estimated",
    "JudgedOperator",
    "Plan",
    "Points",
    "SpectralOperator",
    "choose",
    "estimates",
    "grid_of",
    "read_setting",
    "spectral_operator",
    "trial_inputs",
    "with_estimate",
]
