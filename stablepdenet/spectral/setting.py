"""How a problem is posed: where its equations hold, which coordinate is time, which are periodic. Read, not told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from stablepdenet.errors import ConfigError
from stablepdenet.problems import Problem
from stablepdenet.solving import is_linear_block
from stablepdenet.spectral.regions import Region, at_lower_end, channels, failure, movable, periodic_columns, regions


@dataclass(frozen=True, eq=False)
class Setting:
    """A problem's equations by where they hold. `linear` names the blocks that are so in the solution and the inputs
    together; `orders` are the highest derivatives in time of each component."""

    problem: Problem
    regions: tuple[Region, ...]
    time: int | None
    periodic: tuple[bool, ...]
    orders: tuple[int, ...]
    linear: frozenset[str]

    @property
    def columns(self) -> list[int]:
        """The coordinates of space."""
        return [i for i in range(self.problem.domain.dimension) if i != self.time]

    @property
    def all_linear(self) -> bool:
        """Whether every equation is linear in the solution and the inputs together."""
        return {region.block.name for region in self.regions} <= self.linear

    @cached_property
    def waved(self) -> bool:
        """Whether it evolves in time, all of space is periodic and every equation holds in all of it, as many as there
        are unknowns: then it can be solved wave by wave."""
        columns, domain = self.columns, self.problem.domain
        if self.time is None or not columns or not all(self.periodic[i] for i in columns):
            return False
        whole = all(
            region.own is None
            and region.pair is None
            and all(region.intervals[i] == domain.intervals[i] for i in columns)
            and (self.initial(region) or region.inside)
            for region in self.regions
        )
        asked = [[each for each in self.regions if self.initial(each) == first] for first in (True, False)]
        return whole and [sum(map(channels, own)) for own in asked] == [sum(self.orders), len(self.orders)]

    def initial(self, region: Region) -> bool:
        """Whether it is the beginning of time."""
        return self.time is not None and at_lower_end(region, self.time, self.problem.domain)


def read_setting(problem: Problem) -> Setting:
    """Reads the blocks of a problem."""
    found = regions(problem)
    fixed = next((region for region in found if not movable(region)), None)
    if fixed is not None:
        reason = failure(fixed)
        if reason:
            raise ConfigError(f"The residual of block '{fixed.block.name}' fails: {reason}")
        raise ConfigError(
            f"The residual of block '{fixed.block.name}' cannot be evaluated at other points than its own: let it ask "
            "for coordinates and inputs by name, and return one row for each point."
        )
    periodic = periodic_columns(problem, found)
    kept = tuple(each for each in found if each.pair is None or not periodic[each.pair])
    time = _time(problem, kept, periodic)
    orders = [0] * len(problem.solution) if time is None else _orders(problem, kept, time)
    linear = frozenset(bound.block.name for bound in problem.bound if is_linear_block(bound))
    return Setting(problem, kept, time, periodic, tuple(orders), linear)


def _time(problem: Problem, found: Sequence[Region], periodic: Sequence[bool]) -> int | None:
    """The coordinate along which the solution evolves: conditions at its lower end, none at its upper one, and a PDE
    with derivatives in it. The one called t, where there are several, else the last."""
    domain = problem.domain
    candidates: list[int | None] = []
    for column in range(domain.dimension):
        low = any(at_lower_end(region, column, domain) for region in found)
        high = any(region.fixed(column) and not at_lower_end(region, column, domain) for region in found)
        related = periodic[column] or any(region.pair == column for region in found)
        if low and not high and not related and max(_orders(problem, found, column)):
            candidates.append(column)
    named = [column for column in candidates if column is not None and domain.coordinates[column] == "t"]
    return (named or candidates or [None])[-1]


def _orders(problem: Problem, found: Sequence[Region], time: int) -> list[int]:
    """The highest derivative in time of each component in the PDE."""
    orders = [0] * len(problem.solution)
    for region in found:
        if region.inside:
            for component, index in region.terms.solution.values():
                orders[component] = max(orders[component], index.count(time))
    return orders
