"""Functions on a box: domains, point sets, function spaces, and the inputs that are drawn from them."""

from stablepdenet.functions import piecewise_linear, points
from stablepdenet.functions.base import AbstractFunctionSpace
from stablepdenet.functions.domain import Box
from stablepdenet.functions.gaussian import GaussianField, MaternField
from stablepdenet.functions.inputs import AbstractInput, Inputs, ModalInput, NormalScalar, Scalar, SensorInput
from stablepdenet.functions.periodic import PeriodicGaussianField
from stablepdenet.functions.series import PowerSeries, SineSeries
from stablepdenet.functions.transformed import LogNormal, Thresholded

__all__ = [
    "AbstractFunctionSpace",
    "AbstractInput",
    "Box",
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
    "piecewise_linear",
    "points",
]
