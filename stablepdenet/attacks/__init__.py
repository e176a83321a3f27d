"""Attacks: an objective and an input in, an admissible perturbed input out. A ball x an admissible set x a search."""

from stablepdenet.attacks.admissible import (
    AbstractAdmissibleSet,
    PeriodicEndpoints,
    Unrestricted,
    ValueRange,
)
from stablepdenet.attacks.balls import AbstractBall, BandLimitedBall, L1Ball, LinfBall, SparseBall
from stablepdenet.attacks.pgd import PGD, Attacked, Objective
from stablepdenet.attacks.product import ProductBall, ProductSet
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
    "PGD",
    "AbstractAdmissibleSet",
    "AbstractBall",
    "Attacked",
    "BandLimitedBall",
    "L1Ball",
    "LinfBall",
    "Objective",
    "PeriodicEndpoints",
    "ProductBall",
    "ProductSet",
    "Search",
    "SparseBall",
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
