"""An input is its array: how the array `a` that an operator sees defines functions everywhere.

The entries of one input are values at sensors, joined by straight lines, or coefficients of fixed modes, or one number
that is a parameter. All are linear, so the function's values at any points are one fixed matrix:
`a @ input.matrix(points).T`. Clean and attacked inputs go through the same line of code, and the PDE always sees the
perturbed function. Several inputs are the columns of one array (`Inputs`).
"""

from abc import abstractmethod
from collections.abc import Sequence
from functools import cached_property
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray
from numpy import ndarray

from stablepdenet.errors import ConfigError
from stablepdenet.functions import piecewise_linear
from stablepdenet.functions.base import AbstractFunctionSpace, rows
from stablepdenet.functions.modes import sine_modes
from stablepdenet.functions.piecewise_linear import Interpolation
from stablepdenet.functions.series import SineSeries


class AbstractInput(eqx.Module):
    """One input of an operator: its law and its discrete representation. `of` names the coordinates that it is a
    function of, in the order of its variables."""

    of: eqx.AbstractVar[str]

    @property
    @abstractmethod
    def size(self) -> int:
        """How many numbers it is."""

    @abstractmethod
    def sample(self, num: int, *, key: PRNGKeyArray) -> Float[Array, "num m"]:
        """Draws `num` inputs from their law."""

    @abstractmethod
    def matrix(self, points: Any, derivative: Sequence[int] = ()) -> Float[ndarray, "points m"]:
        """The matrix whose product with `a` gives the function, or its derivative in the variables `derivative`, at the
        points (one row each; a plain vector where there is one variable)."""

    @abstractmethod
    def radius(self, a: Float[Array, "batch m"]) -> Float[Array, " batch"]:
        """The input's norm that a relative budget refers to (eq:bl-l2-admissible-set): ||c||_2 of coefficients, which
        is the function's L2 norm, and the discrete norm ||a||_{2,m} of sensor values, which approximates it."""

    @abstractmethod
    def modes(self, band: int) -> Float[ndarray, "band m"]:
        """The first `band` orthonormal sine modes, written as input arrays."""

    @abstractmethod
    def refined(self, factor: float) -> "AbstractInput":
        """The same with a law whose functions vary `factor` times as fast."""

    @abstractmethod
    def describe(self) -> str:
        """A few words for listings."""

    def interpolation(self, points: Any, derivative: Sequence[int] = ()) -> Interpolation | None:
        """The same as `matrix` by the few numbers that count at each point, where there are few."""
        return None


class SensorInput(AbstractInput):
    """Values at sensors, linear in between: on one axis, or on the tensor grid of several.

    SensorInput(GaussianField(), x)                       # a function of x
    SensorInput(LogNormal(field), (x, y), of="xy")        # of x and y, first coordinate slowest
    """

    space: AbstractFunctionSpace
    axes: tuple[Float[ndarray, " _"], ...]
    of: str = eqx.field(default="x", kw_only=True)

    def __init__(self, space: AbstractFunctionSpace, axes: Any, of: str = "x"):
        self.space, self.of = space, of
        self.axes = tuple(np.asarray(axis, np.float64) for axis in (axes if isinstance(axes, tuple) else (axes,)))
        if len(self.axes) != len(of):
            raise ConfigError(
                f"SensorInput(of={of!r}) needs {len(of)} axes of sensors, one for each coordinate, and has "
                f"{len(self.axes)}."
            )
        for name, axis in zip(of, self.axes, strict=True):
            if axis.ndim != 1 or len(axis) < 2 or not np.all(np.diff(axis) > 0):
                raise ConfigError(
                    f"The sensors of SensorInput(of={of!r}) along {name} must be at least two, in increasing order: "
                    "sort them, and their values with them."
                )

    @property
    def sensors(self) -> Float[ndarray, " m"]:
        """The places of the sensors of a function of one variable."""
        if len(self.axes) > 1:
            raise ConfigError(f"An input of {self.of} has axes of sensors: use `axes`.")
        return self.axes[0]

    @property
    def size(self) -> int:
        return int(np.prod([len(axis) for axis in self.axes]))

    def sample(self, num: int, *, key: PRNGKeyArray) -> Float[Array, "num m"]:
        return self.space.sample_grid(self.axes, num, key=key)

    def matrix(self, points: Any, derivative: Sequence[int] = ()) -> Float[ndarray, "points m"]:
        return self.interpolation(points, derivative).matrix(self.size)

    def interpolation(self, points: Any, derivative: Sequence[int] = ()) -> Interpolation:
        return piecewise_linear.interpolation(self.axes, rows(points), derivative)

    def radius(self, a: Float[Array, "batch m"]) -> Float[Array, " batch"]:
        return (a**2).mean(axis=-1) ** 0.5

    def modes(self, band: int) -> Float[ndarray, "band m"]:
        return sine_modes(self.axes, band)

    def refined(self, factor: float) -> "SensorInput":
        return SensorInput(self.space.refined(factor), self.axes, self.of)

    def describe(self) -> str:
        return f"{' x '.join(str(len(axis)) for axis in self.axes)} sensors, {type(self.space).__name__}"


class ModalInput(AbstractInput):
    """Coefficients of the orthonormal sine modes."""

    space: SineSeries
    of: str = eqx.field(default="x", kw_only=True)

    @property
    def size(self) -> int:
        return self.space.modes

    def sample(self, num: int, *, key: PRNGKeyArray) -> Float[Array, "num m"]:
        return self.space.coefficients(num, key=key)

    def matrix(self, points: Any, derivative: Sequence[int] = ()) -> Float[ndarray, "points m"]:
        return self.space.basis(points, len(derivative))

    def radius(self, a: Float[Array, "batch m"]) -> Float[Array, " batch"]:
        return (a**2).sum(axis=-1) ** 0.5

    def modes(self, band: int) -> Float[ndarray, "band m"]:
        if band > self.size:
            raise ConfigError(f"A band of {band} modes exceeds the input's {self.size} coefficients: lower the band.")
        return np.eye(band, self.size)

    def refined(self, factor: float) -> "ModalInput":
        return ModalInput(self.space.refined(factor), of=self.of)

    def describe(self) -> str:
        return f"{self.size} coefficients, {type(self.space).__name__}"


class AbstractScalar(AbstractInput):
    """One number for the whole problem, e.g. a viscosity."""

    @property
    def size(self) -> int:
        return 1

    def matrix(self, points: Any, derivative: Sequence[int] = ()) -> Float[ndarray, "points 1"]:
        return np.full((len(points), 1), 0.0 if derivative else 1.0)

    def radius(self, a: Float[Array, "batch 1"]) -> Float[Array, " batch"]:
        return jnp.abs(a[:, 0])

    def modes(self, band: int) -> Float[ndarray, "band 1"]:
        return np.eye(band, 1)

    def refined(self, factor: float) -> "AbstractScalar":
        return self


class Scalar(AbstractScalar):
    """A number that is uniform between `low` and `high`."""

    low: float
    high: float
    of: str = eqx.field(default="", init=False)

    def __check_init__(self) -> None:
        if not self.low < self.high:
            raise ConfigError(f"Scalar({self.low:g}, {self.high:g}): the first number must be below the second.")

    def sample(self, num: int, *, key: PRNGKeyArray) -> Float[Array, "num 1"]:
        return jax.random.uniform(key, (num, 1), minval=self.low, maxval=self.high)

    def describe(self) -> str:
        return f"a number in [{self.low:g}, {self.high:g}]"


class NormalScalar(AbstractScalar):
    """A number with a normal law."""

    mean: float
    deviation: float
    of: str = eqx.field(default="", init=False)

    def sample(self, num: int, *, key: PRNGKeyArray) -> Float[Array, "num 1"]:
        return self.mean + self.deviation * jax.random.normal(key, (num, 1))

    def describe(self) -> str:
        return f"a normal number of mean {self.mean:g} and deviation {self.deviation:g}"


@final
class Inputs:
    """The inputs of a problem by name: the columns of one array, in this order.

    Inputs(k=SensorInput(LogNormal(field), (x, y), of="xy"), nu=Scalar(0.01, 0.1))
    """

    def __init__(self, **inputs: AbstractInput):
        if not inputs:
            raise ConfigError("A problem needs an input: Inputs(a=SensorInput(...)), for example.")
        wrong = next((name for name, each in inputs.items() if not isinstance(each, AbstractInput)), None)
        if wrong is not None:
            raise ConfigError(f"Inputs({wrong}=...) must be a SensorInput, a ModalInput or a Scalar.")
        self.by_name: dict[str, AbstractInput] = inputs

    def __iter__(self) -> Any:
        return iter(self.by_name)

    def __getitem__(self, name: str) -> AbstractInput:
        return self.by_name[name]

    @cached_property
    def slices(self) -> dict[str, slice]:
        """Which columns are whose."""
        ends = np.cumsum([0, *(each.size for each in self.by_name.values())]).tolist()
        return {name: slice(*pair) for name, *pair in zip(self.by_name, ends[:-1], ends[1:], strict=True)}

    @property
    def size(self) -> int:
        """How many columns there are."""
        return sum(each.size for each in self.by_name.values())

    def pack(self, **arrays: Any) -> Float[Array, "batch m"]:
        """One array from those of all inputs by name; values on a tensor grid may have its shape."""
        unknown = next((name for name in arrays if name not in self.by_name), None)
        missing = next((name for name in self.by_name if name not in arrays), None)
        if unknown or missing:
            what = f"'{unknown}' is none of them" if unknown else f"'{missing}' is missing"
            raise ConfigError(f"pack takes the inputs {', '.join(self.by_name)}: {what}.")
        parts = []
        for name, each in self.by_name.items():
            values = jnp.asarray(arrays[name])
            flat = values.reshape(len(values), -1) if values.ndim else values.reshape(1, 1)
            if flat.shape[1] != each.size:
                raise ConfigError(f"pack({name}=...) has {flat.shape[1]} numbers an input, and needs {each.size}.")
            parts.append(flat)
        most = max(map(len, parts))
        return jnp.concatenate([jnp.broadcast_to(part, (most, part.shape[1])) for part in parts], axis=1)

    def unpack(self, a: Float[Array, "batch m"]) -> dict[str, Float[Array, "batch _"]]:
        """Each input's columns."""
        return {name: a[:, columns] for name, columns in self.slices.items()}

    def sample(self, num: int, *, key: PRNGKeyArray) -> Float[Array, "num m"]:
        """Draws all inputs, independently of each other."""
        if len(self.by_name) == 1:
            return next(iter(self.by_name.values())).sample(num, key=key)
        keys = jax.random.split(key, len(self.by_name))
        drawn = [each.sample(num, key=own) for each, own in zip(self.by_name.values(), keys, strict=True)]
        return jnp.concatenate(drawn, axis=1)

    def radius(self, a: Float[Array, "batch m"]) -> Float[Array, " batch"]:
        """The root of the sum of the squares of all inputs' norms."""
        norms = [self.by_name[name].radius(part) for name, part in self.unpack(a).items()]
        return norms[0] if len(norms) == 1 else jnp.sqrt(sum(norm**2 for norm in norms))

    def modes(self, band: int) -> Float[ndarray, "modes m"]:
        """The first `band` modes of each input."""
        parts = []
        for name, columns in self.slices.items():
            own = self.by_name[name].modes(min(band, self.by_name[name].size))
            parts.append(np.zeros((len(own), self.size)))
            parts[-1][:, columns] = own
        return np.concatenate(parts)

    def describe(self) -> str:
        """A few words for listings."""
        return "; ".join(f"{name}: {each.describe()}" for name, each in self.by_name.items())
