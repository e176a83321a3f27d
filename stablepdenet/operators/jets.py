"""Taylor rules: all wanted derivatives of a network in its coordinates, in one forward pass.

A jet maps a derivative to its array. A derivative is the sorted tuple of the coordinates it is taken in: `()` is the
value, `(0,)` is d/dx_0, `(0, 0)` is d2/dx_0^2, `(0, 1)` is mixed. A missing entry is zero.

Where a sum L = sum_w c_w D_w of derivatives is all that is asked for, as in a linear PDE, it is one entry of its own,
under the key `SUM`: linear layers keep it one, and tanh needs of its parts only those of lower order. The heat operator
then costs three entries a layer instead of four.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from itertools import combinations
from typing import final

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float
from numpy import ndarray

Derivative = tuple[int, ...]
Jet = dict[Derivative, Float[Array, "_ _"]]
# c_w for each multi-index w: a number, or one for each point.
Combination = Mapping[Derivative, float | Float[ndarray, " n"]]
# No coordinate has this number.
SUM: Derivative = (-1,)
# Gradients of weights multiply by the transposed activations. In points x features XLA does so at half its speed on
# CPUs, in features x points at full speed; but there it is the forward products that suffer where points are few.
MANY = 256


@final
class Taylor:
    """The rules for one set of points: the coordinates' jet, and how layers change a jet.

    Inside, many points are columns and few are rows; `result` has them in columns.
    """

    def __init__(self, points: Float[Array, "n dim"], wanted: Sequence[Derivative], combination: Combination):
        self.wanted = wanted
        self.needed = closure(wanted, combination)
        self.columns = len(points) >= MANY
        self.points = self._turn(points)
        self.coefficients = {index: self._along_points(c) for index, c in combination.items()}

    def seed(self) -> Jet:
        """The jet of the coordinates themselves; here and in all layers SUM leaves out the value's share."""
        dimension = self.points.shape[0 if self.columns else 1]
        unit = jnp.eye(dimension, dtype=self.points.dtype)
        jet: Jet = {(): self.points, **{(i,): self._turn(unit[i : i + 1]) for i in range(dimension)}}
        return jet | _total({SUM: [c * jet[index] for index, c in self.coefficients.items() if len(index) == 1]})

    def embed(self, function: Callable[[Float[Array, "n dim"]], Float[Array, "n features"]]) -> Jet:
        """The jet of functions of the coordinates. They are few, so each derivative is taken for itself."""
        multi_indices = tuple(dict.fromkeys((*self.needed, *self.coefficients)))
        found = nested_derivatives(function, self._turn(self.points), multi_indices)
        jet = {index: self._turn(entry) for index, entry in found.items()}
        shares = [c * jet[index] for index, c in self.coefficients.items() if index]
        return {index: jet[index] for index in self.needed} | _total({SUM: shares})

    def linear(self, jet: Jet, weight: Float[Array, "fan_in fan_out"], bias: Float[Array, " fan_out"]) -> Jet:
        """The jet of z W + b: every entry passes through W, only the value meets b.

        One product per entry: stacking them into a single larger one measures slower, because the copies cost more than
        the larger product gains.
        """
        mapped = {index: weight.T @ entry if self.columns else entry @ weight for index, entry in jet.items()}
        return mapped | {(): mapped[()] + self._turn(bias[None])}

    def tanh(self, jet: Jet) -> Jet:
        """The jet of tanh(z) by the formula of Faa di Bruno,

        D_w tanh(z) = sum over set partitions P of w of tanh^(|P|)(z) * product over blocks p of P of D_p z.

        In a combination the partitions of one block add up to tanh'(z) L z.
        """
        h = jnp.tanh(jet[()])
        # A backward pass makes the many factors again, in the loops that use them, rather than read them from memory.
        return {(): h, **jax.checkpoint(self._chain_rule)(h, {index: entry for index, entry in jet.items() if index})}

    def _chain_rule(self, h: Float[Array, "_ _"], jet: Jet) -> Jet:
        """The entries of tanh's jet but the value h."""
        slope = 1.0 - h * h

        def products(index: Derivative) -> Iterator[tuple[int, Float[Array, "_ _"]]]:
            for partition in _partitions(index):
                if partition and all(block in jet for block in partition):
                    term = slope * _polynomial(h, _tanh_polynomial(len(partition)))
                    for block in partition:
                        term = term * jet[block]
                    yield len(partition), term

        terms = {index: [term for _, term in products(index)] for index in self.needed if index}
        terms[SUM] = [slope * jet[SUM]] if SUM in jet else []
        terms[SUM] += [c * t for index, c in self.coefficients.items() for blocks, t in products(index) if blocks > 1]
        return _total(terms)

    def result(self, jet: Jet) -> Jet:
        """What was asked for, as features x points."""
        if () in self.coefficients:
            jet = jet | _total({SUM: [self.coefficients[()] * jet[()], *([jet[SUM]] if SUM in jet else [])]})
        asked = (*self.wanted, *([SUM] if self.coefficients else []))
        return {index: jet[index] if self.columns else jet[index].T for index in asked}

    def _turn(self, rows: Float[Array, "n k"]) -> Float[Array, "_ _"]:
        """An array with points (or one value for all of them) in its rows, as it is kept here."""
        return rows.T if self.columns else rows

    def _along_points(self, coefficient: float | Float[ndarray, " n"]) -> Float[Array, "_ _"]:
        return self._turn(jnp.reshape(jnp.asarray(coefficient, self.points.dtype), (-1, 1)))


def nested_derivatives(
    function: Callable[[Float[Array, "n dim"]], Array],
    points: Float[Array, "n dim"],
    multi_indices: Sequence[Derivative],
) -> dict[Derivative, Array]:
    """Derivatives in the coordinates by one jax.jvp per order. What `function` gives for a point must depend on that
    point alone, so that one tangent serves all points."""

    def along(coordinate: int, function: Callable[[Array], Array]) -> Callable[[Array], Array]:
        def derivative(points: Array) -> Array:
            tangent = jnp.zeros_like(points).at[:, coordinate].set(1.0)
            return jax.jvp(function, (points,), (tangent,))[1]

        return derivative

    found = {}
    for index in multi_indices:
        derivative = function
        for coordinate in index:
            derivative = along(coordinate, derivative)
        found[index] = derivative(points)
    return found


def closure(wanted: Sequence[Derivative], combination: Combination) -> tuple[Derivative, ...]:
    """Every derivative that the chain rule needs on the way to `wanted` and to a combination, lowest order first."""
    found = {part for index in wanted for size in range(len(index) + 1) for part in combinations(index, size)}
    found |= {part for index in combination for size in range(len(index)) for part in combinations(index, size)}
    return tuple(sorted(found | {()}, key=lambda index: (len(index), index)))


def _total(terms: Mapping[Derivative, Sequence[Array]]) -> Jet:
    """Each entry's sum; without terms there is no entry."""
    return {index: sum(parts[1:], parts[0]) for index, parts in terms.items() if parts}


def _partitions(index: Derivative) -> Iterator[tuple[Derivative, ...]]:
    """All set partitions of the derivatives in `index` (equal ones count as different, as the formula asks)."""
    if not index:
        yield ()
        return
    head, rest = index[0], index[1:]
    for size in range(len(rest) + 1):
        for chosen in combinations(range(len(rest)), size):
            block = (head, *(rest[i] for i in chosen))
            others = tuple(rest[i] for i in range(len(rest)) if i not in chosen)
            for partition in _partitions(others):
                yield (block, *partition)


@cache
def _tanh_polynomial(order: int) -> tuple[int, ...]:
    """Coefficients, lowest first, of q_k in tanh^(k) = (1 - h^2) q_k(h), where h = tanh.

    q_1 = 1,  q_{k+1} = (1 - h^2) q_k' - 2 h q_k.
    """
    if order == 1:
        return (1,)
    q = _tanh_polynomial(order - 1)
    following = [0] * (len(q) + 1)
    for power, coefficient in enumerate(q):
        following[power + 1] -= (power + 2) * coefficient
        if power:
            following[power - 1] += power * coefficient
    return tuple(following)


def _polynomial(h: Float[Array, ...], coefficients: tuple[int, ...]) -> Float[Array, ...] | float:
    value: Float[Array, ...] | float = float(coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        value = value * h + coefficient
    return value
