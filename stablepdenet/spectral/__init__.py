"""Spectral solutions of any problem on a box, from its residuals alone: what `robust` answers by, and what judges
operators of any kind."""

from stablepdenet.spectral.bounds import error_bounds
from stablepdenet.spectral.choose import Trial, axes_of, choose, estimates, grid_of, with_estimate
from stablepdenet.spectral.judged import JudgedOperator, is_judged
from stablepdenet.spectral.operator import TOLERANCE, Estimated, Points, SpectralOperator, sharpened, spectral_operator
from stablepdenet.spectral.plan import Plan
from stablepdenet.spectral.setting import read_setting
from stablepdenet.spectral.stored import TrialFile, plan_from, stored_plan
from stablepdenet.spectral.trials import beyond_trials, inadmissible, trial_inputs

__all__ = [
    "TOLERANCE",
    "Estimated",
    "JudgedOperator",
    "Plan",
    "Points",
    "SpectralOperator",
    "Trial",
    "TrialFile",
    "axes_of",
    "beyond_trials",
    "choose",
    "error_bounds",
    "estimates",
    "grid_of",
    "inadmissible",
    "is_judged",
    "plan_from",
    "read_setting",
    "sharpened",
    "spectral_operator",
    "stored_plan",
    "trial_inputs",
    "with_estimate",
]
