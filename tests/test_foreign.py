"""Operators written elsewhere: what is accepted, what is refused and in which words, what can be differentiated."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array

from stablepdenet.errors import ConfigError
from stablepdenet.operators import (
    Capabilities,
    DeepONet,
    FunctionOperator,
    HostOperator,
    ModuleOperator,
    Query,
    as_operator,
    capabilities,
)

POINTS = np.random.default_rng(0).uniform(size=(7, 2))
A = jnp.asarray(np.random.default_rng(1).normal(size=(3, 4)), jnp.float32)
X = jnp.asarray(POINTS, jnp.float32)
QUERIES = [Query(X, ((), (0,), (0, 0))), Query(X[:2], ((1,),))]
MATRIX = np.random.default_rng(2).normal(size=(7, 4)).astype(np.float32)


def jax_function(a: Array, points: Array) -> Array:
    return jnp.sum(a, axis=1, keepdims=True) * jnp.sin(points[:, 0]) * points[:, 1]


def numpy_function(a: np.ndarray, points: np.ndarray) -> np.ndarray:
    a[:, 0] += 1.0  # a solver may work in place, and in float64
    return np.sum(a, axis=1, keepdims=True) * np.sin(points[:, 0].astype(np.float64))


def expected_numpy(a: Array, points: Array = X) -> np.ndarray:
    return (1 + np.sum(a, axis=1, keepdims=True)) * np.sin(points[:, 0])


@dataclass
class Unhashable:
    """A callable object that no static field can hold."""

    gain: np.ndarray
    traceable: bool

    def __call__(self, a: Array, points: Array) -> Array | np.ndarray:
        return (self.gain * (a if self.traceable else np.asarray(a))) @ MATRIX.T


class Affine(eqx.Module):
    """Somebody's equinox module, with arrays, that knows nothing of operators."""

    weight: Array
    bias: Array

    def __call__(self, a: Array, points: Array) -> Array:
        return (a @ self.weight)[:, None] * points[:, 0] + self.bias


AFFINE = Affine(jnp.arange(4.0), jnp.asarray(0.5))


# ------------------------------------------------------------------------------------------------------ What is taken


def test_an_operator_is_taken_as_it_is() -> None:
    operator = DeepONet(4, 2, width=8, depth=2, key=jax.random.key(0))
    assert as_operator(operator, 4, POINTS) is operator


def test_a_jax_function_stays_one() -> None:
    operator = as_operator(jax_function, 4, POINTS)
    assert operator == FunctionOperator(jax_function)
    np.testing.assert_allclose(eqx.filter_jit(operator)(A, X), jax_function(A, X), rtol=1e-6)


def test_a_numpy_function_runs_on_the_host() -> None:
    operator = as_operator(numpy_function, 4, POINTS)
    assert operator == HostOperator(numpy_function)
    for call in (operator, eqx.filter_jit(operator), jax.jit(lambda a, x: operator.derivatives(a, x, [()])[()])):
        u = call(A, X)
        assert u.dtype == A.dtype
        np.testing.assert_allclose(u, expected_numpy(A), rtol=1e-5)
    looped = jax.jit(lambda a: jax.lax.fori_loop(0, 40, lambda _, a: 0.5 * a + 0.0 * operator(a, X)[:, :4], a))(A)
    np.testing.assert_allclose(looped, A * 0.5**40, rtol=1e-5)


def test_a_callable_pytree_keeps_its_arrays_as_leaves() -> None:
    operator = as_operator(AFFINE, 4, POINTS)
    assert isinstance(operator, ModuleOperator)
    assert len(jax.tree.leaves(operator)) == 2
    np.testing.assert_allclose(eqx.filter_jit(operator)(A, X), AFFINE(A, X), rtol=1e-6)
    slope = eqx.filter_jit(lambda operator, a: operator.derivatives(a, X, [(0,)]))(operator, A)[(0,)]
    np.testing.assert_allclose(slope, np.tile((A @ AFFINE.weight)[:, None], 7), rtol=1e-5)


@pytest.mark.parametrize("traceable, kind", [(True, FunctionOperator), (False, HostOperator)])
def test_a_callable_that_does_not_hash_is_taken(traceable: bool, kind: type) -> None:
    candidate = Unhashable(np.arange(4, dtype=np.float32), traceable)
    operator = as_operator(candidate, 4, POINTS)
    assert isinstance(operator, kind)
    np.testing.assert_allclose(eqx.filter_jit(operator)(A, X), (np.asarray(A) * candidate.gain) @ MATRIX.T, rtol=1e-4)


def test_nothing_imports_pytorch_on_its_own() -> None:
    code = "import sys, stablepdenet.operators.foreign; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


# ---------------------------------------------------------------------------------------------------- What is refused


@pytest.mark.parametrize(
    "candidate, sentence",
    [
        (3, r"\(a, points\) -> u, but int is not callable"),
        (lambda a, p: a, r"returned the shape \(2, 4\): it must be \(2, 7\)"),
        (lambda a, p: np.asarray(a), r"returned the shape \(2, 4\): it must be \(2, 7\)"),
        (lambda a, p: jnp.zeros((2, 7)) / 0.0, "not finite"),
        (lambda a, p: np.full((2, 7), np.inf) * np.asarray(a).sum(), "not finite"),
        (lambda a, p: np.random.default_rng(0).normal(size=(2, 7)), "two equal inputs different solutions"),
        (lambda a: a, "TypeError: .* takes 1 positional argument but 2 were given"),
    ],
)
def test_what_cannot_be_audited_is_refused_in_one_sentence(candidate: object, sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence) as caught:
        as_operator(candidate, 4, POINTS)
    assert "\n" not in str(caught.value) and str(caught.value).endswith(".")


def test_an_exception_of_the_candidate_is_named_and_kept() -> None:
    def candidate(a: Array, points: Array) -> Array:
        raise ZeroDivisionError("my own fault\nwith a second line")

    with pytest.raises(ConfigError, match="ZeroDivisionError: my own fault") as caught:
        as_operator(candidate, 4, POINTS)
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_an_answer_on_other_points_is_refused_compiled_or_not() -> None:
    operator = as_operator(lambda a, p: np.asarray(a) @ MATRIX.T, 4, POINTS)
    sentence = r"returned the shape \(3, 7\): it must be \(3, 2\)"
    with pytest.raises(ConfigError, match=sentence):
        operator(A, X[:2])
    with pytest.raises(jax.errors.JaxRuntimeError, match=sentence):
        jax.block_until_ready(eqx.filter_jit(operator)(A, X[:2]))


# ------------------------------------------------------------------------------------------- What it can be asked for


def test_a_jax_operator_has_all_derivatives() -> None:
    network = DeepONet(4, 2, width=8, depth=2, key=jax.random.key(0))
    for operator in (network, as_operator(jax_function, 4, POINTS), as_operator(AFFINE, 4, POINTS)):
        assert capabilities(operator, A, POINTS, QUERIES) == Capabilities(True, True, {})


def test_a_host_function_has_none() -> None:
    inputs, points, reasons = capabilities(HostOperator(numpy_function), A, POINTS, QUERIES)
    assert not inputs and not points
    assert set(reasons.values()) == {
        "A function that JAX cannot trace has no derivatives: write it in JAX or PyTorch.",
    }


@pytest.mark.parametrize("queries, reason", [(QUERIES, "shape"), (QUERIES[:1], "does not follow its points")])
def test_a_function_on_a_grid_has_gradients_but_no_derivatives(queries: list[Query], reason: str) -> None:
    """Asked for as many points as its grid has, it would return the grid's values, and zeros for derivatives."""
    operator = as_operator(lambda a, p: a @ MATRIX.T, 4, POINTS)
    found = capabilities(operator, A, POINTS, queries)
    assert found.inputs and not found.points
    # The tests' own shape checks speak first where the number of points differs.
    assert reason in found.reasons["points"] or "Type-check error" in found.reasons["points"]


def test_a_reason_is_one_short_line() -> None:
    def candidate(a: Array, points: Array) -> Array:
        raise RuntimeError("word " * 1000 + "\nmore")

    found = capabilities(FunctionOperator(candidate), A, POINTS, QUERIES)
    assert not found.inputs and not found.points
    for reason in found.reasons.values():
        assert reason.startswith("RuntimeError: word") and "\n" not in reason and len(reason) <= 200


def test_what_fails_only_when_it_runs_is_found() -> None:
    @jax.custom_vjp
    def broken(a: Array) -> Array:
        return jnp.sum(a, axis=1)

    def backward(_: None, cotangent: Array) -> tuple[Array]:
        def fail(c: Array) -> Array:
            raise RuntimeError("no backward pass")

        return (jax.pure_callback(fail, jax.ShapeDtypeStruct((1, 4), jnp.float32), cotangent),)

    broken.defvjp(lambda a: (broken(a), None), backward)
    found = capabilities(FunctionOperator(lambda a, p: broken(a)[:, None] * p[:, 0]), A, POINTS, QUERIES)
    assert not found.inputs and not found.points
