"""Methods: what one outer step minimises."""

from stablepdenet.methods.adversarial import Adversarial
from stablepdenet.methods.base import AbstractMethod, Batch, Terms
from stablepdenet.methods.clean import Clean
from stablepdenet.methods.stable import Stable, sensitivity_quotient

METHODS: dict[str, type[AbstractMethod]] = {"pi": Clean, "adv": Adversarial, "stable": Stable}
TITLES = {"pi": "PI-DeepONet", "adv": "AdvPI", "stable": "StablePDENet"}

__all__ = [
    "METHODS",
    "TITLES",
    "AbstractMethod",
    "Adversarial",
    "Batch",
    "Clean",
    "Stable",
    "Terms",
    "sensitivity_quotient",
]
