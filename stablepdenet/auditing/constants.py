"""The constants of the two residual-to-error theorems, in the discrete norms of the loss.

||r||_Z^2 = sum_q w_q ||r_q||^2_{2,N_q}, ||u||_Y is the root mean square on the evaluation grid, ||delta||_X the input's
own norm. The theorems' constants are suprema over Y, and over all of Y they are infinite: a function may vanish, with
its derivatives, at every collocation point. So they are taken over a trial space V_N. They are estimates, no
certificates:

- `inverse_norm` is a lower and `beta` an upper estimate: an error sharper than the splines of V_N may be amplified
  more. Both settle as N grows, until V_N contains functions that the collocation points do not see. For Burgers, beta
  is right to a few per cent at most inputs, and up to a third too large where a shock is narrower than 1,000 points
  resolve.
- `L_u` is a lower estimate on V_N, and it does not settle where the nonlinear term contains a derivative. For Burgers,
  D_u F(v) - D_u F(w) is the first-order operator phi -> ((v - w) phi)_x, which no constant bounds from L2 to L2, so L_u
  grows with the wave numbers in V_N. A tube condition that fails says as much about these norms as about the operator.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial, reduce
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy import ndarray
from scipy.interpolate import BSpline, make_interp_spline

from stablepdenet.errors import ConfigError
from stablepdenet.operators import Derivative, Fields
from stablepdenet.problems import Problem
from stablepdenet.problems.physics import block_queries, block_residuals

Directions = dict[Derivative, Float[Array, "k 1 _"]]

# Singular values of a Jacobian with more columns take seconds each.
MAX_UNKNOWNS = 500
# Reference solutions that decide how V_N shares its unknowns among the coordinates.
SAMPLES = 16


@dataclass(frozen=True)
class TrialSpace:
    """V_N: tensor products of not-a-knot splines through `shape` equally spaced nodes, on the evaluation grid's box.

    The nodes lie as evenly as collocation points do, and not-a-knot leaves out the knots next to the box's sides: with
    half as many nodes as points, the points see all of V_N. They do not see polynomials as well, which are finest at
    the sides: among 20 x 20 of them, on 1,000 Hammersley points, a few that live between the outermost points would
    make ||A^-1|| of the heat equation 60 times what it is on finer point sets.

    Coefficients refer to a basis that is orthonormal in Y: |c| = ||u_c||_Y.
    """

    problem: Problem
    shape: tuple[int, ...]

    @cached_property
    def _splines(self) -> list[BSpline]:
        degree = _degree(self.problem)
        splines = []
        for axis, num in zip(self.problem.axes, self.shape, strict=True):
            nodes = np.linspace(axis.min(), axis.max(), num)
            triangle = np.linalg.qr(make_interp_spline(nodes, np.eye(num), k=degree)(axis), mode="r")
            splines.append(make_interp_spline(nodes, math.sqrt(len(axis)) * np.linalg.inv(triangle), k=degree))
        return splines

    def basis(self, points: Float[ndarray, "n dim"], word: Derivative = ()) -> Float[ndarray, "n k"]:
        """The derivative `word` of the basis at the points."""
        factors = [spline(points[:, i], nu=word.count(i)) for i, spline in enumerate(self._splines)]
        return reduce(lambda left, right: (left[:, :, None] * right[:, None, :]).reshape(len(points), -1), factors)

    def fit(self, u: Float[ndarray, "batch n"]) -> Float[ndarray, "batch k"]:
        """The functions of V_N nearest to u in Y."""
        axes = self.problem.axes
        c = u.reshape(len(u), *map(len, axes))
        # Each product takes the first grid axis away and appends its coefficients, so the order is kept.
        for spline, axis in zip(self._splines, axes, strict=True):
            c = np.tensordot(c, spline(axis) / len(axis), axes=(1, 0))
        return c.reshape(len(u), -1)

    def values(self, c: Float[ndarray, "batch k"]) -> Float[ndarray, "batch n"]:
        """u_c on the evaluation grid."""
        u = c.reshape(len(c), *self.shape)
        for spline, axis in zip(self._splines, self.problem.axes, strict=True):
            u = np.tensordot(u, spline(axis), axes=(1, 1))
        return u.reshape(len(c), -1)

    def jacobian(self, c: Float[ndarray, " k"], a: Float[ndarray, " m"]) -> Float[ndarray, "equations k"]:
        """D_u F(u_c, a) on V_N, scaled so that Euclidean norms are those of Y and Z."""
        with jax.enable_x64(True):
            return np.asarray(self._compiled(jnp.asarray(c), jnp.asarray(a)[None]))

    @cached_property
    def _compiled(self) -> Callable[[Float[Array, " k"], Float[Array, "1 m"]], Float[Array, "equations k"]]:
        # Only `jacobian` asks for it, so all of this is made in float64.
        problem, residuals = self.problem, block_residuals(self.problem)
        directions = [
            query.answer(
                {w: jnp.asarray(self.basis(np.asarray(query.points), w)).T[:, None, :] for w in query.multi_indices}
            )
            for query in block_queries(problem)
        ]

        def stacked(fields: list[Fields], a: Float[Array, "1 m"]) -> Float[Array, " equations"]:
            result = residuals(fields, a)
            # A block's residual may have fewer rows than points: pairs of a periodic one.
            parts = [
                (math.sqrt(block.weight / result[block.name].shape[1]) * result[block.name]).ravel()
                for block in problem.blocks
            ]
            return jnp.concatenate(parts)

        @jax.jit
        def jacobian(directions: list[Directions], c: Float[Array, " k"], a: Float[Array, "1 m"]) -> Array:
            point = jax.tree.map(lambda direction: jnp.tensordot(c, direction, 1), directions)
            _, push = jax.linearize(lambda fields: stacked(fields, a), point)
            return jax.vmap(push)(directions).T

        return partial(jacobian, directions)

    @cached_property
    def linear(self) -> bool:
        """Whether D_u F is one operator A, the same at two random functions and inputs (eq:linear-pde)."""
        inputs = np.asarray(self.problem.sample(2, key=jax.random.key(0)), np.float64)
        functions = np.random.default_rng(0).normal(size=(2, math.prod(self.shape)))
        one, two = (self.jacobian(c, a) for c, a in zip(functions, inputs, strict=True))
        return bool(np.all(np.abs(one - two) <= 1e-9 * np.abs(one).max(axis=1, keepdims=True)))


def trial_space(problem: Problem) -> TrialSpace:
    """The V_N for a problem: half as many unknowns as its largest block has points and half as many nodes as the grid
    along each coordinate, at most `MAX_UNKNOWNS`; of these shapes the one that fits the reference solutions best."""
    least = _degree(problem) + 1
    unknowns = min(max(len(block.points) for block in problem.blocks) // 2, MAX_UNKNOWNS)
    most = [len(axis) // 2 for axis in problem.axes]
    heads = list(itertools.product(*(range(least, num + 1) for num in most[:-1])))
    shapes = [(*head, min(unknowns // math.prod(head), most[-1])) for head in heads]
    spaces = [TrialSpace(problem, shape) for shape in shapes if shape[-1] >= least]
    if not spaces:
        raise ConfigError(
            f"Problem '{problem.name}' is too coarse for the theorems' constants: they need at least {2 * least} "
            f"evaluation points along each coordinate and {2 * least ** len(most)} collocation points in one block."
        )
    solutions = problem.require_reference()(np.asarray(problem.sample(SAMPLES, key=jax.random.key(0))))
    return min(spaces, key=lambda space: (round(_misfit(space, solutions), 7), max(space.shape)))


def _degree(problem: Problem) -> int:
    """Odd, as interpolating splines are best, and three above the equation's order: u_xx is then approximated to
    O(h^4)."""
    words = [word for bound in problem.bound for _, word in bound.terms.solution.values()]
    return (3 + max(word.count(i) for word in words for i in range(len(problem.axes)))) | 1


def _misfit(space: TrialSpace, u: Float[ndarray, "batch n"]) -> float:
    """The relative distance of u from V_N in Y."""
    return float(np.linalg.norm(space.values(space.fit(u)) - u) / np.linalg.norm(u))


class LinearBound(NamedTuple):
    """Theorem the:linear: ||E(a2) - E(a1)||_Y <= gamma_E ||a2 - a1||_X with gamma_E = ||A^-1|| gamma_r
    (eq:linear-error-bound)."""

    inverse_norm: float
    gamma_E: float


def linear_bound(space: TrialSpace, *, gamma_r: float) -> LinearBound:
    """||A^-1||_{Z -> Y} = sup ||v||_Y / ||A v||_Z over V_N, and what it makes of the residual's Lipschitz constant."""
    if not space.linear:
        raise ConfigError(f"Problem '{space.problem.name}' is not linear in u: use tube_estimate.")
    smallest = _smallest(space.jacobian(np.zeros(math.prod(space.shape)), np.zeros(space.problem.inputs.size)))
    inverse_norm = 1 / smallest if smallest > 0 else math.inf
    return LinearBound(inverse_norm, inverse_norm * gamma_r)


class Outcome(NamedTuple):
    """Inputs, and on the evaluation grid their exact solutions S(a) and an operator's predictions G(a)."""

    inputs: Float[ndarray, "batch m"]
    solutions: Float[ndarray, "batch n"]
    predictions: Float[ndarray, "batch n"]


class TubeEstimate(NamedTuple):
    """The local nonlinear theorem's constants, named as there.

    `margin` is beta - L_u rho_E, which must be positive (eq:nonlinear_tube_condition); otherwise `gamma_E` is nan.
    `fit_error` is the largest relative distance of an exact solution from V_N.
    """

    beta: float
    L_u: float
    L_a: float
    rho_E: float
    margin: float
    gamma_E: float
    fit_error: float


def tube_estimate(
    space: TrialSpace, clean: Outcome, perturbed: Outcome, *, gamma_r: float, C_S: float, linearised: int = 10
) -> TubeEstimate:
    """The constants at the first `linearised` inputs and their perturbed ones; rho_E over all of them.

    beta  = min sigma_min(D_u F(S(a), a))                                   (eq:nonlinear_inverse_stability)
    L_u   = max ||D_u F(G(a), a) - D_u F(S(a), a)|| / ||G(a) - S(a)||_Y     (eq:nonlinear_jacobian_lipschitz)
    L_a   = max ||D_u F(S(a), a + delta) - D_u F(S(a), a)|| / ||delta||_X
    rho_E = max ||G(a) - S(a)||_Y                                           (eq:error_tube)
    gamma_E = (gamma_r + rho_E (L_u C_S + L_a)) / (beta - L_u rho_E)        (eq:nonlinear_error_constant)
    """
    first, second = (
        Outcome(*(np.asarray(array[:linearised], np.float64) for array in tested)) for tested in (clean, perturbed)
    )
    beta, L_u, L_a = math.inf, 0.0, 0.0
    for tested in (first, second):
        for a, exact, learned in zip(
            tested.inputs, space.fit(tested.solutions), space.fit(tested.predictions), strict=True
        ):
            at_solution = space.jacobian(exact, a)
            beta = min(beta, _smallest(at_solution))
            L_u = max(L_u, _slope(space.jacobian(learned, a) - at_solution, math.dist(learned, exact)))
    with jax.enable_x64(True):
        radii = np.asarray(space.problem.inputs.radius(jnp.asarray(second.inputs - first.inputs)))
    for a, moved, exact, radius in zip(first.inputs, second.inputs, space.fit(first.solutions), radii, strict=True):
        L_a = max(L_a, _slope(space.jacobian(exact, moved) - space.jacobian(exact, a), radius))
    rho_E = max(_distance(tested.predictions, tested.solutions) for tested in (clean, perturbed))
    margin = beta - L_u * rho_E
    gamma_E = (gamma_r + rho_E * (L_u * C_S + L_a)) / margin if margin > 0 else math.nan
    fit_error = max(_misfit(space, u[None]) for tested in (first, second) for u in tested.solutions)
    return TubeEstimate(beta, L_u, L_a, rho_E, margin, gamma_E, fit_error)


def _smallest(jacobian: Float[ndarray, "equations k"]) -> float:
    """inf ||J v||_Z / ||v||_Y: 0 with fewer equations than unknowns."""
    equations, unknowns = jacobian.shape
    return float(np.linalg.svdvals(jacobian)[-1]) if equations >= unknowns else 0.0


def _slope(difference: Float[ndarray, "equations k"], distance: float) -> float:
    """||J_2 - J_1|| over the distance of their arguments; two equal arguments say nothing."""
    if distance == 0:
        return 0.0
    # Squaring is harmless to the largest singular value, and several times cheaper than a decomposition.
    square = float(np.linalg.eigvalsh(difference.T @ difference)[-1])
    return math.sqrt(max(square, 0.0)) / distance


def _distance(u: Float[ndarray, "batch n"], v: Float[ndarray, "batch n"]) -> float:
    """max ||u - v||_Y."""
    return float(np.sqrt(np.mean((u.astype(np.float64) - v) ** 2, axis=1)).max())
