"""Campaigns: many trainings and their audits, side by side, killed and continued at will."""

from stablepdenet.campaign.plan import BUDGETS, Job, make_jobs, parse_seeds, steps_of
from stablepdenet.campaign.pool import Worker, run_jobs

__all__ = ["BUDGETS", "Job", "Worker", "make_jobs", "parse_seeds", "run_jobs", "steps_of"]
