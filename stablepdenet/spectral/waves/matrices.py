"""A plan's equations wave by wave: the grid, and the waves' matrices."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import accumulate
from operator import itemgetter

import jax
import jax.numpy as jnp
import numpy as np
import scipy.fft
from jaxtyping import Complex, Float
from numpy import ndarray

from stablepdenet.spectral.equations import Moment, known_in
from stablepdenet.spectral.functions import radau
from stablepdenet.spectral.plan import POINTS, Plan
from stablepdenet.spectral.regions import evaluate
from stablepdenet.spectral.rows import Rows, Where
from stablepdenet.spectral.waves.equations import Waves
from stablepdenet.spectral.waves.layout import Layout, Waved

# What the first step is given.
Given = tuple[Float[ndarray, "_ k"], ...]

# Inputs whose mean says where the equations' slopes are taken.
DRAWN = 64
# Of the largest singular value of a wave's matrix: what no equation fixes stays where it is.
RANK = 1e-11
# Slopes that differ by less are the same.
SAME = 1e-9

# Of each region and term: times x points x equations.
Slopes = list[dict[str, Float[ndarray, "q n equations"]]]


def waves_at_start(plan: Plan) -> Waves:
    """The conditions at the beginning."""
    free = tuple((0, clock.order) for clock in plan.clocks)
    return _waves(plan, True, np.zeros(1), free, None)


def waves_of_step(plan: Plan, given: Given) -> Waves:
    """The equations of a time step; their slopes are taken where the first step begins."""
    free = tuple((clock.order, clock.size) for clock in plan.clocks)
    return _waves(plan, False, radau(plan.stages), free, given)


def mean_input(plan: Plan) -> Float[ndarray, " m"]:
    """The mean of some inputs."""
    drawn = plan.setting.problem.inputs.sample(DRAWN, key=jax.random.key(0))
    return np.asarray(drawn, np.float64).mean(axis=0)


def _waves(
    plan: Plan,
    initial: bool,
    theta: Float[ndarray, " q"],
    free: tuple[tuple[int, int], ...],
    given: Given | None,
) -> Waves:
    setting, counts = plan.setting, plan.counts
    problem, columns = setting.problem, setting.columns
    regions = [region for region in setting.regions if setting.initial(region) == initial]
    shape = tuple(scipy.fft.next_fast_len(int(POINTS * count) + 3, real=True) for count in counts)
    intervals = [problem.domain.intervals[i] for i in columns]
    where, weights = plan.space.nodes(intervals, shape)
    points = np.zeros((len(theta), len(where), problem.domain.dimension))
    points[:, :, columns] = where
    thetas, at = np.repeat(theta, len(where)), Where(points.reshape(-1, problem.domain.dimension))
    rows = tuple(Rows({}, np.sqrt(np.tile(weights, len(theta))), thetas, region, at) for region in regions)
    terms = []
    for region in regions:
        own = {}
        for name, (component, index) in region.terms.solution.items():
            order = index.count(setting.time)
            inner = tuple(columns.index(column) for column in index if column != setting.time)
            own[name] = Waved(component, inner, order, plan.clocks[component].values(theta, order))
        terms.append(own)
    spans = tuple(high - low for low, high in intervals)
    assert setting.time is not None
    layout = Layout(problem, tuple(terms), free, len(theta), counts, shape, spans, setting.time)
    moments = plan.moments(rows)
    _, first, kinds = np.unique(plan.lengths.round(12), return_index=True, return_inverse=True)
    linear = all(region.block.name in setting.linear for region in regions)
    some = sorted({*first.tolist(), len(plan.lengths) - 1})
    found = {
        number: _slopes(layout, rows, given, jax.tree.map(itemgetter(number), moments), mean_input(plan))
        for number in some
    }
    inverses = np.stack([_inverses(layout, found[number], plan.lengths[number]) for number in first.tolist()])
    return Waves(rows, (inverses.real, inverses.imag), kinds, _same(found.values()) if linear else None, layout)


def _slopes(
    layout: Layout, rows: Sequence[Rows], given: Given | None, moment: Moment, a: Float[ndarray, " m"]
) -> Slopes:
    """How the equations of each region change with each of their terms: at all times and points."""
    found = []
    for number, (row, terms) in enumerate(zip(rows, layout.terms, strict=True)):
        with jax.enable_x64(True):
            known = known_in(row, moment, moment.matrices[number], a, problem=layout.problem, time=layout.time)
            fields = {name: jnp.asarray(_field(layout, term, given)) for name, term in terms.items()}

            def slope(name: str, row: Rows = row, known: dict = known, fields: dict = fields) -> np.ndarray:
                along = {other: jnp.full_like(each, float(other == name)) for other, each in fields.items()}
                found = jax.jvp(lambda fields: evaluate(row.region, fields, known), (fields,), (along,))[1]
                return np.asarray(found).reshape(layout.times, math.prod(layout.shape), -1)

            found.append({name: slope(name) for name in terms})
    return found


def _same(found: Iterable[Slopes]) -> tuple[dict[str, Float[ndarray, " equations"]], ...] | None:
    """The slopes, if they are the same at all moments, times and points."""
    first, *others = found
    kept = []
    for number, own in enumerate(first):
        kept.append({name: each[0, 0] for name, each in own.items()})
        for slopes in (own, *(other[number] for other in others)):
            if not all(np.allclose(each, kept[-1][name], rtol=SAME, atol=SAME) for name, each in slopes.items()):
                return None
    return tuple(kept)


def _inverses(layout: Layout, slopes: Slopes, length: float) -> Complex[ndarray, "waves unknowns rows"]:
    """M^-1 of each wave for steps of a length; equations and unknowns are scaled to be of one size."""
    starts = [0, *accumulate(end - begin for begin, end in layout.free)]
    blocks = []
    for own, terms in zip(slopes, layout.terms, strict=True):
        equations = next(iter(own.values())).shape[-1]
        block = np.zeros((math.prod(layout.kept), layout.times, equations, starts[-1]), complex)
        for name, term in terms.items():
            begin, end = layout.free[term.component]
            times = term.times[:, begin:end] / length**term.order
            each = np.einsum("qe,qs,m->mqes", own[name].mean(axis=1), times, layout.symbol(term.inner).ravel())
            block[..., starts[term.component] : starts[term.component + 1]] += each
        blocks.append(block)
    whole = np.concatenate(blocks, axis=2)
    whole = whole.reshape(len(whole), -1, whole.shape[-1])
    left = 1.0 / np.maximum(np.abs(whole).max(axis=2, keepdims=True), 1e-300)
    whole = whole * left
    right = 1.0 / np.maximum(np.abs(whole).max(axis=1, keepdims=True), 1e-300)
    return np.swapaxes(right, 1, 2) * np.linalg.pinv(whole * right, rcond=RANK) * np.swapaxes(left, 1, 2)


def _field(layout: Layout, term: Waved, given: Given | None) -> Float[ndarray, "1 n"]:
    """A term where the first step begins, at rest; zero without a beginning."""
    points = math.prod(layout.shape)
    if given is None or term.order:
        return np.zeros((1, layout.times * points))
    with jax.enable_x64(True):
        waves = layout.to_waves(jnp.asarray(given[term.component][:1])) * layout.symbol(term.inner)
        return np.tile(np.asarray(layout.on_grid(waves)), (1, layout.times))
