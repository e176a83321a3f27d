"""A plan: which functions of space and which time steps a problem is solved in, and the equations in them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from stablepdenet.functions import AbstractInput, SensorInput
from stablepdenet.functions.points import grid
from stablepdenet.operators import Derivative
from stablepdenet.spectral.equations import Equations, Moment
from stablepdenet.spectral.functions import Axis, Clock, Space, radau
from stablepdenet.spectral.regions import Region
from stablepdenet.spectral.rows import Rows, make_rows
from stablepdenet.spectral.setting import Setting
from stablepdenet.spectral.stages import make_stages

# Points for each function of a coordinate.
POINTS = 2.0
# Numbers of a matrix at most, to project an input on a grid.
LARGE = 2**26


@dataclass(frozen=True)
class Plan:
    """Functions of space and time steps: enough to solve a problem for any input.

    `counts` are the functions of each coordinate of space in which the equations are solved. `rough_counts`, as many or
    more, are those that the values at the start have: what the former cannot follow evolves by the linear part of the
    equations, once and for all inputs.
    """

    setting: Setting
    counts: tuple[int, ...]
    rough_counts: tuple[int, ...]
    edges: tuple[float, ...]
    stages: int

    @cached_property
    def space(self) -> Space:
        return self._space(self.rough_counts)

    @property
    def solved_space(self) -> Space:
        """The functions that the equations are solved in."""
        return self._space(self.counts)

    def _space(self, counts: Sequence[int]) -> Space:
        domain, columns = self.setting.problem.domain, self.setting.columns
        return Space(
            tuple(
                Axis(domain.intervals[i], self.setting.periodic[i], count)
                for i, count in zip(columns, counts, strict=True)
            )
        )

    @cached_property
    def places(self) -> Int[ndarray, " k"]:
        """Those of the functions that the equations are solved in."""
        return self.solved_space.within(self.space)

    @property
    def clocks(self) -> tuple[Clock, ...]:
        if self.setting.time is None:
            return tuple(Clock(0, 1) for _ in self.setting.orders)
        return tuple(Clock(order, self.stages) for order in self.setting.orders)

    @property
    def lengths(self) -> Float[ndarray, " steps"]:
        """How long the time steps are."""
        return np.diff(np.asarray(self.edges))

    @property
    def alike(self) -> bool:
        """Whether all time steps have the same equations: of one length, and nothing in them depends on time."""
        setting = self.setting
        names = {name for region in setting.regions for name in region.terms.coordinates}
        inputs = {name for region in setting.regions for name, _ in region.terms.inputs.values()}
        names |= {name for name in inputs for name in setting.problem.inputs[name].of}
        timed = setting.time is not None and setting.problem.domain.coordinates[setting.time] in names
        return self.even and not timed

    @property
    def even(self) -> bool:
        """Whether all time steps have one length."""
        return bool(np.allclose(self.lengths, self.lengths[0], rtol=1e-9))

    def start(self) -> Equations:
        """The conditions at the beginning, in the coefficients that the first step is given."""
        free = tuple((0, clock.order) for clock in self.clocks)
        counts = [int(POINTS * count) + 3 for count in self.rough_counts]
        return self._equations(True, np.zeros(1), free, np.arange(self.space.size), counts)

    def step(self, *, rough: bool = False) -> Equations:
        """One time step's equations, in the functions that they are solved in or in all."""
        free = tuple((clock.order, clock.size) for clock in self.clocks)
        theta = np.zeros(1) if self.setting.time is None else radau(self.stages)
        places, own = (np.arange(self.space.size), self.rough_counts) if rough else (self.places, self.counts)
        return self._equations(False, theta, free, places, [int(POINTS * count) + 3 for count in own])

    def _equations(
        self,
        initial: bool,
        theta: Float[ndarray, " q"],
        free: tuple[tuple[int, int], ...],
        places: Int[ndarray, " k"],
        counts: Sequence[int],
    ) -> Equations:
        problem, time = self.setting.problem, self.setting.time
        found = [region for region in self.setting.regions if self.setting.initial(region) == initial]
        rows = tuple(
            make_rows(problem, region, self.space, self.clocks, free, places, theta, counts, time) for region in found
        )
        linear = all(region.block.name in self.setting.linear for region in found)
        stages = None if initial or time is None else make_stages(self.clocks, theta)
        return Equations(rows, places, problem, free, time, linear, stages)

    def moments(self, rows: Sequence[Rows]) -> Moment:
        """What is known in each of the time steps."""
        problem, time = self.setting.problem, self.setting.time
        starts, lengths = np.asarray(self.edges[:-1]), self.lengths
        found = []
        for region_rows in rows:
            own = {}
            for name, (of, index) in region_rows.region.terms.inputs.items():
                each = problem.inputs[of]
                columns = problem.domain.columns(each.of)
                where = region_rows.where.points
                points = np.array(np.broadcast_to(where, (len(starts), *where.shape)))
                if time in columns:
                    points[:, :, time] = starts[:, None] + lengths[:, None] * np.asarray(region_rows.theta)
                    own[name] = np.stack([each.matrix(where[:, columns], index) for where in points])
                else:
                    same = self._values(each, region_rows.region, points[0][:, columns], columns, index)
                    own[name] = np.broadcast_to(same, (len(starts), *same.shape))
            found.append(own)
        return Moment(starts, lengths, tuple(found))

    def _values(
        self, each: AbstractInput, region: Region, where: Float[ndarray, "n of"], columns: list[int], index: Derivative
    ) -> Float[ndarray, "n m"]:
        """The matrix of an input at a region's points. What is rough between them would be taken for something smooth:
        so on a grid it is projected first onto what the grid can follow."""
        whole = region.own is None and not any(region.fixed(column) for column in columns)
        if not (whole and isinstance(each, SensorInput)):
            return np.asarray(each.matrix(where, index))
        nodes = [np.unique(where[:, i]) for i in range(len(columns))]
        axes = [self.solved_space.axes[self.setting.columns.index(column)] for column in columns]
        parts = [axis.projection(*pair) for axis, *pair in zip(axes, nodes, each.axes, strict=True)]
        if math.prod(len(x) for x, _ in parts) * each.size > LARGE:
            return np.asarray(each.matrix(where, index))
        found = np.asarray(each.matrix(grid(*(x for x, _ in parts)), index))
        found = found.reshape(*(len(x) for x, _ in parts), each.size)
        for number, (_, turn) in enumerate(parts):
            found = np.moveaxis(np.tensordot(turn, found, (1, number)), 0, number)
        which = tuple(np.searchsorted(own, where[:, i]) for i, own in enumerate(nodes))
        return found[which]
