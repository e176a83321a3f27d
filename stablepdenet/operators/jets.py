"""Taylor rules: all wanted derivatives of a network in its coordinates, in one forward pass.

A jet maps a derivative to its array. A derivative is the sorted tuple of the coordinates it is taken in: `()` is the
value, `(0,)` is d/dx_0, `(0, 0)` is d2/dx_0^2, `(0, 1)` is mixed. A missing entry is zero.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from itertools import combinations

import jax.numpy as jnp
from jaxtyping import Array, Float

Derivative = tuple[int, ...]
Jet = dict[Derivative, Float[Array, "..."]]


def closure(wanted: Sequence[Derivative]) -> tuple[Derivative, ...]:
    """Every derivative that the chain rule needs on the way to `wanted`, lowest order first."""
    found = {part for word in wanted for size in range(len(word) + 1) for part in combinations(word, size)}
    return tuple(sorted(found, key=lambda word: (len(word), word)))


def seed(points: Float[Array, "n dim"]) -> Jet:
    """The jet of the coordinates themselves."""
    identity = jnp.eye(points.shape[1], dtype=points.dtype)
    return {(): points, **{(i,): identity[i] for i in range(points.shape[1])}}


def linear(jet: Jet, weight: Float[Array, "fan_in fan_out"], bias: Float[Array, " fan_out"]) -> Jet:
    """The jet of z W + b: every entry passes through W, only the value meets b.

    One product per entry: stacking them into a single larger one measures slower, because the copies cost more than the
    larger product gains.
    """
    mapped = {word: entry @ weight for word, entry in jet.items()}
    if () in mapped:
        mapped[()] = mapped[()] + bias
    return mapped


def tanh(jet: Jet, wanted: Sequence[Derivative]) -> Jet:
    """The jet of tanh(z) by the formula of Faa di Bruno,

    D_w tanh(z) = sum over set partitions P of w of tanh^(|P|)(z) * product over blocks p of P of D_p z.
    """
    h = jnp.tanh(jet[()])
    slope = 1.0 - h * h
    result: Jet = {(): h}
    for word in wanted:
        terms = []
        for partition in _partitions(word):
            if partition and all(block in jet for block in partition):
                term = slope * _polynomial(h, _tanh_polynomial(len(partition)))
                for block in partition:
                    term = term * jet[block]
                terms.append(term)
        if terms:
            result[word] = sum(terms[1:], terms[0])
    return result


def _partitions(word: Derivative) -> Iterator[tuple[Derivative, ...]]:
    """All set partitions of the letters of `word` (equal letters count as different ones, as the formula asks)."""
    if not word:
        yield ()
        return
    head, rest = word[0], word[1:]
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
