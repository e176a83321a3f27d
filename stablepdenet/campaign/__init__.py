"""Campaigns: many trainings and their audits, side by side, killed and continued at will."""

from stablepdenet.campaign.plan import BUDGETS, Job, make_jobs, parse_seeds
from stablepdenet.campaign.pool import Failure, Worker, run_jobs

__all__ = ["BUDGETS", "Failure", "Job", "Worker", "make_jobs", "parse_seeds", "run_jobs"]
