"""Function spaces: a random key in, input functions out."""

from stablepdenet.spaces.base import AbstractFunctionSpace
from stablepdenet.spaces.gaussian import GaussianField
from stablepdenet.spaces.inputs import AbstractInput, ModalInput, SensorInput
from stablepdenet.spaces.periodic import PeriodicGaussianField
from stablepdenet.spaces.series import PowerSeries, SineSeries

__all__ = [
    "AbstractFunctionSpace",
    "AbstractInput",
    "GaussianField",
    "ModalInput",
    "PeriodicGaussianField",
    "PowerSeries",
    "SensorInput",
    "SineSeries",
]
