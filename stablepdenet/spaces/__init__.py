"""Function spaces and inputs: a random key in, input functions out."""

from stablepdenet.spaces.base import AbstractFunctionSpace
from stablepdenet.spaces.gaussian import GaussianField, MaternField
from stablepdenet.spaces.inputs import AbstractInput, Inputs, ModalInput, NormalScalar, Scalar, SensorInput
from stablepdenet.spaces.periodic import PeriodicGaussianField
from stablepdenet.spaces.series import PowerSeries, SineSeries
from stablepdenet.spaces.transformed import LogNormal, Thresholded

__all__ = [
    "AbstractFunctionSpace",
    "AbstractInput",
    "GaussianField",
    "Inputs",
    "LogNormal",
    "MaternField",
    "ModalInput",
    "NormalScalar",
    "PeriodicGaussianField",
    "PowerSeries",
    "Scalar",
    "SensorInput",
    "SineSeries",
    "Thresholded",
]
