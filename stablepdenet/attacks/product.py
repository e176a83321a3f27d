"""Products over several inputs: of balls with a budget each, and of admissible sets."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from stablepdenet.attacks.admissible import AbstractAdmissibleSet
from stablepdenet.attacks.balls import AbstractBall, Budget
from stablepdenet.errors import ConfigError
from stablepdenet.functions import Inputs


class _Member(NamedTuple):
    """One ball of a product, and which of the inputs' columns and of the coordinates are its own."""

    ball: AbstractBall
    columns: slice
    entries: slice


class ProductBall(AbstractBall):
    """A ball for each of several inputs, with a budget each; an input without one is left alone.

        ProductBall(problem.inputs, {"k": LinfBall(0.02), "f": LinfBall(0.1)})

    `eps` multiplies all budgets.
    """

    inputs: Inputs
    balls: dict[str, AbstractBall]
    eps: Budget = eqx.field(default=1.0, kw_only=True)

    def __check_init__(self) -> None:
        _check(self.inputs, self.balls, "ProductBall")

    def start(self, a: Float[Array, "batch m"], *, key: PRNGKeyArray) -> Float[Array, "batch k"]:
        keys = jax.random.split(key, len(self.balls))
        return _joined(one.ball.start(a[:, one.columns], key=own) for one, own in zip(self._members, keys, strict=True))

    def normalise(self, gradient: Float[Array, "batch k"]) -> Float[Array, "batch k"]:
        return _joined(one.ball.normalise(gradient[:, one.entries]) for one in self._members)

    def project(self, z: Float[Array, "batch k"], a: Float[Array, "batch m"]) -> Float[Array, "batch k"]:
        return _joined(one.ball.project(z[:, one.entries], a[:, one.columns]) for one in self._members)

    def norm(self, z: Float[Array, "batch k"]) -> Float[Array, "batch k"]:
        return _joined(_spread(one.ball.norm(z[:, one.entries]), one) for one in self._members)

    def radius(self, a: Float[Array, "batch m"]) -> Float[Array, "batch k"]:
        return _joined(_spread(one.ball.radius(a[:, one.columns]), one) for one in self._members)

    def size(self, m: int) -> int:
        return self._members[-1].entries.stop

    def perturbation(self, z: Float[Array, "batch k"]) -> Float[Array, "batch m"]:
        delta = jnp.zeros((len(z), self.inputs.size), z.dtype)
        for one in self._members:
            delta = delta.at[:, one.columns].set(one.ball.perturbation(z[:, one.entries]))
        return delta

    def coordinates(self, delta: Float[Array, "batch m"]) -> Float[Array, "batch k"]:
        return _joined(one.ball.coordinates(delta[:, one.columns]) for one in self._members)

    def moved(self, z: Float[Array, "batch k"], move: Callable[[Array], Array]) -> Float[Array, "batch k"]:
        delta = move(self.perturbation(z))

        def of(one: _Member) -> Array:
            return one.ball.moved(z[:, one.entries], lambda _: delta[:, one.columns])

        return _joined(of(one) for one in self._members)

    def describe(self) -> str:
        return "; ".join(f"{name}: {self.balls[name].describe()}" for name in self.inputs if name in self.balls)

    @property
    def _members(self) -> list[_Member]:
        """In the order of the inputs."""
        found: list[_Member] = []
        for name, columns in self.inputs.slices.items():
            if name in self.balls:
                ball, begin = self.balls[name], found[-1].entries.stop if found else 0
                entries = slice(begin, begin + ball.size(self.inputs[name].size))
                found.append(_Member(dataclasses.replace(ball, eps=self.eps * ball.eps), columns, entries))
        return found


def _joined(parts: Iterable[Float[Array, "batch _"]]) -> Float[Array, "batch k"]:
    return jnp.concatenate(list(parts), axis=1)


def _spread(values: Float[Array, "batch _"], one: _Member) -> Float[Array, "batch k"]:
    """One number for each of a ball's coordinates."""
    return jnp.broadcast_to(values, (len(values), one.entries.stop - one.entries.start))


class ProductSet(AbstractAdmissibleSet):
    """A set for each of several inputs; an input without one is unrestricted.

    ProductSet(problem.inputs, {"k": ValueRange(0.1)})
    """

    inputs: Inputs
    sets: dict[str, AbstractAdmissibleSet]

    def __check_init__(self) -> None:
        _check(self.inputs, self.sets, "ProductSet")

    def project(self, delta: Float[Array, "batch m"], a: Float[Array, "batch m"]) -> Float[Array, "batch m"]:
        for name, own in self.sets.items():
            columns = self.inputs.slices[name]
            delta = delta.at[:, columns].set(own.project(delta[:, columns], a[:, columns]))
        return delta

    def shrinkage(self, delta: Float[Array, "batch m"], a: Float[Array, "batch m"]) -> Float[Array, "batch 1"]:
        slices = self.inputs.slices
        each = [own.shrinkage(delta[:, slices[name]], a[:, slices[name]]) for name, own in self.sets.items()]
        return jnp.min(jnp.concatenate(each, axis=1), axis=1, keepdims=True)

    def snap(self, a: Float[Array, "batch m"]) -> Float[Array, "batch m"]:
        for name, own in self.sets.items():
            columns = self.inputs.slices[name]
            a = a.at[:, columns].set(own.snap(a[:, columns]))
        return a

    @property
    def condition(self) -> str:
        return " and ".join(f"{name}'s {own.condition}" for name, own in self.sets.items())


def _check(inputs: Inputs, parts: Mapping[str, eqx.Module], product: str) -> None:
    """Refuses names that are no input's."""
    unknown = next((name for name in parts if name not in inputs.slices), None)
    if unknown or not parts:
        what = f"'{unknown}' is none of them" if unknown else "name at least one of them"
        raise ConfigError(f"{product}: the inputs are {', '.join(inputs)}; {what}.")
