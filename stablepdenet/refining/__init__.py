"""Refining: the physics used once more, at inference. Label-free, for any operator with a basis, trained or solved."""

from stablepdenet.refining.making import faster, refine, warn_unsettled
from stablepdenet.refining.operator import RefinedOperator
from stablepdenet.refining.residuals import projected_residual

__all__ = ["RefinedOperator", "faster", "projected_residual", "refine", "warn_unsettled"]
