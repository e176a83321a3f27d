"""PyTorch models as operators: the same network in both frameworks gives the same numbers, derivatives and attacks."""

from __future__ import annotations

from collections.abc import Callable
from threading import Thread
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array

from stablepdenet.attacks import PGD, LinfBall
from stablepdenet.errors import ConfigError
from stablepdenet.operators import (
    AbstractOperator,
    Capabilities,
    DeepONet,
    Evaluator,
    Query,
    TorchOperator,
    as_operator,
    capabilities,
)
from stablepdenet.operators.mlp import MLP

if TYPE_CHECKING:
    import torch
else:
    # The lock has it for one kind of machine.
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")

KEYS = jax.random.split(jax.random.key(0), 4)
NETWORK = eqx.tree_at(lambda o: o.bias, DeepONet(6, 2, width=16, depth=3, key=KEYS[0]), jnp.asarray(0.3))
A = jax.random.normal(KEYS[1], (5, 6))
X, EDGE = jax.random.uniform(KEYS[2], (20, 2)), jax.random.uniform(KEYS[3], (4, 2))
QUERIES = [Query(X, ((), (0,), (1,), (0, 0), (0, 1))), Query(EDGE, ((),))]


def copied(network: MLP) -> torch.nn.Sequential:
    layers: list[torch.nn.Module] = []
    for layer in network.layers:
        fan_in, fan_out = layer.weight.shape
        dense = torch.nn.Linear(fan_in, fan_out)
        dense.load_state_dict(
            {"weight": torch.tensor(np.array(layer.weight.T)), "bias": torch.tensor(np.array(layer.bias))}
        )
        layers += [dense, torch.nn.Tanh()]
    return torch.nn.Sequential(*layers[:-1])


class Model(torch.nn.Module):
    """The DeepONet as its authors would write it in PyTorch."""

    def __init__(self, network: DeepONet):
        super().__init__()
        self.branch, self.trunk = copied(network.branch), copied(network.trunk)
        self.bias = torch.nn.Parameter(torch.tensor(float(network.bias)))

    def forward(self, a: torch.Tensor, points: torch.Tensor) -> torch.Tensor:
        return self.branch(a) @ self.trunk(points).T + self.bias


MODEL = Model(NETWORK)
OPERATOR = TorchOperator(MODEL)


def residual_loss(evaluate: Evaluator) -> Callable[[Array], Array]:
    """A viscous Burgers residual and a boundary term: every derivative enters, products of fields too."""

    def loss(a: Array) -> Array:
        inside, edge = evaluate(a)
        residual = inside[(1,)] + inside[()] * inside[(0,)] - 0.1 * inside[(0, 0)]
        return jnp.mean(residual**2, axis=1) + jnp.mean(edge[()] ** 2, axis=1)

    return loss


def value_loss(operator: AbstractOperator) -> Callable[[Array], Array]:
    return lambda a: jnp.mean((operator(a, X) - 1.0) ** 2, axis=1)


def assert_close(found: Array, expected: Array, tolerance: float) -> None:
    assert found.dtype == expected.dtype
    np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance * np.abs(expected).max())


@pytest.mark.parametrize("compiled", [False, True])
def test_values_and_derivatives_equal_those_of_jax(compiled: bool) -> None:
    compile = eqx.filter_jit if compiled else lambda function: function
    assert_close(compile(OPERATOR)(A, X), NETWORK(A, X), 1e-6)
    for found, expected in zip(compile(OPERATOR.prepare(QUERIES))(A), NETWORK.prepare(QUERIES)(A), strict=True):
        assert set(found) == set(expected)
        for word, u in expected.items():
            assert_close(found[word], u, 5e-6)


@pytest.mark.parametrize("compiled", [False, True])
def test_gradients_in_the_input_equal_those_of_jax(compiled: bool) -> None:
    def gradient(loss: Callable[[Array], Array]) -> Array:
        function = jax.grad(lambda a: jnp.sum(loss(a)))
        return (jax.jit(function) if compiled else function)(A)

    assert_close(gradient(value_loss(OPERATOR)), gradient(value_loss(NETWORK)), 1e-5)
    expected = gradient(residual_loss(NETWORK.prepare(QUERIES)))
    assert_close(gradient(residual_loss(OPERATOR.prepare(QUERIES))), expected, 1e-4)


def test_traced_points_in_a_scan() -> None:
    """`on` inside of a compiled program, as physics does it."""

    def steps(operator: AbstractOperator) -> Array:
        def run(a: Array, points: Array) -> Array:
            def step(a: Array, _: None) -> tuple[Array, None]:
                evaluate = operator.prepare([Query(points, QUERIES[0].wanted), QUERIES[1]])
                return a + 0.01 * jax.grad(lambda a: jnp.sum(residual_loss(evaluate)(a)))(a), None

            return jax.lax.scan(step, a, length=5)[0]

        return jax.jit(run)(A, X)

    assert_close(steps(OPERATOR), steps(NETWORK), 1e-5)


@pytest.mark.parametrize("kind", ["residual", "value"])
def test_an_attack_finds_the_same_perturbation(kind: str) -> None:
    def attacked(operator: AbstractOperator) -> Array:
        objective = residual_loss(operator.prepare(QUERIES)) if kind == "residual" else value_loss(operator)
        return jax.jit(lambda a, key: PGD(LinfBall(0.05), steps=12)(objective, a, key=key).delta)(A, KEYS[0])

    found, expected = np.asarray(attacked(OPERATOR)), np.asarray(attacked(NETWORK))
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6)
    assert np.abs(found).max() == pytest.approx(0.05)


@pytest.mark.parametrize("compiled", [False, True])
def test_the_jacobian_equals_that_of_jax_in_either_mode(compiled: bool) -> None:
    expected = jax.vmap(jax.jacfwd(lambda a: NETWORK(a[None], EDGE)[0]))(A)
    found = eqx.filter_jit(TorchOperator.jacobian)(OPERATOR, A, EDGE) if compiled else OPERATOR.jacobian(A, EDGE)
    assert_close(found, expected, 1e-5)
    assert_close(jax.jacrev(lambda a: OPERATOR(a[None], EDGE)[0])(A[0]), expected[0], 1e-5)


def test_a_derivative_that_vanishes_is_zero() -> None:
    operator = TorchOperator(lambda a, points: a[:, :1] * points[:, 0])
    fields = operator.derivatives(A, X, [(0,), (1,), (0, 0)])
    np.testing.assert_allclose(fields[(0,)], np.tile(A[:, :1], len(X)), rtol=1e-6)
    assert np.all(fields[(1,)] == 0) and np.all(fields[(0, 0)] == 0)


def test_the_model_is_left_as_it_was() -> None:
    model = Model(NETWORK).train()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    jax.grad(lambda a: jnp.sum(value_loss(TorchOperator(model))(a)))(A)
    assert model.training and all(p.requires_grad and p.grad is None for p in model.parameters())
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_a_model_of_another_precision_is_called_in_its_own() -> None:
    operator = as_operator(Model(NETWORK).double(), 6, np.asarray(X))
    assert_close(operator(A, X), NETWORK(A, X), 1e-6)


def test_threads_do_not_meet_in_forward_mode() -> None:
    wanted, evaluate = QUERIES[0].wanted, OPERATOR.prepare(QUERIES)
    expected = {word: np.asarray(u) for word, u in evaluate(A)[0].items()}
    found: list[bool] = []

    def work() -> None:
        for _ in range(20):
            fields = evaluate(A)[0]
            found.append(all(np.allclose(fields[word], expected[word], atol=1e-6) for word in wanted))

    threads = [Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 60 and all(found)


# ------------------------------------------------------------------------------------------------- What is taken


def test_a_module_is_recognised_and_has_all_derivatives() -> None:
    operator = as_operator(MODEL, 6, np.asarray(X))
    assert operator == OPERATOR
    assert capabilities(operator, A, np.asarray(X), QUERIES) == Capabilities(True, True, {})


def test_a_module_without_forward_mode_says_so() -> None:
    class Square(torch.autograd.Function):
        """An operation of somebody's own, with reverse mode alone."""

        @staticmethod
        def forward(x: torch.Tensor) -> torch.Tensor:
            return x * x

        @staticmethod
        def setup_context(ctx: Any, inputs: tuple, output: torch.Tensor) -> None:
            ctx.save_for_backward(*inputs)

        @staticmethod
        def backward(ctx: Any, cotangent: torch.Tensor) -> torch.Tensor:
            return 2 * ctx.saved_tensors[0] * cotangent

    operator = TorchOperator(lambda a, points: a[:, :1] * Square.apply(points[:, 0]))
    found = capabilities(operator, A, np.asarray(X), QUERIES)
    assert found.inputs and not found.points
    assert "must implement the jvp function" in found.reasons["points"]


def test_a_model_that_couples_its_points_has_no_derivatives_there() -> None:
    operator = TorchOperator(lambda a, points: a[:, :1] * torch.cumsum(points[:, 0], 0))
    found = capabilities(operator, A, np.asarray(X), QUERIES)
    assert found == Capabilities(True, False, found.reasons)
    assert "does not follow its points" in found.reasons["points"]


class Transposed(Model):
    def forward(self, a: torch.Tensor, points: torch.Tensor) -> torch.Tensor:
        return super().forward(a, points).T


class Dropping(Model):
    def forward(self, a: torch.Tensor, points: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.dropout(super().forward(a, points), training=self.training)


@pytest.mark.parametrize(
    "candidate, sentence",
    [
        (Transposed(NETWORK), r"returned the shape \(20, 2\): it must be \(2, 20\)"),
        (Dropping(NETWORK), "two equal inputs different solutions"),
        (torch.nn.Linear(6, 3), "TypeError: .*forward"),
        (lambda a, p: MODEL(a, p), r"must be Tensor.* wrap a function of tensors as TorchOperator\(function\)"),
        (lambda a, p: torch.tensor(a[:, :1] * p[:, 0]), r"PyTorch tensor: wrap it as TorchOperator\(function\)"),
    ],
)
def test_what_cannot_be_audited_is_refused_in_one_sentence(candidate: Callable[..., object], sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence) as caught:
        as_operator(candidate, 6, np.asarray(X))
    assert "\n" not in str(caught.value) and str(caught.value).endswith(".")


def test_dropout_in_eval_mode_is_taken() -> None:
    assert_close(as_operator(Dropping(NETWORK).eval(), 6, np.asarray(X))(A, X), NETWORK(A, X), 1e-6)
