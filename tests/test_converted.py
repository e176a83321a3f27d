"""DeepONets of PyTorch in JAX: the same numbers, or one sentence that names what cannot be converted."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from stablepdenet import BasisOperator, from_torch, load, local_lipschitz, make_problem, refine, save
from stablepdenet.auditing.lipschitz import exact_lipschitz
from stablepdenet.errors import ConfigError

if TYPE_CHECKING:
    import torch
else:
    # The lock has it for one kind of machine.
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")

nn, functional = torch.nn, torch.nn.functional
A, X = np.random.default_rng(0).normal(size=(7, 6)), np.random.default_rng(1).uniform(size=(20, 2))


def sequential(*between: Any, sizes: tuple[int, ...] = (6, 16, 16, 12)) -> torch.nn.Sequential:
    """Linear layers with activations between them."""
    torch.manual_seed(sum(sizes))
    layers: list[Any] = []
    for number, pair in enumerate(pairwise(sizes)):
        layers += [nn.Linear(*pair), *([between[number]] if number < len(between) else [])]
    return nn.Sequential(*layers)


def trunk_of(*between: Any) -> torch.nn.Sequential:
    return sequential(*between, sizes=(2, 16, 16, 12))


class FNN(nn.Module):
    """What DeepXDE's networks look like: `activation` is a function, or one for each layer but the last."""

    def __init__(self, sizes: tuple[int, ...], activation: Any):
        super().__init__()
        torch.manual_seed(3)
        self.linears = nn.ModuleList(nn.Linear(*pair) for pair in pairwise(sizes))
        self.activation = activation

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for number, linear in enumerate(self.linears[:-1]):
            each = self.activation[number] if isinstance(self.activation, list) else self.activation
            x = each(linear(x))
        return self.linears[-1](x)


def assert_equal(operator: BasisOperator, branch: Any, trunk: Any, last: Any = lambda x: x, bias: Any = 0.0) -> None:
    with torch.no_grad():
        a, points = (torch.tensor(x).to(next(branch.parameters())) for x in (A, X))
        expected = (branch(a) @ last(trunk(points)).T + bias).double().numpy()
    found = operator(jnp.asarray(A), jnp.asarray(X))
    assert found.dtype == jnp.result_type(float)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6 * max(1.0, np.abs(expected).max()))


ACTIVATIONS = [
    nn.Tanh(),
    nn.ReLU(),
    nn.GELU(),
    nn.GELU(approximate="tanh"),
    nn.SiLU(),
    nn.Sigmoid(),
    nn.Softplus(),
    nn.ELU(),
    nn.SELU(),
    nn.Identity(),
    nn.Dropout(0.5).eval(),
]


@pytest.mark.parametrize("activation", ACTIVATIONS, ids=str)
def test_a_sequential_network_gives_the_same_numbers(activation: Any) -> None:
    branch, trunk = sequential(activation, nn.Tanh()), trunk_of(activation, nn.Sequential(nn.Tanh(), nn.Identity()))
    assert_equal(from_torch(branch, trunk), branch, trunk)


@pytest.mark.parametrize("last", [torch.tanh, torch.sin, functional.silu, torch.relu, lambda x: torch.sigmoid(x)])
def test_deepxdes_networks_give_the_same_numbers(last: Any) -> None:
    branch, trunk = FNN((6, 16, 12), last), FNN((2, 16, 16, 12), [torch.tanh, last])
    bias = nn.Parameter(torch.tensor([0.3]))
    operator = from_torch(branch, trunk, last=last, bias=bias)
    assert_equal(operator, branch, trunk, last, 0.3)
    # Weights are copied: a step of PyTorch's optimiser changes nothing here.
    before = operator(jnp.asarray(A), jnp.asarray(X))
    with torch.no_grad():
        for weight in (bias, *branch.parameters()):
            weight.mul_(2.0)
    assert np.array_equal(operator(jnp.asarray(A), jnp.asarray(X)), before)


def test_other_precisions_and_layers_without_bias_are_taken() -> None:
    branch = nn.Sequential(nn.Linear(6, 12, bias=False)).double()
    trunk = trunk_of(nn.Tanh(), nn.Tanh()).double()
    assert_equal(from_torch(branch, trunk), branch, trunk)
    with jax.enable_x64(True):
        wide = from_torch(branch, trunk)(jnp.asarray(A), jnp.asarray(X))
        expected = (branch(torch.tensor(A)) @ trunk(torch.tensor(X)).T).detach().numpy()
        np.testing.assert_allclose(wide, expected, rtol=0, atol=1e-13)


def test_what_is_converted_is_traced_and_differentiated() -> None:
    branch, trunk = sequential(nn.Tanh(), nn.Tanh()), trunk_of(nn.Tanh(), nn.Tanh())
    operator = from_torch(branch, trunk)
    a, points = torch.tensor(A, dtype=torch.float32, requires_grad=True), torch.tensor(X, dtype=torch.float32)
    torch.sum((branch(a) @ trunk(points).T) ** 2).backward()
    found = eqx.filter_jit(eqx.filter_grad(lambda a: jnp.sum(operator(a, jnp.asarray(X)) ** 2)))(jnp.asarray(A))
    assert a.grad is not None
    np.testing.assert_allclose(found, a.grad.numpy(), rtol=1e-4, atol=1e-6)
    assert "callback" not in str(jax.make_jaxpr(lambda a: operator(a, jnp.asarray(X)))(jnp.asarray(A)))


def test_what_is_converted_is_kept(tmp_path: Path) -> None:
    problem, path = make_problem("poisson"), tmp_path / "operator"
    sizes = (problem.inputs.size, 8), (1, 8)
    operator, fresh = (from_torch(FNN(sizes[0], torch.tanh), FNN(sizes[1], torch.tanh), bias=b) for b in (0.5, 0.0))
    save(operator, path, problem)
    a, points = problem.sample(2, key=jax.random.key(0)), jnp.asarray(problem.grid)
    assert np.array_equal(load(path, problem, like=fresh)(a, points), operator(a, points))


class Residual(FNN):
    """More than its layers."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.sum(dim=1, keepdim=True) + super().forward(x)


GOOD = trunk_of(nn.Tanh(), nn.Tanh())
REFUSED = {
    r"branch\[1\] \(LayerNorm\) cannot be converted: layers must be torch.nn.Linear": sequential(nn.LayerNorm(16)),
    r"branch\[1\] \(Softmax\) cannot": sequential(nn.Softmax(dim=1)),
    r"branch\[1\] \(Dropout\) cannot": sequential(nn.Dropout(0.5)),
    r"branch\[1\] \(ELU\) cannot": sequential(nn.ELU(0.5)),
    r"branch\.activation \(sqrt\) cannot": FNN((6, 16, 12), torch.sqrt),
    r"branch\[1\]\[0\] \(Conv1d\) cannot": sequential(nn.Sequential(nn.Conv1d(1, 1, 3))),
    r"branch \(Residual\) gives something else than its layers": Residual((6, 16, 12), torch.tanh),
    r"branch \(str\) cannot": "network",
    "The branch gives 16 numbers and the trunk 12": sequential(nn.Tanh(), sizes=(6, 16)),
}


@pytest.mark.parametrize("sentence", REFUSED)
def test_what_cannot_be_converted_is_refused_in_one_sentence(sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence) as caught:
        from_torch(REFUSED[sentence], GOOD)
    assert "\n" not in str(caught.value) and str(caught.value).endswith(".")


def test_a_bias_of_several_numbers_and_an_unknown_last_are_refused() -> None:
    branch, softmax = sequential(nn.Tanh(), nn.Tanh()), cast(Any, torch.softmax)
    with pytest.raises(ConfigError, match="bias has 2 numbers"):
        from_torch(branch, GOOD, bias=torch.zeros(2))
    with pytest.raises(ConfigError, match=r"last \(softmax\) cannot"):
        from_torch(branch, GOOD, last=softmax)


def test_two_functions_are_an_operator() -> None:
    waves = BasisOperator(lambda a: a[:, :3], lambda points: jnp.sin(jnp.pi * points[:, :1] * jnp.arange(1, 4)))
    a, points = jnp.asarray(A, jnp.float32), jnp.asarray(X, jnp.float32)
    modes = np.pi * np.arange(1, 4)
    np.testing.assert_allclose(waves(a, points), A[:, :3] @ np.sin(X[:, :1] * modes).T, atol=1e-5)
    slopes = waves.derivatives(a, points, [(0, 0), (1,)])
    np.testing.assert_allclose(slopes[(0, 0)], -(A[:, :3] * modes**2) @ np.sin(X[:, :1] * modes).T, atol=1e-3)
    assert not np.any(slopes[(1,)])


@pytest.mark.parametrize("converted", [True, False])
def test_an_untrained_network_is_refined(converted: bool) -> None:
    problem = make_problem("poisson")
    size, width = problem.inputs.size, 40
    branch, trunk = sequential(nn.Tanh(), sizes=(size, 32, width)), sequential(nn.Tanh(), sizes=(1, 200, width))
    network = from_torch(branch, trunk, last=torch.tanh, bias=0.1) if converted else Both(branch, trunk)
    refined = refine(network, problem)
    a = problem.sample(20, key=jax.random.key(3))
    # A white-box attack ends at signs too, of the error's gradient.
    grid = jnp.asarray(problem.grid)
    attacked = a + 0.05 * jnp.sign(jax.grad(lambda a: jnp.sum(refined(a, grid) ** 2))(a))
    found = []
    for inputs in (a, attacked):
        u = problem.require_reference()(np.asarray(inputs))
        found.append(np.linalg.norm(np.asarray(refined(inputs, grid)) - u) / np.linalg.norm(u))
    assert found[0] < 1e-3
    assert found[1] < 2e-3
    # Of what PyTorch computes JAX has reverse mode alone.
    exact = exact_lipschitz(problem, np.asarray(a[:2]))
    assert exact is not None
    assert np.allclose(local_lipschitz(refined, problem, np.asarray(a[:2])), exact, rtol=2e-2)


class Both(nn.Module):
    """A DeepONet that is one module."""

    def __init__(self, branch: Any, trunk: Any):
        super().__init__()
        self.branch, self.trunk = branch, trunk

    def forward(self, a: torch.Tensor, points: torch.Tensor) -> torch.Tensor:
        return self.branch(a) @ torch.tanh(self.trunk(points)).T
