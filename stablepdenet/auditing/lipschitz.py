"""Local Lipschitz constants sigma_max(W^(1/2) J) of operators, and those of the exact solution operator."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial, reduce

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy import ndarray

from stablepdenet.auditing.measure import CHUNK, chunks, flat_basis
from stablepdenet.auditing.metrics import summary
from stablepdenet.auditing.session import Session, Task
from stablepdenet.functions import points
from stablepdenet.operators import AbstractBasisOperator, AbstractOperator
from stablepdenet.problems import AbstractReference, LinearReference, Problem

# Inputs whose full Jacobians are held at once.
DENSE_CHUNK = 4
# The derivative of a nonlinear reference costs a hundred solves: enough inputs for a comparison, not all.
NONLINEAR_INPUTS = 50


def lipschitz(session: Session) -> Iterator[Task]:
    """Learned and exact constants at every test input."""
    for name, able in session.able.items():
        if able.inputs:
            yield f"lipschitz {name}", partial(_learned, session, name)
    yield "lipschitz exact", partial(_exact, session)


def local_lipschitz(
    operator: AbstractOperator, problem: Problem, a: Float[ndarray, "batch m"]
) -> Float[ndarray, " batch"]:
    """The largest ||J delta||_{L2} / ||delta|| at each input, J being the derivative of the solution in the input.

    L2 norms on the grid are trapezoidal, the input's norm is the one that budgets refer to. With a basis, J = Phi C,
    where C is the Jacobian of the coefficients, and sigma_max(W^(1/2) Phi C) = sigma_max(R C) with the triangular
    factor R of W^(1/2) Phi: the grid enters once.
    """
    if not isinstance(operator, AbstractBasisOperator):
        return dense_lipschitz(operator, problem, a)
    basis = flat_basis(np.asarray(operator.basis(jnp.asarray(problem.grid)), np.float64))
    factor = jnp.asarray(np.linalg.qr(_root_weights(problem)[:, None] * basis, mode="r"))
    units = jnp.asarray(input_units(problem), factor.dtype)

    def constants(operator: AbstractBasisOperator, rows: Float[Array, "chunk m"]) -> Float[Array, " chunk"]:
        jacobian = jax.vmap(derivative(lambda row: operator.coefficients(row[None])[0]))(rows)
        return jnp.linalg.svd(factor @ (jacobian / units), compute_uv=False)[:, 0]

    derivative = jax.jacfwd
    try:
        eqx.filter_eval_shape(constants, operator, jnp.asarray(a[:1]))
    except TypeError:  # of what PyTorch computes, JAX has reverse mode alone
        derivative = jax.jacrev
    compiled = eqx.filter_jit(constants)
    return np.concatenate([np.asarray(compiled(operator, part)[:rows]) for part, rows in chunks(a, CHUNK)])


def dense_lipschitz(
    operator: AbstractOperator, problem: Problem, a: Float[ndarray, "batch m"]
) -> Float[ndarray, " batch"]:
    """The same by the plain Jacobian, for any differentiable operator."""
    grid = jnp.asarray(problem.grid)
    compiled = eqx.filter_jit(lambda operator, rows: operator.jacobian(rows, grid))
    return _largest(lambda rows: compiled(operator, rows), problem, jnp.asarray(a))


def exact_lipschitz(problem: Problem, a: Float[ndarray, "batch m"]) -> Float[ndarray, " batch"] | None:
    """The constants of S itself: one for all inputs where S is linear, from its derivative otherwise, None where the
    reference cannot be differentiated."""
    reference = problem.reference
    if isinstance(reference, LinearReference):
        weighted = _root_weights(problem)[:, None] * reference.matrix
        return np.full(len(a), np.linalg.norm(weighted / input_units(problem), 2))
    if not isinstance(reference, AbstractReference):
        return None
    with jax.enable_x64(True):
        compiled = jax.jit(jax.vmap(jax.jacfwd(lambda row: reference.traced(row[None])[0])))
        return _largest(compiled, problem, jnp.asarray(a, jnp.float64))


def _learned(session: Session, name: str) -> None:
    found = local_lipschitz(session.operators[name], session.problem, session.clean)
    session.add(name, "none", "clean", summary("lipschitz", found))


def _exact(session: Session) -> None:
    linear = isinstance(session.problem.reference, LinearReference)
    inputs = session.clean if linear else session.clean[:NONLINEAR_INPUTS]
    found = exact_lipschitz(session.problem, inputs) if session.trusted else None
    if found is None and isinstance(session.problem.reference, AbstractReference):
        return session.note("Exact Lipschitz constants are left out for the same reason.")
    if found is None:
        return session.note("The reference cannot be differentiated: exact Lipschitz constants are left out.")
    if len(found) < len(session.clean):
        session.note(f"The exact Lipschitz constants are those of the first {len(found)} inputs.")
    values = summary("lipschitz_exact", found)
    for name in session.operators:
        session.add(name, "none", "clean", values)
    return None


def input_units(problem: Problem) -> Float[ndarray, " m"]:
    """||a|| = |units * a|_2: the input's norm against the Euclidean one of its array."""
    return np.asarray(problem.inputs.radius(jnp.eye(problem.inputs.size)), np.float64)


def _largest(
    jacobians: Callable[[Float[Array, "chunk m"]], Float[Array, "chunk n m"]],
    problem: Problem,
    a: Float[Array, "batch m"],
) -> Float[ndarray, " batch"]:
    weights, units, found = _root_weights(problem)[:, None] ** 2, input_units(problem), []
    for start in range(0, len(a), DENSE_CHUNK):
        for rows in np.asarray(jacobians(a[start : start + DENSE_CHUNK]), np.float64):
            jacobian = rows.reshape(-1, a.shape[1]) / units
            found.append(np.sqrt(np.linalg.eigvalsh(jacobian.T @ (weights * jacobian))[-1]))
    return np.array(found)


def _root_weights(problem: Problem) -> Float[ndarray, " n"]:
    """The square roots of the trapezoidal weights of the evaluation grid, the same for every component."""
    weights = reduce(np.multiply.outer, [points.trapezoid(axis) for axis in problem.axes]).ravel()
    return np.sqrt(np.repeat(weights, len(problem.solution)))
