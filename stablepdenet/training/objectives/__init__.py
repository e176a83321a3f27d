"""Methods: objectives, what one outer step minimises, and their names."""

from stablepdenet.training.objectives.adversarial import Adversarial, Noise, OneStep
from stablepdenet.training.objectives.base import AbstractAttacking, AbstractObjective, AbstractPenalised, Batch, Terms
from stablepdenet.training.objectives.clean import Clean
from stablepdenet.training.objectives.outputs import Increment, Jacobian, Trades
from stablepdenet.training.objectives.spectral import Spectral
from stablepdenet.training.objectives.stable import Stable, Tangent, sensitivity_quotient

# The paper's three, and what they are compared with beside them.
METHODS: dict[str, type[AbstractObjective]] = {"pi": Clean, "adv": Adversarial, "stable": Stable}
OTHERS: dict[str, type[AbstractObjective]] = {
    "noise": Noise,
    "fgsm": OneStep,
    "tangent": Tangent,
    "increment": Increment,
    "trades": Trades,
    "jacobian": Jacobian,
    "spectral": Spectral,
}
TITLES = {
    "pi": "PI-DeepONet",
    "adv": "AdvPI",
    "stable": "StablePDENet",
    "noise": "noise",
    "fgsm": "FGSM",
    "tangent": "tangent residual",
    "increment": "increment penalty",
    "trades": "TRADES",
    "jacobian": "Jacobian penalty",
    "spectral": "spectral norms",
}

__all__ = [
    "METHODS",
    "OTHERS",
    "TITLES",
    "AbstractAttacking",
    "AbstractObjective",
    "AbstractPenalised",
    "Adversarial",
    "Batch",
    "Clean",
    "Increment",
    "Jacobian",
    "Noise",
    "OneStep",
    "Spectral",
    "Stable",
    "Tangent",
    "Terms",
    "Trades",
    "sensitivity_quotient",
]
