"""What a problem declares: its domain, its inputs, its residual blocks; for measuring, an attack and a reference."""

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

from stablepdenet.attacks import PGD, AbstractAdmissibleSet, Unrestricted
from stablepdenet.errors import CheckpointError, ConfigError
from stablepdenet.functions import Inputs
from stablepdenet.functions import points as point_sets
from stablepdenet.functions.domain import Box
from stablepdenet.operators import EMBEDDINGS, PLAIN, Ansatz
from stablepdenet.problems.bound import BoundBlock
from stablepdenet.problems.fingerprint import fingerprint
from stablepdenet.problems.linear import Coefficient, is_linear_part, linear_part
from stablepdenet.problems.terms import Terms, check_names, terms_of

# Settings of the audit that every problem has.
RESERVED = ("clean", "rough", "smooth", "coarse", "fine")

Reference = Callable[[Float[ndarray, "batch m"]], Float[ndarray, "batch n *components"]]


@dataclass(frozen=True)
class Block:
    """One residual block F_q(u, a) = 0 with its collocation points and its weight w_q (eq:residual-blocks).

    `residual` is the equation itself. It asks for what it needs by its parameters' names: the solution's components and
    their derivatives, `u`, `u_x`, `v_xx`, …, the inputs and theirs, `a`, `k_x`, … (arrays batch x points), and the
    coordinates. It returns batch x points, or batch x points x channels. For the heat equation:

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

    def linear_part(self, terms: Terms, domain: Box) -> dict[str, Coefficient]:
        """The terms of the solution that enter the residual as a sum with known coefficients, and these."""
        names = [name for name in self.parameters if name not in terms.coordinates]
        known = dict(zip(terms.coordinates, self.points[:, domain.columns(terms.coordinates)].T, strict=True))
        residual, count = partial(self.residual, **known), len(self.points)
        try:
            row = jax.ShapeDtypeStruct((1, count), jnp.result_type(float))
            program = jax.make_jaxpr(lambda *rows: residual(**dict(zip(names, rows, strict=True))))(*[row] * len(names))
            found = linear_part(program, names, count)
            found = {name: coefficient for name, coefficient in found.items() if name in terms.solution}
            return found if found and is_linear_part(residual, names, found, count) else {}
        except Exception:  # a residual may fail in any way; what is wrong with it shows where it is evaluated as it is
            return {}


@dataclass(frozen=True, eq=False)
class Problem:
    """A parametric PDE from inputs to a solution, posed on a box.

    `solution` names the components of the solution, `inputs` the inputs; both enter the blocks by these names, inputs
    always at their perturbed values. `ansatz` says what is known of solutions. `refinement_blocks` are the blocks on
    the points that `solve` and `refine` take, where the problem's own are too few or not where they should be.

    What measuring needs may be left out: the `reference` takes inputs to solutions on the tensor grid of `axes` (the
    first coordinate slowest; batch x points, or batch x points x components), in float64. The `attack` says which
    perturbed inputs are admissible. `unseen` names inputs that the function space does not hold, `fronts` says that the
    steepest gradient in x at the last time is worth following; `embedding` names what a trunk should see of the points.
    """

    name: str
    domain: Box
    inputs: Inputs
    blocks: tuple[Block, ...]
    solution: tuple[str, ...] = ("u",)
    equation: str = ""
    attack: PGD | None = None
    reference: Reference | None = None
    axes: tuple[Float[ndarray, " _"], ...] = ()
    functions: int = 1000
    batch: int = 100
    tests: int = 2000
    unseen: Mapping[str, Float[ndarray, "_ m"]] = field(default_factory=dict)
    fronts: bool = False
    embedding: str = PLAIN
    ansatz: Ansatz | None = None
    refinement_blocks: tuple[Block, ...] = ()

    def __post_init__(self) -> None:
        check_names(self.domain, self.solution, self.inputs)
        names = [block.name for block in self.blocks]
        if len(set(names)) != len(names):
            raise ConfigError(f"Problem '{self.name}' has two blocks of one name among {names}: name each block once.")
        for name, inputs in self.unseen.items():
            if name in RESERVED or np.shape(inputs)[1:] != (self.inputs.size,):
                raise ConfigError(
                    f"Problem '{self.name}': unseen['{name}'] must be rows of {self.inputs.size} numbers, and its name "
                    f"none of {', '.join(RESERVED)}."
                )
        if self.axes and len(self.axes) != self.domain.dimension:
            raise ConfigError(
                f"Problem '{self.name}': axes must be {self.domain.dimension}, one for each of the coordinates "
                f"{', '.join(self.domain.coordinates)}."
            )
        if self.fronts and len(self.axes) != 2:
            raise ConfigError(f"Problem '{self.name}': fronts are followed in (x, t), so there must be two axes.")
        if self.embedding not in EMBEDDINGS:
            raise ConfigError(f"Problem '{self.name}': embedding must be one of {', '.join(EMBEDDINGS)}.")
        if self.refinement_blocks and sorted(block.name for block in self.refinement_blocks) != sorted(names):
            raise ConfigError(
                f"Problem '{self.name}': refinement_blocks must have the blocks {', '.join(names)}, each once."
            )
        for block in (*self.blocks, *self.refinement_blocks):
            terms = self.terms(block)
            if not terms.solution and not terms.inputs:
                raise ConfigError(f"Block '{block.name}' asks for neither the solution nor an input.")
            if not block.weight > 0:
                raise ConfigError(f"Block '{block.name}' has weight {block.weight}: weights must be positive.")
            if block.points.ndim != 2 or block.points.shape[1] != self.domain.dimension:
                raise ConfigError(
                    f"Block '{block.name}' has points of shape {block.points.shape}: they must be "
                    f"(n, {self.domain.dimension})."
                )
            outside = np.flatnonzero(~self.domain.contains(block.points))
            if len(outside):
                raise ConfigError(
                    f"Block '{block.name}' has {len(outside)} points outside of {self.domain}, the first being "
                    f"{block.points[outside[0]].tolist()}: enlarge the domain, or leave them out."
                )

    @property
    def coordinates(self) -> tuple[str, ...]:
        """The names of the coordinates, in the order of the columns of points."""
        return self.domain.coordinates

    @cached_property
    def bound(self) -> tuple[BoundBlock, ...]:
        """The blocks as functions of the solution and the inputs."""
        return tuple(BoundBlock(self, block) for block in self.blocks)

    def terms(self, block: Block) -> Terms:
        """What a block's residual asks for."""
        return terms_of(block.name, block.residual, self.domain, self.solution, self.inputs)

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
        return self.admissible.snap(self.inputs.sample(num, key=key))

    @property
    def admissible(self) -> AbstractAdmissibleSet:
        """The inputs for which the problem is posed, as its attack says."""
        return self.attack.admissible if self.attack else Unrestricted()

    def require_attack(self) -> PGD:
        """The attack, for what cannot do without."""
        if self.attack is None:
            raise ConfigError(f"Problem '{self.name}' has no attack: give it one, e.g. attack=PGD(LinfBall(0.05)).")
        return self.attack

    def require_reference(self) -> Reference:
        """The reference, for what cannot do without."""
        if self.reference is None or not self.axes:
            raise ConfigError(
                f"Problem '{self.name}' has no reference solution to compare with: give it reference= (inputs -> "
                "solutions on the grid) and axes=."
            )
        return self.reference

    @cached_property
    def grid(self) -> Float[ndarray, "n dim"]:
        """The evaluation points, one row each."""
        if not self.axes:
            raise ConfigError(f"Problem '{self.name}' has no evaluation grid: give it axes=, one for each coordinate.")
        return point_sets.grid(*self.axes)


def periodic_residual(u: Float[Array, "batch twice"], u_x: Float[Array, "batch twice"]) -> Float[Array, "batch n 2"]:
    """[u(0, t) - u(1, t), u_x(0, t) - u_x(1, t)] at the pairs of `points.periodic`; a second-order PDE needs both."""
    half = u.shape[1] // 2
    return jnp.stack([u[:, :half] - u[:, half:], u_x[:, :half] - u_x[:, half:]], axis=-1)
