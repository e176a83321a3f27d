"""Guaranteed bounds: never below the error, close to it, and none where nothing is known."""

from __future__ import annotations

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pde_cases
import pytest
import scipy
from pde_cases import UNIT, sides
from scipy.integrate import quad
from scipy.special import erf

import stablepdenet as sp
from stablepdenet import points
from stablepdenet.auditing.estimates import bounded
from stablepdenet.spectral import Plan, error_bounds, read_setting, spectral_operator
from stablepdenet.spectral.bounds import boxes, enclosed, planes
from stablepdenet.spectral.bounds.cells import BETWEEN, GAUSS, at_places, cells_of
from stablepdenet.spectral.bounds.enclosure import Enclosure
from stablepdenet.spectral.bounds.form import read_form
from stablepdenet.spectral.bounds.lines import elements, error_bound, read_data
from stablepdenet.spectral.bounds.modes import Modes, expand, source_tail, start_tail

SENSORS = points.uniform(17)
FIELD = sp.GaussianField(0.5)
LINE = points.grid(points.uniform(33))
NOISE = np.random.default_rng(0).choice([-1.0, 1.0], (5, len(SENSORS)))


def source(**more):
    return sp.Inputs(f=sp.SensorInput(FIELD, SENSORS), **more)


def line(residual, inputs=None, side=lambda u: u):
    """An equation on (0, 1) with values at both ends."""
    blocks = (sp.Block("pde", points.hammersley(200), residual), sp.Block("bc", points.boundary(), side))
    return sp.Problem(name="line", domain=sp.Box(x=(0, 1)), inputs=inputs or source(), blocks=blocks)


def evolution(residual, inputs=None, side=lambda u: u, periodic="", interval=(0, 1), start=lambda u, f: u - f):
    """An equation on an interval up to t = 1."""
    times = points.uniform(20)
    blocks = [
        sp.Block("pde", points.hammersley(400, [interval, (0, 1)]), residual),
        sp.Block("ic", points.initial(points.uniform(40, interval)), start),
    ]
    if not periodic:
        blocks.append(sp.Block("bc", points.boundary(interval, times), side))
    domain = sp.Box(x=interval, t=(0, 1), periodic=periodic)
    return sp.Problem(name="evolution", domain=domain, inputs=inputs or source(), blocks=tuple(blocks))


def known(problem, a, where, exact):
    """The enclosure of solutions, which has the exact ones in it, and is narrow."""
    found = enclosed(read_setting(problem), np.atleast_2d(np.asarray(a, np.float64)), where)
    exact = np.atleast_2d(exact)
    assert np.all(np.abs(found.center - exact) <= found.radius + 1e-12 * np.max(np.abs(exact)))
    return found


def test_values_at_gauss_points_are_polynomials():
    x = GAUSS**4
    assert np.allclose(at_places(BETWEEN) @ x, BETWEEN**4)
    assert np.allclose(at_places(BETWEEN, 1) @ x, 4 * BETWEEN**3)
    assert np.allclose(at_places(BETWEEN, -1) @ x, (BETWEEN**5 + 1) / 5)


@pytest.mark.parametrize("periodic", [False, True])
def test_coefficients_in_eigenfunctions_are_exact(periodic):
    """Those of a piecewise-linear function, up to high frequencies; and all squares add up."""
    cells = cells_of(np.array([-1.0, 0.5, 2.0]))
    axis = Modes(cells, periodic, 301)
    values = np.abs(cells.nodes - 0.5)
    found = expand([axis], values[None])
    for number in (0, 1, 2, 7, 300):
        own = lambda x, number=number: abs(x - 0.5) * axis.values(np.array([x]))[0, number]  # noqa: E731
        whole = sum(quad(own, low, low + 0.1, epsabs=1e-14)[0] for low in np.linspace(-1, 2, 30, endpoint=False))
        assert np.isclose(found.coefficients[0, number], whole, atol=1e-12)
    square = 2 * 1.5**3 / 3
    assert np.isclose(np.sum(found.coefficients**2) + found.left[0, 0], square, rtol=1e-12)
    inner = (axis.values(cells.nodes).T * cells.weights) @ axis.values(cells.nodes)
    assert np.allclose(inner[:9, :9], np.eye(9), atol=1e-9)


@pytest.mark.parametrize("periods", [(False,), (True,), (False, False), (True, False), (True, True)])
def test_what_is_left_out_is_bounded(periods):
    """The sum of twenty times as many functions, of data that do not vanish on the sides."""
    few, many = (
        [Modes(cells_of(np.array([0.0, 0.3, 1.0])), period, count + period) for period in periods] for count in (8, 160)
    )
    x = few[0].cells.nodes
    values = x if len(periods) == 1 else 1.0 + np.abs(x[:, None] - 0.3) * x
    kept, whole = expand(few, values[None]), expand(many, values[None])
    k, c, at = (np.full((1, 1), 0.3),) * len(periods), np.full((1, 1), 0.2), points.uniform(23)
    mu = boxes.eigenvalues(many, k, c)[0]
    inside = np.zeros(mu.shape, bool)
    inside[tuple(slice(axis.count) for axis in few)] = True
    for shares, bound in (
        (1.0 / mu, source_tail(few, k, c, kept)),
        (np.exp(-0.01 * mu), start_tail(few, k, c, kept.left, 0.01)),
    ):
        rest = whole.coefficients[0] * shares * ~inside
        for axis in many:
            rest = np.tensordot(rest, axis.values(at), (0, 1))
        assert np.max(np.abs(rest)) <= bound[0, 0] <= 50 * np.max(np.abs(rest))


def test_coefficients_are_read_off_the_residual():
    """(k u_x)_x = c u - f, of whatever sign and scale, with k and c as inputs."""
    inputs = source(k=sp.SensorInput(FIELD, SENSORS), c=sp.Scalar(0, 1))
    problem = line(lambda u, u_x, u_xx, k, k_x, c, f, x: 2 * (k * u_xx + k_x * u_x - c * u + f + x), inputs)
    form = read_form(read_setting(problem))
    assert form is not None
    a = np.asarray(inputs.pack(f=np.ones((1, 17)), k=1 + SENSORS[None], c=np.full((1, 1), 0.5)), np.float64)
    x = np.array([[0.2], [0.7]])
    found = form.equation(a, x)
    assert np.allclose(found.k[0], 2 * (1 + x.T)) and np.allclose(found.b[0], -2.0) and found.sound.all()
    assert np.allclose(found.c, 1.0) and np.allclose(found.f, 2 * (1 + x.T))


def test_two_point_problems_of_many_kinds():
    """-(k u_x)_x + c u = f: exact solutions are within radii that are rounding or nearly so."""
    x = LINE[:, 0]
    inputs = source(k=sp.SensorInput(FIELD, SENSORS))
    given = {"k": 1 + SENSORS, "f": NOISE[0]}
    a = np.concatenate([given[name] for name in inputs])
    # -(1 + x) u_x = F - C, by quadrature between sensors.
    darcy = line(lambda u_x, u_xx, k, k_x, f: -k * u_xx - k_x * u_x - f, inputs)
    dense = np.linspace(0, 1, 16 * 40 + 1)
    middle = 0.5 * (dense[1:] + dense[:-1])
    flux = np.concatenate([[0], np.cumsum(np.interp(middle, SENSORS, NOISE[0]) / 640)])
    fluxes, shares = flux / (1 + dense), 1 / (1 + dense)
    through = [np.concatenate([[0], np.cumsum((g[1:] + g[:-1]) / 1280)]) for g in (fluxes, shares)]
    exact = through[1] * through[0][-1] / through[1][-1] - through[0]
    found = enclosed(read_setting(darcy), a[None], LINE)
    assert np.all(np.abs(found.center - np.interp(x, dense, exact)) <= 1e-6) and np.max(found.radius) < 1e-6
    # Values at the ends, a zeroth-order term, a coefficient that is no polynomial.
    smooth = line(
        lambda u, u_x, u_xx, f, x: -jnp.exp(x) * (u_xx + u_x) + u - f - jnp.exp(x) * (1 - 2 * jnp.exp(x)),
        side=lambda u, x: u - jnp.exp(x),
    )
    found = known(smooth, np.zeros(17), LINE, np.exp(x))
    assert np.max(found.radius) < 1e-6


def test_the_error_of_elements_is_bounded_whatever_they_are():
    """Wrong functions have wide bounds: w + x (1 - x) is wrong by 1/4 at most."""
    problem = line(lambda u, u_xx, f: -u_xx + 3 * u - f)
    form = read_form(read_setting(problem))
    assert form is not None
    cells = cells_of(SENSORS)
    data = read_data(form, cells, NOISE)
    w = elements(cells, data, np.zeros((5, 2)))
    assert np.all(error_bound(cells, data, w) < 1e-6)
    edges = cells.edges * (1 - cells.edges)
    wrong = np.zeros(w.shape)
    wrong[:, :, 0], wrong[:, :, 1] = edges[:-1], edges[1:]
    wide = error_bound(cells, data, w + wrong)
    assert np.all((wide >= 0.25) & (wide < 0.5))


@pytest.mark.parametrize("side", ["sides", "period"])
def test_evolution_of_noise(side):
    """u_t = 0.02 u_xx - c u + x f + 1 against a sum of many eigenfunctions in closed form, or the heat kernel."""
    inputs = sp.Inputs(f=sp.SensorInput(FIELD, SENSORS), c=sp.Scalar(-1, 1))
    where = points.grid(points.uniform(21), np.array([0.0, 1e-3, 0.1, 1.0]))
    a = np.concatenate([NOISE[0], [-0.5]])
    if side == "sides":
        problem = evolution(lambda u, u_t, u_xx, c: u_t - 0.02 * u_xx + c * u, inputs)
        n = np.arange(1, 4001)
        dense = np.linspace(0, 1, 64_001)
        rough = np.interp(dense, SENSORS, NOISE[0])
        own = np.array([2 * np.trapezoid(rough * np.sin(np.pi * m * dense), dense) for m in n[:400]])
        n = n[: len(own)]
        fading = np.exp((0.5 - 0.02 * (np.pi * n) ** 2) * where[:, 1:])
        exact = np.sum(own * fading * np.sin(np.pi * n * where[:, :1]), axis=1)
    else:
        a[16] = a[0]
        problem = evolution(lambda u, u_t, u_xx, c: u_t - 0.02 * u_xx + c * u, inputs, periodic="x")
        # Ramps on the line, evolved by the heat kernel.
        line = np.concatenate([SENSORS[:-1] + k for k in range(-4, 5)])
        values = np.tile(a[:16], 9)
        slopes = np.diff(values) / np.diff(line)
        kinks, s = np.diff(slopes), np.sqrt(2 * 0.02 * np.maximum(where[:, 1:], 1e-300))
        d = where[:, :1] - line[1:-1]
        cdf = 0.5 * (1 + erf(d / s / np.sqrt(2)))
        ramps = d * cdf + s * np.exp(-0.5 * (d / s) ** 2) / np.sqrt(2 * np.pi)
        exact = values[0] + slopes[0] * (where[:, 0] - line[0]) + ramps @ kinks
        exact = exact * np.exp(0.5 * where[:, 1])
    late = where[:, 1] > 0
    found = enclosed(read_setting(problem), a[None], where)
    assert np.all(np.abs(found.center - exact)[:, late] <= 1e-6) and np.max(found.radius) < 1e-6
    assert np.allclose(found.center[0, ~late], np.interp(where[~late, 0], SENSORS, a[:17]))


def test_a_source_gathers():
    """u_t = 0.1 u_xx + 1 + x from 3 x: u = 3 x + t (1 + x) with such sides has no bound, as they move; with sides that
    stay, the steady state (x + 1/2 x^2) ... is reached; on a period, the mean grows."""
    where = points.grid(points.uniform(11, (0, 2)), np.array([0.0, 0.5, 1.0]))
    moving = evolution(
        lambda u_t, u_xx, x: u_t - 0.1 * u_xx - 1 - x, side=lambda u, x, t: u - 3 * x - t * (1 + x), interval=(0, 2)
    )
    assert np.all(np.isinf(error_bounds(read_setting(moving), np.ones((1, 33)), np.ones((1, 17)), where)))
    still = evolution(
        lambda u, u_t, u_xx, f, x: u_t - 0.1 * u_xx + 2 * u - 2 * (1 + 3 * x),
        side=lambda u, x: u - 1 - 3 * x,
        start=lambda u, x, f: u - 1 - 3 * x,
        interval=(0, 2),
    )
    known(still, np.zeros(17), where, 1 + 3 * where[:, 0])
    periodic = evolution(
        lambda u_t, u_xx: u_t - 0.1 * u_xx - 2.0,
        periodic="x",
        start=lambda u, f, x: u - jnp.cos(np.pi * x),
        interval=(0, 2),
    )
    exact = 2 * where[:, 1] + np.exp(-0.1 * np.pi**2 * where[:, 1]) * np.cos(np.pi * where[:, 0])
    assert np.max(known(periodic, np.zeros(17), where, exact).radius) < 1e-5


def test_two_coordinates():
    """-Lap u + c u = f with noise, beside a sum of many more functions; and sides that are linear."""
    axis = points.uniform(5)
    inputs = sp.Inputs(f=sp.SensorInput(FIELD, (axis, axis), of="xy"))
    blocks = (
        sp.Block("pde", points.hammersley(300, UNIT), lambda u, u_xx, u_yy, f: -u_xx - 2 * u_yy + 3 * u - f),
        sp.Block("bc", sides(*UNIT), lambda u, x, y: u - x * y),
    )
    problem = sp.Problem(name="plate", domain=sp.Box(x=(0, 1), y=(0, 1)), inputs=inputs, blocks=blocks)
    where = points.hammersley(40, UNIT)
    a = np.stack([np.random.default_rng(0).choice([-1.0, 1.0], 25), 3 * np.outer(axis, axis).ravel()])
    found = enclosed(read_setting(problem), a, where)
    assert np.all(np.abs(found.center[1] - where[:, 0] * where[:, 1]) <= found.radius[1] + 1e-12)
    # The rough one, in four times as many functions.
    many = [Modes(cells_of(axis), False, 1024) for _ in range(2)]
    x = many[0].cells.nodes
    own = np.stack([np.interp(x, axis, row) for row in np.eye(5)], axis=1)
    rough = own @ a[0].reshape(5, 5) @ own.T - 3 * np.outer(x, x)
    mu = np.pi**2 * (np.arange(1, 1025)[:, None] ** 2 + 2 * np.arange(1, 1025) ** 2) + 3
    coefficients = many[0].transform @ rough @ many[1].transform.T / mu
    exact = np.einsum("pm,mn,pn->p", many[0].values(where[:, 0]), coefficients, many[1].values(where[:, 1]))
    error = np.abs(found.center[0] - exact - where[:, 0] * where[:, 1])
    assert np.all(error <= found.radius[0]) and np.max(found.radius[0]) < 1e-3 * np.max(np.abs(exact))
    # Sides that are not linear count by how far they are from it.
    bent = replace(problem, blocks=(blocks[0], replace(blocks[1], residual=lambda u, x, y: u - x * y * (1 + 0.01 * x))))
    wide = enclosed(read_setting(bent), a, where).radius
    assert np.all((wide > 0.002) & (wide < 0.02))


def darcy(residual):
    """An equation on the unit square with k as input, and u = 1 + x y on its sides."""
    axis = points.uniform(5)
    blocks = (sp.Block("pde", points.hammersley(300, UNIT), residual), sp.Block("bc", sides(*UNIT), bilinear))
    inputs = sp.Inputs(k=sp.SensorInput(sp.LogNormal(FIELD), (axis, axis), of="xy"))
    return sp.Problem(name="darcy", domain=sp.Box(x=(0, 1), y=(0, 1)), inputs=inputs, blocks=blocks), axis


def bilinear(u, x, y):
    """u = 1 + x y."""
    return u - 1 - x * y


def test_coefficients_that_vary_in_two_coordinates():
    """-div(k grad u) + 2 u = f with k = 1 + x + y + x y and u = 1 + x y + sin(pi x) sin(pi y)."""

    def residual(u, u_x, u_y, u_xx, u_yy, k, k_x, k_y, x, y):
        wave = jnp.sin(np.pi * x) * jnp.sin(np.pi * y)
        exact_x = np.pi * jnp.cos(np.pi * x) * jnp.sin(np.pi * y) + y
        exact_y = np.pi * jnp.sin(np.pi * x) * jnp.cos(np.pi * y) + x
        f = 2 * np.pi**2 * (1 + x) * (1 + y) * wave + 2 * (1 + x * y + wave) - (1 + y) * exact_x - (1 + x) * exact_y
        return -k * (u_xx + u_yy) - k_x * u_x - k_y * u_y + 2 * u - f

    problem, axis = darcy(residual)
    setting, where = read_setting(problem), points.hammersley(100, UNIT)
    x, y = where.T
    a = np.outer(1 + axis, 1 + axis).ravel()
    exact = 1 + x * y + np.sin(np.pi * x) * np.sin(np.pi * y)
    assert np.max(known(problem, a, where, exact).radius) < 1e-5
    # One that is not positive has none.
    assert np.all(np.isinf(enclosed(setting, (a - 2.0)[None], where).radius))
    # Wrong splines have wide bounds.
    form = read_form(setting)
    assert form is not None
    axes = planes.splines_of(form)
    data = planes.read_data(form, axes, a[None])
    here, there = ({name: each[0] for name, each in own.items()} for own in (data.at_places, data.at_nodes))
    w = planes.solve(axes, here, np.array([[1.0, 1.0], [1.0, 2.0]]))
    bubble = axes[0].places * (1 - axes[0].places)
    w[:-2, :-2] += np.outer(bubble, bubble)
    assert 1 / 16 <= planes.error_bound(axes, there, w, np.zeros(5), 1.0) < 1.0


def test_a_coefficient_of_noise():
    """k = exp(0.5 signs): the bound holds for another solver, and a wind of its own is refused."""
    problem, _ = darcy(lambda u_x, u_y, u_xx, u_yy, k, k_x, k_y: -k * (u_xx + u_yy) - k_x * u_x - k_y * u_y - 1)
    a = np.exp(0.5 * np.random.default_rng(0).choice([-1.0, 1.0], (1, 25)))
    at = points.uniform(9)[1:-1]
    where = points.grid(at, at)
    found = enclosed(read_setting(problem), a, where)
    errors = []
    for cells in (32, 64):
        edges, h = points.uniform(cells + 1), 1.0 / cells
        middle = 0.5 * (edges[1:] + edges[:-1])
        k_x, k_y = (problem.inputs["k"].matrix(points.grid(*own)) @ a[0] for own in ((middle, edges), (edges, middle)))
        k_x, k_y = k_x.reshape(cells, cells + 1)[:, 1:-1], k_y.reshape(cells + 1, cells)[1:-1]
        m = cells - 1
        number = np.arange(m * m).reshape(m, m)
        matrix = scipy.sparse.lil_array((m * m, m * m))
        matrix.setdiag((k_x[1:] + k_x[:-1] + k_y[:, 1:] + k_y[:, :-1]).ravel())
        for one, other, k in ((number[:-1], number[1:], k_x[1:-1]), (number[:, :-1], number[:, 1:], k_y[:, 1:-1])):
            matrix[one.ravel(), other.ravel()] = matrix[other.ravel(), one.ravel()] = -k.ravel()
        side = np.pad(np.zeros((m, m)), 1, constant_values=1.0) * (1 + np.multiply.outer(edges, edges))
        load = np.full((m, m), h**2)
        load[0] += k_x[0] * side[0, 1:-1]
        load[-1] += k_x[-1] * side[-1, 1:-1]
        load[:, 0] += k_y[:, 0] * side[1:-1, 0]
        load[:, -1] += k_y[:, -1] * side[1:-1, -1]
        u = scipy.sparse.linalg.spsolve(matrix.tocsc(), load.ravel()).reshape(m, m)
        every = cells // 8
        errors.append(u[every - 1 :: every, every - 1 :: every].ravel())
    coarse, fine = errors
    better = fine + (fine - coarse) / 3
    assert np.max(found.radius) < 4e-3 and np.max(np.abs(better - found.center)) < 5e-4
    # A jump between cells is not in any residual.
    jump, _ = darcy(lambda u_xx, u_yy, k, x: -(k + (x > 0.5)) * (u_xx + u_yy) - 1)
    assert np.all(np.isinf(enclosed(read_setting(jump), np.ones((1, 25)), where).radius))
    windy, _ = darcy(lambda u_x, u_y, u_xx, u_yy, k: -k * (u_xx + u_yy) - 60 * u_x - 1)
    assert np.all(np.isinf(enclosed(read_setting(windy), a, where).radius))


NONE = {
    "not coercive": line(lambda u, u_xx, f: -u_xx - 121 * u - f),
    "not linear": line(lambda u, u_xx, f: -u_xx + u**3 - f),
    "hardly linear": line(lambda u, u_xx, f: -u_xx + 1e-6 * jnp.sin(u) - f),
    "of first order": line(lambda u_x, u, f: u_x + u - f),
    "of fourth order": line(lambda u_xxxx, u_xx, f: u_xxxx - u_xx - f),
    "no derivative at a side": line(lambda u_xx, f: -u_xx - f, side=lambda u, u_x: u + u_x),
    "two equations in one": line(lambda u, u_xx, f: jnp.stack([-u_xx - f, u - u_xx], axis=-1)),
    "a wind": line(lambda u_x, u_xx, f: -u_xx + 50 * u_x - f),
    "reaction": evolution(lambda u, u_t, u_xx: u_t - u_xx + u**2),
    "advection": evolution(lambda u_t, u_x, u_xx: u_t + u_x - u_xx),
    "variable": evolution(lambda u_t, u_xx, x: u_t - (1 + x) * u_xx),
    "backwards": evolution(lambda u_t, u_xx: u_t + u_xx),
    "moving source": evolution(lambda u_t, u_xx, t: u_t - u_xx - t),
    **{name: pde_cases.CASES[name]().problem for name in ("flux", "wave", "wave_system", "neumann_robin", "steady_3d")},
}


@pytest.mark.parametrize("name", NONE)
def test_no_bound_where_nothing_is_known(name):
    problem = NONE[name]
    where = points.hammersley(5, problem.domain.intervals)
    a = problem.sample(2, key=jax.random.key(0))
    u = np.ones((2, 5, len(problem.solution)) if len(problem.solution) > 1 else (2, 5))
    assert np.all(np.isinf(error_bounds(read_setting(problem), u, a, where)))


def test_inputs_for_which_a_problem_is_not_posed_have_no_bound():
    """A coefficient that is negative somewhere, or no number; the others keep theirs."""
    case = pde_cases.coefficient()
    a = np.repeat(np.asarray(case.a, np.float64), 3, axis=0)
    a[1, 5], a[2, 30] = -0.1, np.nan
    exact = np.asarray(case.solution(LINE[:, 0]))[None]
    bound = error_bounds(read_setting(case.problem), np.repeat(1.01 * exact, 3, axis=0), a, LINE)
    assert np.isclose(bound[0], 0.01, rtol=1e-3) and np.all(np.isinf(bound[1:]))


def test_a_bound_of_a_ratio():
    found = Enclosure(np.array([[3.0, 4.0]] * 3), np.array([[0.0, 0.0], [0.3, 0.4], [3.0, 4.0]]))
    u = np.array([[3.0, 4.5]] * 3)
    assert np.allclose(found.bound(u), [0.1, 1.0 / 4.5, np.inf], rtol=1e-9)
    assert Enclosure(np.zeros((1, 2)), np.zeros((1, 2))).bound(np.zeros((1, 2))) == 0.0


def test_bounds_of_operators():
    """Of the spectral operator's own answers, and of anybody's that it judges; gradients are what they were."""
    problem = line(lambda u, u_xx, f: -u_xx + u - f)
    setting = read_setting(problem)
    judge = spectral_operator(Plan(setting, (9,), (9,), (0.0, 1.0), 3))
    a = jnp.concatenate([problem.sample(3, key=jax.random.key(0)), jnp.asarray(NOISE, jnp.float32)])
    exact = enclosed(setting, np.asarray(a, np.float64), LINE).center
    own, u = judge.bound(a, LINE), np.asarray(judge(a, LINE), np.float64)
    true = np.linalg.norm(u - exact, axis=1) / np.linalg.norm(exact, axis=1)
    assert np.all((own >= true) & (own <= 1.1 * true)) and np.max(own) < 0.2
    wrong = sp.JudgedOperator(sp.FunctionOperator(lambda a, points: 1.1 * judge(a, points)), judge)
    assert np.allclose(wrong.bound(a, LINE)[:3], 0.1, atol=1e-3)
    assert np.all(np.isfinite(jax.grad(lambda a: jnp.sum(wrong(a, LINE)))(a)))


def test_numbers_of_an_audit():
    found = bounded(np.array([2.0, 3.0, 0.5, np.inf]), np.ones(4))
    assert found == {"bound_median": 2.0, "bound_violations": 0.25, "bound_unknown": 0.25}
    assert bounded(np.full(2, np.inf), np.ones(2)) == {}
