"""PDEs that `robust` was not tuned for, each posed as a new user would, with a solver of its own as reference.

A reference takes the input as `robust` does, joined by straight lines between sensors: Fourier functions and an
implicit solver on 512 points (256 for higher orders and systems), characteristics for pure advection, finite
differences elsewhere; in two dimensions, these extrapolated from two grids.
"""

import jax.numpy as jnp
import numpy as np
from scipy.integrate import solve_ivp
from scipy.interpolate import RegularGridInterpolator
from scipy.sparse import diags_array, eye_array, kron
from scipy.sparse.linalg import spsolve

import stablepdenet as sp
from stablepdenet import points

GRID, SENSORS = points.uniform(101), points.uniform(100)
UNIT = [(0.0, 1.0), (0.0, 1.0)]
SMOOTH = sp.GaussianField(0.2)
RTOL = 1e-7
ACCURATE = {"method": "LSODA", "rtol": 1e-8, "atol": 1e-10}


def evolution(
    name, equations, slope, *, start=None, solution=("u",), length=1.0, end=1.0, modes=512, field=None, by="LSODA"
):
    """A periodic initial value problem, and its solution by `slope(*components, derivative)`. Without a `start`, blocks
    and values of its own, the first component begins as the input and the others as 0."""
    box = [(0.0, length), (0.0, end)]
    x, times = points.uniform(101, box[0]), points.uniform(101, box[1])
    inside, ends = points.hammersley(1000, box), points.periodic(points.uniform(40, box[1]), box[0])
    zero = {"v": lambda v: v}
    begins, values = start or ({"u": lambda u, a: u - a} | {each: zero[each] for each in solution[1:]}, lambda row: row)
    problem = sp.Problem(
        name=name,
        domain=sp.Box(x=box[0], t=box[1]),
        solution=solution,
        inputs=sp.Inputs(a=sp.SensorInput(field or sp.PeriodicGaussianField(), x)),
        blocks=(
            *(sp.Block(f"pde-{i}" if i else "pde", inside, each) for i, each in enumerate(equations)),
            *(sp.Block(f"period-{each}", ends, PERIOD[each]) for each in solution),
            *(sp.Block(f"start-{each}", points.initial(x), residual) for each, residual in begins.items()),
        ),
        attack=sp.PGD(sp.LinfBall(0.05), sp.PeriodicEndpoints()),
        axes=(x, times),
    )
    waves = 2j * np.pi * np.arange(modes // 2 + 1) / length
    weights = np.where(np.arange(len(waves)) % (len(waves) - 1) == 0, 1.0, 2.0) / modes
    # From all that evolves to the solution: a second order in time has a velocity too.
    shown = len(solution)

    def derivative(u, order):
        return np.fft.irfft(waves**order * np.fft.rfft(u), modes)

    def solve(row):
        dense = values(np.interp(length * np.arange(32 * modes) / (32 * modes), x, row))
        first = np.fft.irfft(np.fft.rfft(dense)[: modes // 2 + 1] / 32, modes)
        parts = slope.__code__.co_argcount - 1
        state = np.concatenate([first, np.zeros((parts - 1) * modes)])

        def right(t, state):
            return np.concatenate(slope(*np.split(state, parts), derivative))

        found = solve_ivp(right, (0, end), state, t_eval=times, method=by, rtol=RTOL, atol=RTOL / 100).y
        fields = [np.exp(x[:, None] * waves) * weights @ np.fft.rfft(each, axis=0) for each in np.split(found, parts)]
        # As many waves as these do not follow what is rough at the start, where it is known.
        fields[0][:, 0] = values(row)
        return np.stack([each.real.ravel() for each in fields[:shown]], axis=-1).reshape(-1, *[shown] * (shown > 1))

    return problem, solve


PERIOD = {"u": sp.periodic_residual, "v": lambda v, v_x: sp.periodic_residual(v, v_x)}


def allen_cahn():
    return evolution(
        "Allen-Cahn",
        [lambda u, u_t, u_xx: u_t - 0.001 * u_xx - 5.0 * (u - u**3)],
        lambda u, d: [0.001 * d(u, 2) + 5.0 * (u - u**3)],
    )


def kuramoto_sivashinsky():
    return evolution(
        "Kuramoto-Sivashinsky",
        [lambda u, u_t, u_x, u_xx, u_xxxx: u_t + u * u_x + u_xx + u_xxxx],
        lambda u, d: [-u * d(u, 1) - d(u, 2) - d(u, 4)],
        length=22.0,
        end=10.0,
        modes=256,
        field=sp.PeriodicGaussianField(sigma=0.2, tau=0.5, period=22.0),
    )


def cahn_hilliard():
    """u_t = (u^3 - u - 0.002 u_xx)_xx / 50."""
    return evolution(
        "Cahn-Hilliard",
        [lambda u, u_t, u_x, u_xx, u_xxxx: 50 * u_t - (3 * u**2 - 1) * u_xx - 6 * u * u_x**2 + 0.002 * u_xxxx],
        lambda u, d: [(d(u**3 - u, 2) - 0.002 * d(u, 4)) / 50],
        modes=256,
    )


def sine_gordon():
    """u_tt = u_xx / 4 - 5 sin u, from rest."""
    return evolution(
        "sine-Gordon",
        [lambda u, u_tt, u_xx: u_tt - u_xx / 4 + 5 * jnp.sin(u)],
        lambda u, w, d: [w, d(u, 2) / 4 - 5 * np.sin(u)],
        start=({"u": lambda u, a: u - a, "velocity": lambda u_t: u_t}, lambda row: row),
        field=sp.PeriodicGaussianField(sigma=2500.0),
        modes=256,
        by="DOP853",
    )


def schroedinger():
    """i psi_t + psi_xx / 50 + 4 |psi|^2 psi = 0 for psi = u + i v."""
    return evolution(
        "nonlinear Schroedinger",
        [
            lambda u, v, u_t, v_xx: u_t + v_xx / 50 + 4 * (u**2 + v**2) * v,
            lambda u, v, v_t, u_xx: v_t - u_xx / 50 - 4 * (u**2 + v**2) * u,
        ],
        lambda u, v, d: [-d(v, 2) / 50 - 4 * (u**2 + v**2) * v, d(u, 2) / 50 + 4 * (u**2 + v**2) * u],
        solution=("u", "v"),
        modes=256,
    )


def fisher():
    """u_t = u_xx / 200 + 4 u (1 - u) from u = a^2."""
    return evolution(
        "Fisher from a squared input",
        [lambda u, u_t, u_xx: u_t - u_xx / 200 - 4 * u * (1 - u)],
        lambda u, d: [d(u, 2) / 200 + 4 * u * (1 - u)],
        start=({"u": lambda u, a: u - a**2}, lambda row: row**2),
        modes=256,
    )


def advection():
    problem, _ = evolution("advection", [lambda u_t, u_x: u_t + u_x], lambda u, d: [-d(u, 1)])
    x, t = problem.grid.T
    return problem, lambda row: np.interp((x - t) % 1.0, problem.axes[0], row)


def variable_advection():
    """u_t + c(x) u_x = 0 with the velocity as input; where the conditions meet, the solution has a kink."""
    problem = sp.Problem(
        name="advection with a variable velocity",
        domain=sp.Box(x=(0, 1), t=(0, 1)),
        inputs=sp.Inputs(c=sp.SensorInput(sp.LogNormal(sp.GaussianField(0.2, 0.3)), SENSORS)),
        blocks=(
            sp.Block("pde", points.hammersley(1000, UNIT), lambda u_t, u_x, c: u_t + c * u_x),
            sp.Block("bc", points.grid(np.zeros(1), points.uniform(40)), lambda u, t: u - jnp.sin(jnp.pi * t / 2)),
            sp.Block("ic", points.initial(SENSORS), lambda u, x: u - jnp.sin(jnp.pi * x)),
        ),
        axes=(GRID, GRID),
    )
    x, dense = problem.grid, np.linspace(0, 1, 20_001)

    def solution(row):
        slowness = 1.0 / np.interp(dense, SENSORS, row)
        arrival = np.concatenate([[0.0], np.cumsum(0.5 * (slowness[1:] + slowness[:-1]) * np.diff(dense))])
        since = np.interp(x[:, 0], dense, arrival) - x[:, 1]
        inside = np.sin(np.pi * np.interp(since, arrival, dense))
        return np.where(since >= 0, inside, np.sin(-np.pi * since / 2))

    return problem, solution


def second_difference(cells):
    """u_xx on the inner points of [0, 1], zero at both ends."""
    shape = (cells - 1, cells - 1)
    return (cells**2 * diags_array([1.0, -2.0, 1.0], offsets=[-1, 0, 1], shape=shape)).tocsr()


def diffusion_reaction():
    """u_t = 0.01 u_xx + 0.01 u^2 + f(x), zero at the start and on both sides."""
    cells = 400
    problem = sp.Problem(
        name="diffusion-reaction",
        domain=sp.Box(x=(0, 1), t=(0, 1)),
        inputs=sp.Inputs(f=sp.SensorInput(SMOOTH, SENSORS)),
        blocks=(
            sp.Block(
                "pde",
                points.hammersley(1000, UNIT),
                lambda u, u_t, u_xx, f: u_t - 0.01 * u_xx - 0.01 * u**2 - f,
            ),
            sp.Block("bc", points.boundary(times=points.uniform(40)), lambda u: u),
            sp.Block("ic", points.initial(SENSORS), lambda u: u),
        ),
        axes=(GRID, GRID),
    )
    second, inner = second_difference(cells), np.linspace(0, 1, cells + 1)[1:-1]

    def solution(row):
        source = np.interp(inner, SENSORS, row)

        def right(t, u):
            return 0.01 * (second @ u) + 0.01 * u**2 + source

        found = solve_ivp(right, (0, 1), np.zeros(cells - 1), t_eval=GRID, lband=1, uband=1, **ACCURATE)
        return np.pad(found.y, ((1, 1), (0, 0)))[::4].ravel()

    return problem, solution


def inflow():
    """u_t + u_x = 0.02 u_xx with u(0, t) = g(t) as input, u_x(1, t) = 0, at rest at first."""
    cells = 800
    problem = sp.Problem(
        name="inflow",
        domain=sp.Box(x=(0, 1), t=(0, 1)),
        inputs=sp.Inputs(g=sp.SensorInput(SMOOTH, SENSORS, of="t")),
        blocks=(
            sp.Block("pde", points.hammersley(1000, UNIT), lambda u_t, u_x, u_xx: u_t + u_x - 0.02 * u_xx),
            sp.Block("left", points.grid(np.zeros(1), GRID), lambda u, g, t: u - jnp.sin(3 * t) * (1 + g)),
            sp.Block("right", points.grid(np.ones(1), GRID), lambda u_x: u_x),
            sp.Block("ic", points.initial(GRID), lambda u: u),
        ),
        axes=(GRID, GRID),
    )

    def solution(row):
        def side(t):
            return np.sin(3 * t) * (1 + np.interp(t, SENSORS, row))

        def right(t, u):
            # The last point has the slope 0: what is beyond it equals what is before it.
            wide = np.concatenate([[side(t)], u, u[-2:-1]])
            return 0.02 * cells**2 * np.diff(wide, 2) - 0.5 * cells * (wide[2:] - wide[:-2])

        found = solve_ivp(right, (0, 1), np.zeros(cells), t_eval=GRID, lband=1, uband=1, **ACCURATE).y
        return np.concatenate([side(GRID)[None], found])[:: cells // 100].ravel()

    return problem, solution


def fitzhugh_nagumo():
    """u_t = u_xx / 100 + 5 (u - u^3 - v), v_t = u - v / 2, walls, from u = a and v = 0."""
    cells, slow = 800, 5.0
    ends = points.boundary(times=points.uniform(40))
    problem = sp.Problem(
        name="FitzHugh-Nagumo",
        domain=sp.Box(x=(0, 1), t=(0, 1)),
        solution=("u", "v"),
        inputs=sp.Inputs(a=sp.SensorInput(sp.GaussianField(0.3), points.uniform(50))),
        blocks=(
            sp.Block(
                "u", points.hammersley(1000, UNIT), lambda u, v, u_t, u_xx: u_t - u_xx / 100 - slow * (u - u**3 - v)
            ),
            sp.Block("v", points.hammersley(1000, UNIT), lambda u, v, v_t: v_t - u + v / 2),
            sp.Block("walls", ends, lambda u_x: u_x),
            sp.Block("ic-u", points.initial(GRID), lambda u, a: u - a),
            sp.Block("ic-v", points.initial(GRID), lambda v: v),
        ),
        axes=(GRID, GRID),
    )
    x = np.linspace(0, 1, cells + 1)

    def solution(row):
        def right(t, state):
            u, v = state.reshape(-1, 2).T
            second = cells**2 * np.diff(np.concatenate([u[1:2], u, u[-2:-1]]), 2)
            return np.stack([second / 100 + slow * (u - u**3 - v), u - v / 2], axis=1).ravel()

        begin = np.stack([np.interp(x, points.uniform(50), row), np.zeros_like(x)], axis=1).ravel()
        found = solve_ivp(right, (0, 1), begin, t_eval=GRID, lband=2, uband=2, **ACCURATE).y
        return np.moveaxis(found.reshape(cells + 1, 2, -1)[:: cells // 100], 1, -1).reshape(-1, 2)

    return problem, solution


def cubic():
    """-u_xx + 5 u^3 = 50 f(x), zero at both ends."""
    cells = 4000
    problem = sp.Problem(
        name="a cubic two-point problem",
        domain=sp.Box(x=(0, 1)),
        inputs=sp.Inputs(f=sp.SensorInput(SMOOTH, SENSORS)),
        blocks=(
            sp.Block("pde", points.hammersley(400), lambda u, u_xx, f: -u_xx + 5 * u**3 - 50 * f),
            sp.Block("bc", points.boundary(), lambda u: u),
        ),
        axes=(GRID,),
    )
    second, inner = second_difference(cells), np.linspace(0, 1, cells + 1)[1:-1]

    def solution(row):
        source, u = 50 * np.interp(inner, SENSORS, row), np.zeros(cells - 1)
        for _ in range(30):
            slope = -second + diags_array(15 * u**2)
            u = u - spsolve(slope.tocsc(), -second @ u + 5 * u**3 - source)
        return np.pad(u, 1)[:: cells // 100]

    return problem, solution


def square(name, inputs, pde, solved):
    """A problem on the unit square that is zero on its sides, and its solution from `solved(row, cells)`."""
    side = points.uniform(21)
    edges = np.concatenate([points.grid(np.array([0.0, 1.0]), side), points.grid(side, np.array([0.0, 1.0]))])
    axis = points.uniform(33)
    problem = sp.Problem(
        name=name,
        domain=sp.Box(x=(0, 1), y=(0, 1)),
        inputs=inputs,
        blocks=(sp.Block("pde", points.hammersley(1000, UNIT), pde), sp.Block("bc", edges, lambda u: u)),
        axes=(axis, axis),
    )

    def solution(row):
        coarse, fine = (np.pad(solved(row, cells), 1)[:: cells // 32, :: cells // 32] for cells in (128, 256))
        return ((4 * fine - coarse) / 3).ravel()

    return problem, solution


COARSE = points.uniform(12)


def field_of(row, cells, offset=(0.0, 0.0)):
    """A function by its 12 x 12 sensors at the inner points of a grid, or beside them."""
    inner = np.arange(1, cells) / cells
    where = np.stack(np.meshgrid(inner + offset[0] / cells, inner + offset[1] / cells, indexing="ij"), axis=-1)
    return RegularGridInterpolator((COARSE, COARSE), row.reshape(12, 12))(where)


def poisson_boltzmann():
    """-Lap u + sinh u = 50 f(x, y)."""

    def solved(row, cells):
        second, same = second_difference(cells), eye_array(cells - 1)
        laplace = (kron(second, same) + kron(same, second)).tocsr()
        source, u = 50 * field_of(row, cells).ravel(), np.zeros((cells - 1) ** 2)
        for _ in range(12):
            slope = -laplace + diags_array(np.cosh(u))
            change = spsolve(slope.tocsc(), -laplace @ u + np.sinh(u) - source)
            u = u - change
            if np.max(np.abs(change)) < 1e-10:
                break
        return u.reshape(cells - 1, cells - 1)

    inputs = sp.Inputs(f=sp.SensorInput(sp.GaussianField(0.3), (COARSE, COARSE), of="xy"))
    return square("Poisson-Boltzmann", inputs, lambda u, u_xx, u_yy, f: -u_xx - u_yy + jnp.sinh(u) - 50 * f, solved)


def darcy():
    """-div(k grad u) = 1 with a log-normal k."""

    def solved(row, cells):
        m = cells - 1
        west, east, south, north = (
            cells**2 * field_of(row, cells, offset) for offset in ((-0.5, 0), (0.5, 0), (0, -0.5), (0, 0.5))
        )
        middle = (west + east + south + north).ravel()
        north[:, -1] = south[:, 0] = 0.0
        bands = [-west.ravel()[m:], -south.ravel()[1:], middle, -north.ravel()[:-1], -east.ravel()[:-m]]
        matrix = diags_array(bands, offsets=[-m, -1, 0, 1, m], shape=(m * m, m * m))
        return spsolve(matrix.tocsc(), np.ones(m * m)).reshape(m, m)

    inputs = sp.Inputs(k=sp.SensorInput(sp.LogNormal(sp.GaussianField(0.3, 0.5)), (COARSE, COARSE), of="xy"))
    return square(
        "Darcy",
        inputs,
        lambda u_x, u_y, u_xx, u_yy, k, k_x, k_y: -k * (u_xx + u_yy) - k_x * u_x - k_y * u_y - 1.0,
        solved,
    )


PDES = (
    allen_cahn,
    kuramoto_sivashinsky,
    advection,
    variable_advection,
    diffusion_reaction,
    cahn_hilliard,
    sine_gordon,
    schroedinger,
    fisher,
    inflow,
    fitzhugh_nagumo,
    cubic,
    poisson_boltzmann,
    darcy,
)
