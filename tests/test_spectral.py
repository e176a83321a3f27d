"""Spectral solutions: exact where solutions are smooth, of the order that theory gives, with true slopes and errors."""

from __future__ import annotations

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pde_cases
import pytest

import stablepdenet as sp
from stablepdenet import points
from stablepdenet.auditing.estimates import effectivity
from stablepdenet.errors import ConfigError
from stablepdenet.spectral import Plan, read_setting, spectral_operator
from stablepdenet.spectral.choose import Left, coarse_of, finer_plans, first_plan, judge_of, with_estimate
from stablepdenet.spectral.functions import Axis, Clock, radau
from stablepdenet.spectral.march import make_march
from stablepdenet.spectral.operator import untabulated
from stablepdenet.spectral.regions import regions
from stablepdenet.spectral.tails import tails_of
from stablepdenet.spectral.wide import join, split


def small(problem, count=None, steps=4):
    """A plan of a few functions."""
    setting = read_setting(problem)
    first = first_plan(setting)
    count = count or {1: 13, 2: 9, 3: 5}[len(setting.columns)]
    counts = (count,) * len(setting.columns)
    low, high = (0.0, 1.0) if setting.time is None else problem.domain.intervals[setting.time]
    edges = np.linspace(low, high, steps + 1) if setting.time is not None else np.array([0.0, 1.0])
    return replace(first, counts=counts, rough_counts=counts, edges=tuple(edges.tolist()))


def relative(u, exact):
    return float(np.linalg.norm(np.asarray(u) - np.asarray(exact)) / np.linalg.norm(np.asarray(exact)))


# Waves need many time steps; two are enough to try the others.
STEPS = {"wave": 48, "wave_system": 48}


FAST = ("flux", "neumann_robin", "wave_system")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in FAST else pytest.mark.long) for name in sorted(pde_cases.CASES)]
)
def test_smooth_solutions_are_found(name):
    case = pde_cases.CASES[name]()
    where = points.hammersley(50, case.problem.domain.intervals)
    plan = small(case.problem, steps=STEPS.get(name, 2))
    u = spectral_operator(plan)(jnp.asarray(case.a, jnp.float32), where)
    assert relative(u, case.exact()(case.a, jnp.asarray(where))) < (1e-4 if "wave" in name else 2e-5)


@pytest.mark.parametrize(
    ("interval", "periodic", "count"), [((0.0, 1.0), False, 9), ((-1.0, 2.0), False, 8), ((-1.0, 3.0), True, 7)]
)
def test_slopes_of_functions(interval, periodic, count):
    axis = Axis(interval, periodic, count)
    x, _ = axis.nodes(40, interval)
    h = 1e-5
    for order in (1, 2):
        slope = (axis.values(x + h, order - 1) - axis.values(x - h, order - 1)) / (2 * h)
        assert np.allclose(axis.values(x, order), slope, rtol=1e-6, atol=1e-5)


@pytest.mark.parametrize("periodic", [False, True])
def test_rough_inputs_are_projected_not_sampled(periodic):
    """Noise at 31 sensors, seen by 11 nodes: no smooth function may be made of it."""
    axis, sensors = Axis((0.0, 2.0), periodic, 5), points.uniform(31, (0.0, 2.0))
    nodes, weights = axis.nodes(11, axis.interval)
    noise = np.random.default_rng(0).choice([-1.0, 1.0], 31)
    noise[-1] = noise[0]
    x, turn = axis.projection(nodes, sensors)
    seen = turn @ np.interp(x, sensors, noise)
    dense = np.linspace(0, 2, 40_001)
    rough = np.interp(dense, sensors, noise)
    for k in range(3):
        at, against = (np.cos(np.pi * k * (x - 1)) if periodic else (x - 1) ** k for x in (nodes, dense))
        assert np.isclose(weights @ (seen * at), np.trapezoid(rough * against, dense) / 2, atol=1e-4)
    smooth = np.sin(np.pi * x)
    assert periodic is False or np.allclose(turn @ smooth, np.sin(np.pi * nodes), atol=1e-10)


def test_projections_keep_what_many_functions_can_follow():
    """Polynomials turn fastest near the ends: a straight line comes out bent there if points are too few."""
    axis, sensors = Axis((0.0, 1.0), False, 303), points.uniform(101)
    nodes, _ = axis.nodes(609, axis.interval)
    x, turn = axis.projection(nodes, sensors)
    assert np.allclose(turn @ (1.0 - 3.0 * x), 1.0 - 3.0 * nodes, atol=1e-10)


@pytest.mark.parametrize("order", [0, 1, 2])
def test_a_step_on_a_part_of_itself(order):
    clock, theta = Clock(order, 3), np.linspace(0, 1, 5)
    turn = clock.restricted(0.5, 0.25)
    assert np.allclose(clock.values(0.5 + 0.25 * theta), clock.values(theta) @ turn.T, atol=1e-12)
    if order == 2:  # the part starts with the velocity that the whole has there
        velocity = clock.values(np.array([0.5]), 1) * 0.25
        assert np.allclose(clock.values(np.zeros(1), 1) @ turn.T, velocity, atol=1e-12)


def oscillated(frequency, start):
    """Position and velocity of u_tt + frequency^2 u = 0 after one step of length one."""
    clock, theta = Clock(2, 3), radau(3)
    rows = clock.values(theta, 2) + frequency**2 * clock.values(theta)
    free = np.linalg.solve(rows[:, 2:], -rows[:, :2] @ start)
    return np.concatenate([clock.values(np.ones(1), order) for order in (0, 1)]) @ np.append(start, free)


@pytest.mark.parametrize("frequency", [0.1, 1.0, 3.0, 10.0, 100.0, 1e4])
def test_waves_that_a_step_does_not_resolve_do_not_grow(frequency):
    """Collocation of a polynomial's own second derivative lets them grow from a frequency of 4 on."""
    scale = np.array([1.0, frequency])
    step = np.stack([oscillated(frequency, start * scale) / scale for start in np.eye(2)], axis=1)
    assert np.max(np.abs(np.linalg.eigvals(step))) <= 1.0 + 1e-12


def test_second_derivatives_converge_by_their_order():
    errors = [np.abs(oscillated(f, np.array([1.0, 0.0]))[0] - np.cos(f)) for f in (0.2, 0.1)]
    # One step of order five: its own error is of order six.
    assert np.log2(errors[0] / errors[1]) > 5.5


@pytest.mark.parametrize(("count", "steps"), [(11, 32), (11, 128), (17, 128)])
def test_short_steps_between_sides_do_not_grow(count, steps):
    """u_t = 0.1 (u_xx + u_yy), zero on all sides, from sin(pi x) sin(pi y): a third of it is left after t = 0.5."""
    sensors, times = points.uniform(3), points.uniform(5, (0, 0.5))
    ends, side = np.array([0.0, 1.0]), points.uniform(5)
    problem = sp.Problem(
        name="plate",
        domain=sp.Box(x=(0, 1), y=(0, 1), t=(0, 0.5)),
        inputs=sp.Inputs(a=sp.SensorInput(sp.GaussianField(1.0), sensors)),
        blocks=(
            sp.Block(
                "pde",
                points.hammersley(200, [(0, 1), (0, 1), (0, 0.5)]),
                lambda u, u_t, u_xx, u_yy: u_t - 0.1 * (u_xx + u_yy),
            ),
            sp.Block("x", points.grid(ends, side, times), lambda u: u),
            sp.Block("y", points.grid(side, ends, times), lambda u: u),
            sp.Block(
                "ic",
                points.grid(side, side, np.zeros(1)),
                lambda u, x, y: u - jnp.sin(jnp.pi * x) * jnp.sin(jnp.pi * y),
            ),
        ),
    )
    plan = Plan(read_setting(problem), (count, count), (count, count), tuple(np.linspace(0, 0.5, steps + 1)), 3)
    where = points.grid(side, side, np.array([0.5]))
    exact = np.exp(-0.1 * np.pi**2) * np.prod(np.sin(np.pi * where[:, :2]), axis=1)
    assert relative(untabulated(plan)(jnp.zeros((1, 3)), where)[0], exact) < 1e-6


def test_growth_without_bound_is_said():
    """u_t = a u^2 from 1 ends at t = 1 / a."""
    x = points.uniform(5)
    problem = sp.Problem(
        name="blow-up",
        domain=sp.Box(x=(0, 1), t=(0, 2)),
        inputs=sp.Inputs(a=sp.SensorInput(sp.GaussianField(1.0), x)),
        blocks=(
            sp.Block("pde", points.hammersley(200, [(0, 1), (0, 2)]), lambda u, u_t, a: u_t - a * u**2),
            sp.Block("ic", points.initial(x), lambda u: u - 1.0),
        ),
    )
    where = points.hammersley(20, [(0, 1), (0, 2)])
    answer = with_estimate(small(problem, 3, 8)).answer(jnp.full((2, 5), 1.0).at[0].set(-1.0), where)
    assert relative(answer.u[0], 1.0 / (1.0 + where[:, 1])) < 1e-4
    assert answer.estimate[0] < 1e-3
    assert np.isinf(answer.estimate[1])


def test_kept_factors_give_what_new_ones_do():
    """Factors of earlier steps serve until iterations arrive at where newly made ones lead."""
    march = make_march(small(logistic(), 17, 8))
    with jax.enable_x64(True):
        march, a = jax.tree.map(jnp.asarray, march), jnp.linspace(1.0, 3.0, 5)
        found = march.answer(a)
        again = march.linearised(a, found.coefficients)
    assert found.arrived
    assert relative(found.coefficients[0], again[0]) < 1e-7


def test_radau_points_integrate_to_their_order():
    for count in (2, 3, 4):
        theta = radau(count)
        weights = np.linalg.solve(np.vander(theta, increasing=True).T, 1.0 / np.arange(1, count + 1))
        assert theta[-1] == 1.0
        assert np.isclose(weights @ theta ** (2 * count - 2), 1.0 / (2 * count - 1))


def test_wide_numbers_keep_48_bits():
    values = np.random.default_rng(0).normal(size=100) * 10.0 ** np.arange(-10, 10).repeat(5)
    with jax.enable_x64(True):
        back = np.asarray(jax.jit(join)(split(values)))
    assert back.dtype == np.float64
    assert np.max(np.abs(back - values) / np.abs(values)) < 2.0**-47


def logistic():
    """u_t = a u (1 - u), u(0) = 1/4: a function of x only by a."""
    x = points.uniform(5)
    return sp.Problem(
        name="logistic",
        domain=sp.Box(x=(0, 1), t=(0, 2)),
        inputs=sp.Inputs(a=sp.SensorInput(sp.GaussianField(1.0), x)),
        blocks=(
            sp.Block("pde", points.hammersley(200, [(0, 1), (0, 2)]), lambda u, u_t, a: u_t - a * u * (1 - u)),
            sp.Block("ic", points.initial(x), lambda u: u - 0.25),
        ),
    )


def exact_logistic(a, t):
    return 1.0 / (1.0 + 3.0 * np.exp(-a * t))


def test_time_steps_converge_by_their_order():
    """Three Radau points: order 5 where steps end."""
    problem, a = logistic(), np.full((1, 5), 2.0)
    where = np.array([[0.3, 2.0]])
    errors = []
    for steps in (2, 4):
        plan = small(problem, 3, steps)
        u = spectral_operator(plan)(jnp.asarray(a), where)
        errors.append(abs(float(u[0, 0]) - exact_logistic(2.0, 2.0)))
    assert errors[1] < 1e-5
    assert np.log2(errors[0] / errors[1]) > 4.0


@pytest.mark.long
def test_slopes_are_those_of_the_solution():
    operator = spectral_operator(small(logistic(), 5, 4))
    rng = np.random.default_rng(0)
    a = jnp.ones((1, 5))
    where = points.grid(points.uniform(4), np.array([1.0, 2.0]))
    weights = rng.normal(size=len(where))
    slope = jax.grad(lambda a: jnp.sum(operator(a, where) * weights))(a)
    # Along a constant the solution is known.
    u = exact_logistic(1.0, where[:, 1])
    assert np.isclose(jnp.sum(slope), np.sum(u * (1 - u) * where[:, 1] * weights), rtol=1e-4)
    direction, h = rng.normal(size=(1, 5)).astype(np.float32), 1e-2
    ahead, behind = (np.asarray(operator(a + sign * h * direction, where), np.float64) for sign in (1, -1))
    assert np.isclose(np.sum(slope * direction), np.sum((ahead - behind) * weights) / (2 * h), rtol=2e-3)
    jacobian = operator.jacobian(a, jnp.asarray(where))
    assert np.allclose(np.einsum("bnm,n->bm", jacobian, weights), slope, atol=1e-4)


def test_points_known_and_traced_give_the_same_answers():
    case = pde_cases.pair()
    operator = spectral_operator(small(case.problem, steps=2))
    a, where = jnp.asarray(case.a, jnp.float32), np.asarray(points.hammersley(30, pde_cases.UNIT), np.float32)
    known = operator(a, where)
    assert np.allclose(known, jax.jit(lambda p: operator(a, p))(jnp.asarray(where)), atol=1e-5)
    grid = points.grid(points.uniform(5), points.uniform(6))
    assert np.allclose(operator(a, grid)[:, 7], operator(a, grid[7:8])[:, 0], atol=1e-6)


@pytest.mark.long
def test_estimates_meet_the_error():
    """Burgers with few functions: its reference says how wrong answers are, the estimate must agree."""
    problem = sp.make_problem("burgers", {"viscosity": 0.02})
    plan = replace(small(problem, 13, 4), rough_counts=(101,))
    operator = with_estimate(plan)
    a = problem.sample(10, key=jax.random.key(4))
    found, reference = operator.answer(a, problem.grid), problem.require_reference()(np.asarray(a, np.float64))
    true = np.linalg.norm(found.u - reference, axis=1) / np.linalg.norm(reference, axis=1)
    assert np.all(found.estimate / true > 0.5)
    assert np.all(found.estimate / true < 3.0)
    # The errors as functions too, not only their size.
    assert np.linalg.norm(found.u + found.errors - reference) < 0.5 * np.linalg.norm(found.u - reference)


def test_effectivity_of_estimates():
    found = effectivity(np.array([1.0, 3.0, np.inf, 8.0]), np.array([2.0, 3.0, 1.0, 4.0]))
    assert found["coverage"] == 0.75
    assert found["estimate_unknown"] == 0.25
    assert found["effectivity_median"] == 1.0
    # Ranks 1, 2, 4, 3 beside 2, 3, 1, 4: 1 - 6 * 12 / 60.
    assert np.isclose(found["estimate_rank"], -0.2)
    # Of the three errors above 1 %, two have an estimate below half of them.
    large = effectivity(np.array([0.1, 0.1, 0.001, 0.0001]), np.array([0.1, 0.3, 0.011, 0.01]))
    assert np.isclose(large["below_half"], 2 / 3)
    assert effectivity(np.array([1e-9]), np.array([1e-3]))["below_half"] == 0.0


@pytest.mark.long
def test_an_audit_measures_estimates():
    case, grid = pde_cases.neumann_robin(), points.uniform(41)
    fine = spectral_operator(small(case.problem, 41))
    problem = replace(
        case.problem,
        axes=(grid,),
        reference=lambda a: np.asarray(fine(jnp.asarray(a, jnp.float32), grid[:, None]), np.float64),
        attack=sp.PGD(sp.LinfBall(0.05)),
    )
    operator = with_estimate(small(case.problem, 5))
    found = sp.audit({"mine": operator}, problem, parts=["errors", "estimates"], tests=5, eps=[0.05])
    for setting, attack in (("clean", "none"), ("0.05", "common"), ("twice", "none")):
        assert found.value("effectivity_p05", method="mine", setting=setting, attack=attack) > 0.5
        assert found.value("effectivity_p95", method="mine", setting=setting, attack=attack) < 3.0
    network = sp.JudgedOperator(spectral_operator(small(case.problem, 3)), operator)
    judged = network.answer(problem.sample(4, key=jax.random.key(0)), problem.grid)
    assert np.all(judged.estimate > 1e-3)


def test_where_equations_hold_is_read_off_their_points():
    box = [(-1.0, 1.0), (0.0, 2.0)]
    grid = points.grid(points.uniform(9, box[0]), points.uniform(9, box[1]))
    problem = sp.Problem(
        name="regions",
        domain=sp.Box(x=box[0], t=box[1]),
        inputs=sp.Inputs(a=sp.SensorInput(sp.GaussianField(), points.uniform(9, box[0]))),
        blocks=(
            sp.Block("pde", grid, lambda u_t, u_xx: u_t - u_xx),
            sp.Block("bc", points.boundary(box[0], points.uniform(9, box[1])), lambda u: u),
            sp.Block("ic", points.initial(points.uniform(9, box[0])), lambda u, a: u - a),
            sp.Block("sensor", np.array([[0.1, 1.0]]), lambda u: u - 1.0),
        ),
    )
    found = {(each.block.name, each.intervals, each.own is None) for each in regions(problem)}
    assert found == {
        ("pde", (box[0], box[1]), True),
        ("bc", ((-1.0, -1.0), box[1]), True),
        ("bc", ((1.0, 1.0), box[1]), True),
        ("ic", (box[0], (0.0, 0.0)), True),
        ("sensor", (box[0], box[1]), False),
    }
    assert read_setting(problem).time == 1


def test_periodic_sides_are_seen():
    setting = read_setting(sp.make_problem("burgers"))
    assert setting.periodic == (True, False)
    assert {region.block.name for region in setting.regions} == {"pde", "ic"}
    assert setting.linear >= {"ic"}
    assert not setting.all_linear


def test_a_residual_with_arrays_of_its_own_is_refused():
    where = points.hammersley(20)
    held = np.sin(where[:, 0])
    problem = sp.Problem(
        name="held",
        domain=sp.Box(x=(0, 1)),
        inputs=sp.Inputs(f=sp.SensorInput(sp.GaussianField(), points.uniform(5))),
        blocks=(sp.Block("pde", where, lambda u_xx, f: -u_xx - f - held),),
    )
    with pytest.raises(ConfigError, match="block 'pde' cannot be evaluated at other points"):
        read_setting(problem)


def test_the_judge_is_finer():
    plan = first_plan(read_setting(sp.make_problem("burgers")))
    judge = judge_of(plan)
    assert isinstance(judge, Plan)
    assert judge.counts > plan.counts
    assert judge.rough_counts > plan.rough_counts
    assert set(plan.edges) <= set(judge.edges)


def test_the_coarse_one_is_as_much_coarser():
    plan = replace(small(sp.make_problem("burgers"), 27), rough_counts=(81,))
    coarse = coarse_of(plan)
    assert (coarse.counts, coarse.rough_counts) == ((19,), (55,))
    assert set(coarse.edges) < set(plan.edges)


def travelling():
    """u_t + u_x = 0 on a period: corners in the initial value travel for ever."""
    x, t = points.uniform(17), points.uniform(9)
    return sp.Problem(
        name="travelling",
        domain=sp.Box(x=(0, 1), t=(0, 1)),
        inputs=sp.Inputs(a=sp.SensorInput(sp.PeriodicGaussianField(), x)),
        blocks=(
            sp.Block("pde", points.hammersley(200, [(0, 1), (0, 1)]), lambda u_t, u_x: u_t + u_x),
            sp.Block("bc", points.periodic(t), sp.periodic_residual),
            sp.Block("ic", points.initial(x), lambda u, a: u - a),
        ),
        axes=(x, points.uniform(17)),
    )


def test_estimates_of_corners_that_finer_functions_do_not_follow_either():
    """Signs at the sensors, joined by lines: the error falls like one over the number of functions."""
    problem = travelling()
    plan = replace(small(problem, 49, steps=32), stages=5)
    a = np.random.default_rng(0).choice([-1.0, 1.0], (6, 17)).astype(np.float32)
    a[:, -1] = a[:, 0]
    x, t = (each.ravel() for each in np.meshgrid(*problem.axes, indexing="ij"))
    exact = np.stack([np.interp((x - t) % 1.0, problem.axes[0], row) for row in a])
    found = with_estimate(plan).answer(jnp.asarray(a), problem.grid)
    error = np.linalg.norm(found.u - exact, axis=1) / np.linalg.norm(exact, axis=1)
    assert np.all(error > 5e-3)
    assert np.all((found.estimate > 0.6 * error) & (found.estimate < 2.0 * error))


@pytest.mark.parametrize("timed", [False, True])
def test_linear_steps_as_one_matrix(timed):
    """u_t = u_xx + a or + a cos t, u = 0 at both ends: with u = sin(pi x) f(t), a = sin(pi x)."""

    def driven(u_t, u_xx, a, t):
        return u_t - u_xx - a * jnp.cos(t)

    def still(u_t, u_xx, a):
        return u_t - u_xx - a

    x = points.uniform(41)
    problem = sp.Problem(
        name="warm",
        domain=sp.Box(x=(0, 1), t=(0, 1)),
        inputs=sp.Inputs(a=sp.SensorInput(sp.GaussianField(), x)),
        blocks=(
            sp.Block(
                "pde",
                points.hammersley(200, [(0, 1), (0, 1)]),
                (lambda u_t, u_xx, a, t: u_t - u_xx - a * jnp.cos(t))
                if timed
                else (lambda u_t, u_xx, a: u_t - u_xx - a),
            ),
            sp.Block("bc", points.boundary(times=points.uniform(9)), lambda u: u),
            sp.Block("ic", points.initial(x), lambda u: u),
        ),
    )
    plan = small(problem, 15, steps=8)
    operator, march = untabulated(plan), make_march(plan)
    assert march.one_matrix
    assert march.alike is not timed
    where, k = points.hammersley(50, [(0, 1), (0, 1)]), np.pi**2
    now = (k * np.cos(where[:, 1]) + np.sin(where[:, 1]) - k * np.exp(-k * where[:, 1])) / (k**2 + 1)
    constant = (1.0 - np.exp(-k * where[:, 1])) / k
    exact = np.sin(np.pi * where[:, 0]) * (now if timed else constant)
    # Lines between 41 sensors are not the sine: (pi / 40)^2 / 12 of it.
    assert relative(operator(jnp.sin(jnp.pi * jnp.asarray(x, jnp.float32))[None], where)[0], exact) < 1e-3


def test_tails_say_what_is_left_out():
    """The more functions, the less is left out; what is left out of the coarser is about the change to the finer."""
    problem = cubic_growth()
    a = problem.sample(4, key=jax.random.key(0))
    plans = [replace(small(problem, count), edges=(0.0, 0.25, 0.5, 0.75, 1.0)) for count in (5, 9, 13)]
    left = [np.max(tails_of(plan, untabulated(plan).solutions(a).coefficients).space) for plan in plans]
    assert left[0] > 10 * left[1] > 100 * left[2]


def cubic_growth():
    x = points.uniform(129)
    return sp.Problem(
        name="growth",
        domain=sp.Box(x=(0, 1), t=(0, 1), periodic="x"),
        inputs=sp.Inputs(a=sp.SensorInput(sp.PeriodicGaussianField(), x)),
        blocks=(
            sp.Block("pde", points.hammersley(99, [(0, 1), (0, 1)]), lambda u, u_t, u_xx: u_t - 0.02 * u_xx - u + u**3),
            sp.Block("ic", points.initial(x), lambda u, a: u - a),
        ),
    )


def test_finer_in_what_is_left_out():
    plan = small(cubic_growth(), 9)
    both, *_ = finer_plans(plan, Left(1.0, 1.0), 1e-3)
    assert (both.counts, len(both.lengths)) == ((19,), 16)
    [space] = finer_plans(plan, Left(2e-3, 1e-4), 1e-3)
    assert (space.counts, space.edges) == ((13,), plan.edges)
    # Met by what is left out and not by the estimate: finer in the larger.
    [time] = finer_plans(plan, Left(1e-4, 2e-4), 1e-3)
    assert (time.counts, len(time.lengths)) == (plan.counts, 8)


def test_a_residual_that_fails_says_why():
    """Half of what `periodic_residual` needs."""
    box = [(0.0, 1.0), (0.0, 1.0)]
    problem = sp.Problem(
        name="half",
        domain=sp.Box(x=box[0], t=box[1]),
        inputs=sp.Inputs(a=sp.Scalar(0.0, 1.0)),
        blocks=(
            sp.Block("pde", points.hammersley(50, box), lambda u_t, u_xx: u_t - u_xx),
            sp.Block("bc", points.periodic(points.uniform(9)), lambda u: sp.periodic_residual(*[u])),
            sp.Block("ic", points.initial(points.uniform(9)), lambda u, a: u - a),
        ),
    )
    with pytest.raises(ConfigError, match=r"residual of block 'bc' fails: TypeError: .*u_x"):
        read_setting(problem)
