"""What operators are measured on: the test inputs, and cases made from them."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import jax
import numpy as np
from jaxtyping import Array, Float
from numpy import ndarray

from stablepdenet.functions import points
from stablepdenet.problems import AbstractReference, Problem

# The test inputs are the same for every seed and method, and independent of every training set.
TEST_SEED = 20_260_101


@dataclass(frozen=True)
class Case:
    """Inputs under the name of an attack and a setting, and the methods that are measured on them.

    Operators see `inputs`; the reference solves `truth`, which differs where the data are coarser than the function
    behind them. With `base`, the inputs are perturbations of it and responses are measured too.
    """

    attack: str
    setting: str
    inputs: Float[ndarray, "batch m"]
    truth: Float[ndarray, "batch m"]
    base: Float[ndarray, "batch m"] | None = None
    methods: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """What tells cases apart: one of a model's own carries its name."""
        return "|".join((self.attack, self.setting, *self.methods))


def clean_case(inputs: Float[Array, "batch m"], setting: str = "clean") -> Case:
    """Unperturbed inputs, for all methods."""
    a = np.asarray(inputs)
    return Case("none", setting, a, a)


def evaluation_inputs(problem: Problem, num: int | None = None) -> Float[Array, "num m"]:
    """The problem's test inputs; fewer than the paper's number are its first ones."""
    return problem.sample(problem.tests, key=jax.random.key(TEST_SEED))[:num]


def setting_of(eps: float) -> str:
    """A radius as rows name it: 0.05, 0.10, 0.125."""
    shortest = f"{eps:g}"
    return shortest if "e" in shortest or len(shortest) > 4 else f"{eps:.2f}"


def on_axes(problem: Problem, axes: tuple[Float[ndarray, " _"], ...]) -> Problem | None:
    """The problem evaluated on another grid, if its reference can go there."""
    if not isinstance(problem.reference, AbstractReference):
        return None
    return dataclasses.replace(problem, axes=axes, reference=problem.reference.on(axes))


def finer(problem: Problem) -> Problem | None:
    """The problem on a grid of half the spacing."""
    return on_axes(problem, tuple(points.midpoints(axis) for axis in problem.axes))


def thinner(problem: Problem, limit: int = 33) -> Problem:
    """The problem on at most `limit` points for each coordinate: enough for the objective of an attack."""
    axes = tuple(axis[:: max(1, -(-(len(axis) - 1) // (limit - 1)))] for axis in problem.axes)
    return on_axes(problem, axes) or problem
