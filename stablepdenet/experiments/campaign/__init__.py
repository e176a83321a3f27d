"""Campaigns: many trainings and their audits, side by side, killed and continued at will."""

from stablepdenet.experiments.campaign.plan import BUDGETS, Job, make_jobs, parse_seeds
from stablepdenet.experiments.campaign.pool import FailedJob, Worker, run_jobs

__all__ = ["BUDGETS", "FailedJob", "Job", "Worker", "make_jobs", "parse_seeds", "run_jobs"]
