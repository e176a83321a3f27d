"""Problems that are periodic in all of space, solved wave by wave: transforms, fixed points, exact solutions."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from test_spectral import relative, small

import stablepdenet as sp
from stablepdenet import points
from stablepdenet.spectral import read_setting, spectral_operator
from stablepdenet.spectral.functions import Axis, Space
from stablepdenet.spectral.march import make_march
from stablepdenet.spectral.operator import untabulated
from stablepdenet.spectral.waves import make_wave_march
from stablepdenet.spectral.waves.layout import Layout
from stablepdenet.spectral.waves.mixing import fixed_point
from stablepdenet.spectral.wide import join

SQUARE = [(0.0, 1.0), (0.0, 2.0), (0.0, 0.5)]


@pytest.mark.parametrize("counts", [(7,), (5, 7), (3, 5, 3)])
def test_transforms_are_sums_of_the_functions(counts):
    """Values, derivatives and projections by Fourier transforms, against the functions themselves."""
    spans = (2.0, 1.0, 3.0)[: len(counts)]
    shape = tuple(2 * count + 4 for count in counts)
    layout = Layout(schroedinger(), (), ((0, 1),), 1, counts, shape, spans, 0)
    space = Space(tuple(Axis((-0.5, span - 0.5), True, count) for span, count in zip(spans, counts, strict=True)))
    where, _ = space.nodes([axis.interval for axis in space.axes], shape)
    real = np.random.default_rng(0).normal(size=(2, space.size))
    with jax.enable_x64(True):
        waves = layout.to_waves(jnp.asarray(real))
        assert waves.shape == (2, *layout.kept)
        for inner in [(), (0,), (len(counts) - 1,), (0, len(counts) - 1)]:
            values = layout.on_grid(waves * layout.symbol(inner))
            assert np.allclose(values, real @ space.values(where, inner).T, rtol=1e-10, atol=1e-9)
        assert np.allclose(layout.off_grid(layout.on_grid(waves)), waves, atol=1e-12)
        assert np.allclose(layout.from_waves(waves), real, atol=1e-12)


def test_fixed_points_are_found_where_plain_iterations_run_away():
    rng = np.random.default_rng(1)
    turn = rng.normal(size=(6, 6))
    with jax.enable_x64(True):
        goal = jnp.asarray(rng.normal(size=6))

        def change(x):
            return jnp.asarray(turn) @ (goal - x) + 0.1 * (goal - x) ** 2

        assert np.max(np.abs(np.linalg.eigvals(np.eye(6) - turn))) > 1.5
        found, moved = fixed_point(change, jnp.zeros(6), size=jnp.linalg.norm, arrived=1e-10, most=60)
        assert moved <= 1e-10
        assert np.allclose(found, goal, atol=1e-8)
        # Nothing is done where nothing is wanted.
        _, moved = fixed_point(change, jnp.zeros(6), size=jnp.linalg.norm, arrived=1e-10, most=60, wanted=False)
        assert moved > 1.0


def square(name, solution, inside, begin, law):
    """A problem on the periodic rectangle, from one function a(x, y) at 6 x 6 sensors."""
    box = sp.Box(x=SQUARE[0], y=SQUARE[1], t=SQUARE[2], periodic="xy")
    axes = tuple(points.uniform(6, interval) for interval in SQUARE[:2])
    where, start = (
        points.hammersley(200, SQUARE),
        points.grid(points.uniform(5), points.uniform(5, SQUARE[1]), np.zeros(1)),
    )
    blocks = [sp.Block(f"pde-{i}", where, each) for i, each in enumerate(inside)]
    blocks += [sp.Block(f"start-{i}", start, each) for i, each in enumerate(begin)]
    inputs = sp.Inputs(a=sp.SensorInput(law, axes, of="xy"))
    return sp.Problem(name=name, domain=box, solution=solution, inputs=inputs, blocks=tuple(blocks))


def vorticity():
    """w_t + p_y w_x - p_x w_y = 0.02 Lap w with -Lap p = w: of one wave number the convection is zero, so that waves of
    the input decay as in the heat equation."""
    return square(
        "vorticity",
        ("w", "p"),
        [
            lambda w_t, w_x, w_y, w_xx, w_yy, p_x, p_y: w_t + p_y * w_x - p_x * w_y - 0.02 * (w_xx + w_yy),
            lambda w, p_xx, p_yy: p_xx + p_yy + w,
        ],
        [lambda w, x, y, a: w - a * jnp.cos(2 * jnp.pi * x) * jnp.sin(jnp.pi * y)],
        sp.GaussianField(1.0),
    )


def plan_of(problem, counts, steps, stages=3):
    low, high = problem.domain.intervals[-1]
    edges = tuple(np.linspace(low, high, steps + 1).tolist())
    return replace(small(problem, steps=steps), counts=counts, rough_counts=counts, edges=edges, stages=stages)


def test_the_vorticity_of_one_wave_decays():
    """Two dimensions, two components, one of which has no equation for its mean."""
    problem = vorticity()
    assert read_setting(problem).waved
    operator = untabulated(plan_of(problem, (5, 7), 8))
    where = points.hammersley(40, SQUARE)
    x, y, t = where.T
    for size in (1.0, -3.0):
        wave = size * np.cos(2 * np.pi * x) * np.sin(np.pi * y) * np.exp(-0.02 * 5 * np.pi**2 * t)
        u = np.asarray(operator(jnp.full((1, 36), size), where))[0]
        assert relative(u[:, 0], wave) < 1e-5
        # The stream function of a mean that nothing fixes: up to a constant.
        off = u[:, 1] - wave / (5 * np.pi**2)
        assert np.ptp(off) < 1e-5


def schroedinger():
    """i psi_t + psi_xx / 50 + 4 |psi|^2 psi = 0: a plane wave of size r turns with 4 r^2 - k^2 / 50."""
    box = [(0.0, 1.0), (0.0, 0.5)]
    inside, start = points.hammersley(100, box), points.initial(points.uniform(11))
    return sp.Problem(
        name="plane waves",
        domain=sp.Box(x=box[0], t=box[1], periodic="x"),
        solution=("u", "v"),
        inputs=sp.Inputs(r=sp.Scalar(0.5, 1.0)),
        blocks=(
            sp.Block("u", inside, lambda u, v, u_t, v_xx: u_t + v_xx / 50 + 4 * (u**2 + v**2) * v),
            sp.Block("v", inside, lambda u, v, v_t, u_xx: v_t - u_xx / 50 - 4 * (u**2 + v**2) * u),
            sp.Block("start-u", start, lambda u, r, x: u - r * jnp.cos(2 * jnp.pi * x)),
            sp.Block("start-v", start, lambda v, r, x: v - r * jnp.sin(2 * jnp.pi * x)),
        ),
    )


def test_plane_waves_turn_and_their_slopes_are_true():
    problem = schroedinger()
    operator = untabulated(plan_of(problem, (7,), 8))
    where = points.hammersley(40, problem.domain.intervals)
    x, t = where.T

    def exact(r):
        phase = 2 * np.pi * x + (4 * r**2 - (2 * np.pi) ** 2 / 50) * t
        return r * jnp.stack([jnp.cos(phase), jnp.sin(phase)], axis=-1)

    r = jnp.array([[0.6], [0.9]])
    assert relative(operator(r, where), jnp.stack([exact(0.6), exact(0.9)])) < 2e-5
    slopes = jax.jacfwd(exact)(0.9)
    assert relative(operator.jacobian(r, where)[1, ..., 0], slopes) < 1e-4
    along = jax.grad(lambda r: jnp.sum(operator(r, where)[1] * slopes))(r)
    assert np.isclose(along[1, 0], np.sum(slopes**2), rtol=1e-4)
    assert along[0, 0] == 0.0


@pytest.mark.parametrize("variable", [False, True])
def test_waves_find_what_least_squares_find(variable):
    """Both ways, of a nonlinear equation with a known source, and with coefficients that vary over the period."""
    box = [(0.0, 1.0), (0.0, 1.0)]

    def pde(u, u_t, u_x, u_xx, x, t, a):
        speed = 1.0 + 0.5 * jnp.sin(2 * jnp.pi * x) if variable else 1.0
        return u_t + speed * u * u_x - 0.05 * u_xx - jnp.cos(t) * a

    problem = sp.Problem(
        name="forced",
        domain=sp.Box(x=box[0], t=box[1], periodic="x"),
        inputs=sp.Inputs(a=sp.ModalInput(sp.SineSeries(2), of="x")),
        blocks=(
            sp.Block("pde", points.hammersley(200, box), pde),
            sp.Block("ic", points.initial(points.uniform(21)), lambda u, x: u - jnp.sin(2 * jnp.pi * x) - 0.5),
        ),
    )
    plan = plan_of(problem, (41,), 8)
    where, a = points.hammersley(60, box), problem.sample(3, key=jax.random.key(0))
    own = untabulated(plan)
    with jax.enable_x64(True):
        dense, waves = (jax.tree.map(jnp.asarray, make(plan)) for make in (make_march, make_wave_march))
        for row in np.asarray(a, np.float64):
            one, other = (march.answer(jnp.asarray(row)) for march in (dense, waves))
            assert one.arrived and other.arrived
            assert relative(other.coefficients[0], one.coefficients[0]) < 1e-4
            # Gradients by transposed equations, against differences of solutions.
            turn = jax.jacfwd(partial(lambda held, a: waves.linearised(a, held)[0], other.coefficients))(
                jnp.asarray(row)
            )
            up, down = (waves.answer(jnp.asarray(row + step * np.eye(2)[0])).coefficients[0] for step in (1e-4, -1e-4))
            assert relative(turn[..., 0], (up - down) / 2e-4) < 1e-5
    assert np.all(np.isfinite(own(a, where)))


def wave_equation(speed):
    box = [(0.0, 1.0), (0.0, 1.0)]
    start = points.initial(points.uniform(21))
    return sp.Problem(
        name="string",
        domain=sp.Box(x=box[0], t=box[1], periodic="x"),
        inputs=sp.Inputs(a=sp.Scalar(0.5, 1.0)),
        blocks=(
            sp.Block("pde", points.hammersley(100, box), speed),
            sp.Block("ic", start, lambda u, a, x: u - a * jnp.cos(2 * jnp.pi * x)),
            sp.Block("velocity", start, lambda u_t: u_t),
        ),
    )


def test_equations_that_are_the_same_everywhere_need_no_grid():
    """u_tt = 4 u_xx, a standing wave. With other slopes at other times or places the grid is needed."""
    problem = wave_equation(lambda u_tt, u_xx: u_tt - 4 * u_xx)
    plan = plan_of(problem, (7,), 16, stages=5)
    march = make_wave_march(plan)
    assert march.step.slopes is not None
    for other in (
        wave_equation(lambda u_tt, u_xx, x: u_tt - (4 + jnp.sin(2 * jnp.pi * x)) * u_xx),
        wave_equation(lambda u_tt, u_xx, t: u_tt - (4 + t) * u_xx),
        wave_equation(lambda u, u_tt, u_xx: u_tt - 4 * u_xx + u**3),
    ):
        assert make_wave_march(plan_of(other, (7,), 4)).step.slopes is None
    operator, where = spectral_operator(plan), points.hammersley(50, problem.domain.intervals)
    x, t = where.T
    exact = 0.7 * np.cos(2 * np.pi * x) * np.cos(4 * np.pi * t)
    assert relative(operator(jnp.full((1, 1), 0.7), where)[0], exact) < 1e-5


def test_which_problems_are_solved_by_waves():
    assert read_setting(sp.make_problem("burgers")).waved
    assert read_setting(schroedinger()).waved
    for name in ("heat", "poisson"):
        assert not read_setting(sp.make_problem(name)).waved
    whole = vorticity()
    # A condition at a point, as one that fixes a mean, is not one of waves.
    pinned = sp.Block("pin", np.array([[0.3, 0.4, 0.2]]), lambda p: p)
    assert not read_setting(replace(whole, blocks=(*whole.blocks, pinned))).waved


def test_a_solution_that_ends_is_not_answered():
    """u_t = u^2 + u_xx / 100 from a constant 4 is infinite at t = 1/4."""
    box = [(0.0, 1.0), (0.0, 1.0)]
    problem = sp.Problem(
        name="blow-up",
        domain=sp.Box(x=box[0], t=box[1], periodic="x"),
        inputs=sp.Inputs(a=sp.Scalar(-1.0, 1.0)),
        blocks=(
            sp.Block("pde", points.hammersley(100, box), lambda u, u_t, u_xx: u_t - u**2 - u_xx / 100),
            sp.Block("ic", points.initial(points.uniform(11)), lambda u, a: u - 4 * a),
        ),
    )
    found = untabulated(plan_of(problem, (5,), 16)).solutions(jnp.array([[1.0], [-1.0]]))
    assert found.arrived.tolist() == [False, True]


def test_float64_programs_are_not_narrowed():
    """The numbers of a march go through programs in two halves."""
    march = untabulated(plan_of(schroedinger(), (7,), 2)).numbers
    with jax.enable_x64(True):
        assert join(march).step.inverses[0].dtype == jnp.float64


def test_a_grid_of_sensors_covers_its_side():
    """Conditions at the sensors' own points hold in all of space, however many sensors there are."""
    for count in (6, 12, 30):
        axis = points.uniform(count)
        problem = sp.Problem(
            name="grid",
            domain=sp.Box(x=(0, 1), y=(0, 1), t=(0, 1), periodic="xy"),
            inputs=sp.Inputs(a=sp.SensorInput(sp.GaussianField(0.3), (axis, axis), of="xy")),
            blocks=(
                sp.Block("pde", points.hammersley(100, [(0, 1)] * 3), lambda u_t, u_xx, u_yy: u_t - u_xx - u_yy),
                sp.Block("ic", points.grid(axis, axis, np.zeros(1)), lambda u, a: u - a),
            ),
        )
        assert read_setting(problem).waved
