"""What a problem declares: its input, its residual blocks, its attack, its reference solution."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray
from numpy import ndarray

from stablepdenet import points as point_sets
from stablepdenet.attacks import AbstractPGD
from stablepdenet.errors import CheckpointError, ConfigError
from stablepdenet.operators import EMBEDDINGS, PLAIN, Ansatz, Derivative
from stablepdenet.problems.fingerprint import fingerprint
from stablepdenet.problems.linear import Coefficient, is_linear_part, linear_part
from stablepdenet.spaces import AbstractInput

# Settings of the audit that every problem has.
RESERVED = ("clean", "rough", "smooth", "coarse", "fine")

Reference = Callable[[Float[ndarray, "batch m"]], Float[ndarray, "batch n"]]


@dataclass(frozen=True)
class Block:
    """One residual block F_q(u, a) = 0 with its collocation points and its weight w_q (eq:residual-blocks).

    `residual` is the equation itself. It asks for what it needs by its parameters' names: `u` and its derivatives
    `u_x`, `u_xx`, `u_t`, … (arrays batch x points), the input `a` at the points (batch x points), and the coordinates
    by name. It returns batch x points, or batch x points x channels. For the heat equation:

        Block("pde", points, lambda u_t, u_xx: u_t - 0.01 * u_xx)

    It must be a pure function: terms that only enter as a sum with known coefficients are evaluated together elsewhere
    (`linear_part`), and it is then called with zeros in their place.
    """

    name: str
    points: Float[ndarray, "n dim"]
    residual: Callable[..., Float[Array, "batch n *channels"]]
    weight: float = 1.0

    @cached_property
    def parameters(self) -> tuple[str, ...]:
        return tuple(inspect.signature(self.residual).parameters)

    def wanted(self, coordinates: tuple[str, ...]) -> dict[str, Derivative]:
        """The derivatives of u that the residual asks for, by parameter name."""
        wanted: dict[str, Derivative] = {}
        for name in self.parameters:
            if name == "u":
                wanted[name] = ()
            elif name.startswith("u_"):
                letters = name.removeprefix("u_")
                if not letters or any(letter not in coordinates for letter in letters):
                    raise ConfigError(
                        f"Block '{self.name}' asks for '{name}', but the coordinates are {', '.join(coordinates)}: "
                        "write a derivative as u_ followed by coordinate letters, e.g. u_xx."
                    )
                wanted[name] = tuple(sorted(coordinates.index(letter) for letter in letters))
            elif name != "a" and name not in coordinates:
                raise ConfigError(
                    f"Block '{self.name}' asks for '{name}', which is neither u, a derivative of u, the input a, "
                    f"nor one of the coordinates {', '.join(coordinates)}: rename that parameter of its residual."
                )
        return wanted

    def linear_part(self, coordinates: tuple[str, ...]) -> dict[str, Coefficient]:
        """The terms of u that enter the residual as a sum with known coefficients, and these."""
        names = [name for name in self.parameters if name not in coordinates]
        known = {name: self.points[:, coordinates.index(name)] for name in self.parameters if name in coordinates}
        residual, count = partial(self.residual, **known), len(self.points)
        try:
            row = jax.ShapeDtypeStruct((1, count), jnp.result_type(float))
            program = jax.make_jaxpr(lambda *rows: residual(**dict(zip(names, rows, strict=True))))(*[row] * len(names))
            found = linear_part(program, names, count)
            found.pop("a", None)
            return found if found and is_linear_part(residual, names, found, count) else {}
        except Exception:  # a residual may fail in any way; what is wrong with it shows where it is evaluated as it is
            return {}


@dataclass(frozen=True, eq=False)
class Problem:
    """A parametric PDE a -> u with everything that training and evaluation need.

    The input is a function of the first coordinate; it enters each block that asks for `a`, always at the perturbed
    value. The reference takes inputs to solutions on the tensor grid of `axes` (the first coordinate slowest), in
    float64. `unseen` names inputs that the function space does not hold, for the audit; `fronts` says that the steepest
    gradient in x at the last time is worth following; `embedding` names what a trunk should see of the
    points, `ansatz` says what is known of solutions; `fine` are the blocks on the points that
    `solve` and `refine` take, where the problem's own are too few or not where they should be.
    """

    name: str
    equation: str
    coordinates: tuple[str, ...]
    input: AbstractInput
    blocks: tuple[Block, ...]
    attack: AbstractPGD
    reference: Reference
    axes: tuple[Float[ndarray, " _"], ...]
    functions: int = 1000
    batch: int = 100
    tests: int = 2000
    unseen: Mapping[str, Float[ndarray, "_ m"]] = field(default_factory=dict)
    fronts: bool = False
    embedding: str = PLAIN
    ansatz: Ansatz | None = None
    fine: tuple[Block, ...] = ()

    def __post_init__(self) -> None:
        names = [block.name for block in self.blocks]
        if len(set(names)) != len(names):
            raise ConfigError(f"Problem '{self.name}' has two blocks of one name among {names}: name each block once.")
        if not all(len(name) == 1 and name not in "ua" for name in self.coordinates):
            raise ConfigError(f"Problem '{self.name}': coordinates must be single letters other than u and a.")
        for name, inputs in self.unseen.items():
            if name in RESERVED or np.shape(inputs)[1:] != (self.input.size,):
                raise ConfigError(
                    f"Problem '{self.name}': unseen['{name}'] must be rows of {self.input.size} numbers, and its name "
                    f"none of {', '.join(RESERVED)}."
                )
        if self.fronts and len(self.axes) != 2:
            raise ConfigError(f"Problem '{self.name}': fronts are followed in (x, t), so there must be two axes.")
        if self.embedding not in EMBEDDINGS:
            raise ConfigError(f"Problem '{self.name}': embedding must be one of {', '.join(EMBEDDINGS)}.")
        if self.fine and sorted(block.name for block in self.fine) != sorted(names):
            raise ConfigError(f"Problem '{self.name}': fine must have the blocks {', '.join(names)}, each once.")
        for block in (*self.blocks, *self.fine):
            block.wanted(self.coordinates)
            if not block.weight > 0:
                raise ConfigError(f"Block '{block.name}' has weight {block.weight}: weights must be positive.")
            if block.points.ndim != 2 or block.points.shape[1] != len(self.coordinates):
                raise ConfigError(
                    f"Block '{block.name}' has points of shape {block.points.shape}: they must be "
                    f"(n, {len(self.coordinates)})."
                )

    @cached_property
    def fingerprint(self) -> str:
        """A short hash of what is trained, and of what answers are made of (see `fingerprint.py`)."""
        return fingerprint(self)

    def require(self, wanted: str, what: str) -> None:
        """Refuses what was made for another problem of the same name."""
        if wanted != self.fingerprint:
            raise CheckpointError(
                f"{what} was made for another problem '{self.name}' than this one: its equations, points, weights, "
                "input or ansatz differ. Give the problem that it was made for, or train anew."
            )

    def sample(self, num: int, *, key: PRNGKeyArray) -> Float[Array, "num m"]:
        """Draws `num` admissible inputs."""
        return self.attack.admissible.snap(self.input.sample(num, key=key))

    @cached_property
    def grid(self) -> Float[ndarray, "n dim"]:
        """The evaluation points, one row each."""
        return point_sets.grid(*self.axes)


def periodic_residual(u: Float[Array, "batch twice"], u_x: Float[Array, "batch twice"]) -> Float[Array, "batch n 2"]:
    """[u(0, t) - u(1, t), u_x(0, t) - u_x(1, t)] at the pairs of `points.periodic`; a second-order PDE needs both."""
    half = u.shape[1] // 2
    return jnp.stack([u[:, :half] - u[:, half:], u_x[:, :half] - u_x[:, half:]], axis=-1)
