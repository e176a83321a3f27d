"""Problems: what a PDE of your own is made of."""

from stablepdenet.problems.base import Block, Problem, Reference, periodic_residual
from stablepdenet.problems.bound import BoundBlock
from stablepdenet.problems.consistency import warn_of_contradictions
from stablepdenet.problems.reference import AbstractReference, AbstractViscousReference, LinearReference

__all__ = [
    "AbstractReference",
    "AbstractViscousReference",
    "Block",
    "BoundBlock",
    "LinearReference",
    "Problem",
    "Reference",
    "periodic_residual",
    "warn_of_contradictions",
]
