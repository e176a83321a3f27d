"""Evaluation: operators and a problem in, rows of numbers out."""

from stablepdenet.auditing.audit import EPS, PARTS, audit
from stablepdenet.auditing.inputs import Case, evaluation_inputs, setting_of
from stablepdenet.auditing.lipschitz import dense_lipschitz, exact_lipschitz, local_lipschitz
from stablepdenet.auditing.measure import Measured, Measurer
from stablepdenet.auditing.metrics import metrics, relative_l2
from stablepdenet.auditing.perturb import Perturber
from stablepdenet.auditing.session import Audit, Row
from stablepdenet.auditing.storage import load_cases, load_rows, replay_audit, save_audit

__all__ = [
    "EPS",
    "PARTS",
    "Audit",
    "Case",
    "Measured",
    "Measurer",
    "Perturber",
    "Row",
    "audit",
    "dense_lipschitz",
    "evaluation_inputs",
    "exact_lipschitz",
    "load_cases",
    "load_rows",
    "local_lipschitz",
    "metrics",
    "relative_l2",
    "replay_audit",
    "save_audit",
    "setting_of",
]
