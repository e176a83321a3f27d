"""Label-free neural PDE operators that stay right under noisy, unseen and hostile inputs.

The public names below are imported when first used, so that `import stablepdenet` and the command line start at once.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from stablepdenet.attacks import PeriodicEndpoints, PGDBandLimited, PGDLinf, Unrestricted, ValueRange
    from stablepdenet.config import Config
    from stablepdenet.evaluation import common_attack_errors, predict, relative_l2, test_inputs
    from stablepdenet.operators import AbstractOperator, DeepONet, FunctionOperator, ModifiedDeepONet
    from stablepdenet.problems import Block, LinearReference, Problem, make_problem
    from stablepdenet.runs import configure, load_operator, resolve
    from stablepdenet.spaces import (
        GaussianField,
        ModalInput,
        PeriodicGaussianField,
        PowerSeries,
        SensorInput,
        SineSeries,
    )
    from stablepdenet.training import train, train_suite

_HOMES = {
    "attacks": ("PGDBandLimited", "PGDLinf", "PeriodicEndpoints", "Unrestricted", "ValueRange"),
    "config": ("Config",),
    "evaluation": ("common_attack_errors", "predict", "relative_l2", "test_inputs"),
    "operators": ("AbstractOperator", "DeepONet", "FunctionOperator", "ModifiedDeepONet"),
    "problems": ("Block", "LinearReference", "Problem", "make_problem"),
    "runs": ("configure", "load_operator", "resolve"),
    "spaces": ("GaussianField", "ModalInput", "PeriodicGaussianField", "PowerSeries", "SensorInput", "SineSeries"),
    "training": ("train", "train_suite"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [*sorted(_HOME_OF), "__version__"]  # noqa: PLE0604


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'stablepdenet' has no attribute '{name}'")
    return getattr(importlib.import_module(f"stablepdenet.{_HOME_OF[name]}"), name)


def __dir__() -> list[str]:
    return __all__
