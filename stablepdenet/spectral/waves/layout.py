"""Waves of a period, in as many coordinates as there are: between coefficients and the points of a grid."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import accumulate

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Complex, Float
from numpy import ndarray

from stablepdenet.operators import Derivative
from stablepdenet.problems import Problem


@dataclass(frozen=True)
class Waved:
    """One term of an equation: its component, its derivative in space, and that in time, with the values of all the
    component's functions of time at theta."""

    component: int
    inner: Derivative
    order: int
    times: Float[ndarray, "q size"]


@dataclass(frozen=True, eq=False)
class Layout:
    """Which waves there are, and what the equations ask of them: for each region the terms by name.

    `free` are the functions of time that are solved for, of each component; `counts` the waves of each coordinate, as
    1, cosines and sines; `shape` the grid's points along each, `spans` the periods; `time` is the column of time.
    """

    problem: Problem
    terms: tuple[dict[str, Waved], ...]
    free: tuple[tuple[int, int], ...]
    times: int
    counts: tuple[int, ...]
    shape: tuple[int, ...]
    spans: tuple[float, ...]
    time: int

    @property
    def starts(self) -> list[int]:
        """Where each component's unknowns begin, and where all end."""
        size = math.prod(self.counts)
        return [0, *accumulate((last - first) * size for first, last in self.free)]

    @property
    def axes(self) -> tuple[int, ...]:
        """Those of space, the last ones."""
        return tuple(range(-len(self.counts), 0))

    @property
    def kept(self) -> tuple[int, ...]:
        """How many complex waves there are along each axis: of both signs, of the last axis those from 0 on."""
        return (*self.counts[:-1], self.counts[-1] // 2 + 1)

    def symbol(self, inner: Derivative) -> Complex[ndarray, ...]:
        """What a derivative multiplies each complex wave by."""
        found = np.ones((), complex)
        for axis, (count, span) in enumerate(zip(self.counts, self.spans, strict=True)):
            numbers = np.arange(count // 2 + 1)
            both = numbers if axis == len(self.counts) - 1 else np.concatenate([numbers, -numbers[:0:-1]])
            own = (2j * np.pi * both / span) ** inner.count(axis)
            found = found[..., None] * own
        return found

    def to_waves(self, real: Float[Array, "rows k"]) -> Complex[Array, "rows ..."]:
        """From coefficients of 1, cosines and sines about the middle to those of exp(i w (x - low))."""
        found = real.reshape(len(real), *self.counts)
        last = len(self.counts) - 1
        for axis in range(last, -1, -1):
            each = jnp.moveaxis(found, 1 + axis, -1)
            turn = (-1.0) ** np.arange(1, self.counts[axis] // 2 + 1) / np.sqrt(2.0)
            nothing, cosines, sines = each[..., :1], each[..., 1::2], each[..., 2::2]
            parts = [nothing, (cosines - 1j * sines) * turn]
            if axis < last:
                parts.append(((cosines + 1j * sines) * turn)[..., ::-1])
            found = jnp.moveaxis(jnp.concatenate(parts, axis=-1), -1, 1 + axis)
        return found

    def from_waves(self, waves: Complex[Array, "rows ..."]) -> Float[Array, "rows k"]:
        """The other way."""
        found, last = waves, len(self.counts) - 1
        for axis in range(last + 1):
            each, half = jnp.moveaxis(found, 1 + axis, -1), self.counts[axis] // 2
            turn = (-1.0) ** np.arange(1, half + 1) / np.sqrt(2.0)
            above = each[..., 1 : half + 1]
            below = each[..., :half:-1] if axis < last else jnp.conj(above)
            cosines, sines = (above + below) * turn, 1j * (above - below) * turn
            pairs = jnp.stack([cosines, sines], axis=-1).reshape(*each.shape[:-1], 2 * half)
            found = jnp.moveaxis(jnp.concatenate([each[..., :1], pairs], axis=-1), -1, 1 + axis)
        return jnp.real(found).reshape(len(waves), -1)

    def on_grid(self, waves: Complex[Array, "rows ..."]) -> Float[Array, "rows points"]:
        """The values at the grid's points."""
        found, last = waves, len(self.counts) - 1
        for axis, (count, points) in enumerate(zip(self.counts, self.shape, strict=True)):
            each, half = jnp.moveaxis(found, 1 + axis, -1), count // 2
            parts = [each[..., : half + 1]]
            room = (points // 2 + 1 if axis == last else points) - each.shape[-1]
            parts.append(jnp.zeros((*each.shape[:-1], room), each.dtype))
            if axis < last:
                parts.append(each[..., half + 1 :])
            found = jnp.moveaxis(jnp.concatenate(parts, axis=-1), -1, 1 + axis)
        values = jnp.fft.irfftn(found, self.shape, axes=self.axes) * math.prod(self.shape)
        return values.reshape(len(waves), -1)

    def off_grid(self, values: Float[Array, "rows points"]) -> Complex[Array, "rows ..."]:
        """The parts that values at the grid's points have in the waves."""
        found = jnp.fft.rfftn(values.reshape(len(values), *self.shape), axes=self.axes) / math.prod(self.shape)
        for axis, count in enumerate(self.counts):
            half = count // 2
            each = jnp.moveaxis(found, 1 + axis, -1)
            parts = [each[..., : half + 1]]
            if axis < len(self.counts) - 1:
                parts.append(each[..., each.shape[-1] - half :])
            found = jnp.moveaxis(jnp.concatenate(parts, axis=-1), -1, 1 + axis)
        return found
