"""Attacks: an objective and an input in, an admissible perturbed input out."""

from stablepdenet.attacks.admissible import AbstractAdmissibleSet, PeriodicEndpoints, Unrestricted, ValueRange
from stablepdenet.attacks.base import AbstractPGD, Attacked, Objective
from stablepdenet.attacks.pgd import PGDBandLimited, PGDLinf

__all__ = [
    "AbstractAdmissibleSet",
    "AbstractPGD",
    "Attacked",
    "Objective",
    "PGDBandLimited",
    "PGDLinf",
    "PeriodicEndpoints",
    "Unrestricted",
    "ValueRange",
]
