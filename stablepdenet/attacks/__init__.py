"""Attacks: an objective and an input in, an admissible perturbed input out."""

from stablepdenet.attacks.admissible import AbstractAdmissibleSet, Budget, PeriodicEndpoints, Unrestricted, ValueRange
from stablepdenet.attacks.base import AbstractPGD, Attacked, Objective
from stablepdenet.attacks.pgd import PGDBandLimited, PGDLinf
from stablepdenet.attacks.search import (
    Search,
    apgd,
    best_of,
    pgd,
    random_search,
    smooth_noise,
    strong_pgd,
    white_noise,
)

__all__ = [
    "AbstractAdmissibleSet",
    "AbstractPGD",
    "Attacked",
    "Budget",
    "Objective",
    "PGDBandLimited",
    "PGDLinf",
    "PeriodicEndpoints",
    "Search",
    "Unrestricted",
    "ValueRange",
    "apgd",
    "best_of",
    "pgd",
    "random_search",
    "smooth_noise",
    "strong_pgd",
    "white_noise",
]
