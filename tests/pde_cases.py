"""Problems of a user's own: several dimensions, inputs and components, each with an exact solution of one input."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

import stablepdenet as sp
from stablepdenet import points


class Case(NamedTuple):
    """A problem, an input of it by name, and its exact solution as a function of the coordinates."""

    problem: sp.Problem
    inputs: dict[str, np.ndarray]
    solution: Callable[..., Any]

    @property
    def a(self):
        """The input as one array of one row."""
        return self.problem.inputs.pack(**{name: np.asarray(values)[None] for name, values in self.inputs.items()})

    def exact(self):
        """The exact solution as an operator, whatever the input."""

        def function(a, where):
            found = self.solution(*where.T)
            stacked = jnp.stack(found, axis=-1) if isinstance(found, tuple) else found
            return jnp.broadcast_to(stacked, (len(a), *stacked.shape))

        return sp.FunctionOperator(function)


X = points.uniform(17)
FIELD = sp.GaussianField(length_scale=0.5)
UNIT = [(0, 1), (0, 1)]


def sides(*boxes, num=40):
    """Points on all sides of a box: one coordinate at an end, the others spread."""
    found = []
    for column in range(len(boxes)):
        others = [box for i, box in enumerate(boxes) if i != column]
        spread = points.hammersley(num, others)
        for end in boxes[column]:
            found.append(np.insert(spread, column, end, axis=1))
    return np.concatenate(found)


def poisson_2d():
    """-Lap u = f with a field of 16 x 16 sensors; u = sin pi x sin pi y for f = 0 and a known source."""
    axis = points.uniform(16)
    known = 2 * np.pi**2
    problem = sp.Problem(
        name="poisson-2d",
        domain=sp.Box(x=(0, 1), y=(0, 1)),
        inputs=sp.Inputs(f=sp.SensorInput(FIELD, (axis, axis), of="xy")),
        blocks=(
            sp.Block(
                "pde",
                points.hammersley(1000, UNIT),
                lambda u_xx, u_yy, f, x, y: -u_xx - u_yy - f - known * np.sin(np.pi * x) * np.sin(np.pi * y) + x * y,
            ),
            sp.Block("bc", sides(*UNIT), lambda u: u, weight=100.0),
        ),
    )
    bilinear = np.outer(axis, axis)
    return Case(problem, {"f": bilinear}, lambda x, y: jnp.sin(jnp.pi * x) * jnp.sin(jnp.pi * y))


def coefficient():
    """-(k u_x)_x = f with two inputs: k = 1 + x, f = 1 + 4 x, u = x (1 - x)."""
    problem = sp.Problem(
        name="coefficient",
        domain=sp.Box(x=(0, 1)),
        inputs=sp.Inputs(k=sp.SensorInput(sp.LogNormal(sp.GaussianField(0.5, 0.1)), X), f=sp.SensorInput(FIELD, X)),
        blocks=(
            sp.Block("pde", points.hammersley(200), lambda u_x, u_xx, k, k_x, f: -k * u_xx - k_x * u_x - f),
            sp.Block("bc", points.boundary(), lambda u: u, weight=10.0),
        ),
    )
    return Case(problem, {"k": 1 + X, "f": 1 + 4 * X}, lambda x: x * (1 - x))


def flux():
    """The same as a first-order system: q = k u_x, -q_x = f."""
    problem = sp.Problem(
        name="flux",
        domain=sp.Box(x=(0, 1)),
        solution=("u", "q"),
        inputs=coefficient().problem.inputs,
        blocks=(
            sp.Block("flux", points.hammersley(200), lambda q, u_x, k: q - k * u_x),
            sp.Block("pde", points.hammersley(200), lambda q_x, f: -q_x - f),
            sp.Block("bc", points.boundary(), lambda u: u, weight=10.0),
        ),
    )
    return Case(problem, coefficient().inputs, lambda x: (x * (1 - x), (1 + x) * (1 - 2 * x)))


def heat_three_inputs():
    """u_t - nu u_xx = f with initial value, source and diffusivity as inputs; linear data give u = a + t f."""
    problem = sp.Problem(
        name="heat-three-inputs",
        domain=sp.Box(x=(0, 1), t=(0, 1)),
        inputs=sp.Inputs(a=sp.SensorInput(FIELD, X), f=sp.SensorInput(FIELD, X), nu=sp.Scalar(0.01, 0.1)),
        blocks=(
            sp.Block("pde", points.hammersley(400, UNIT), lambda u_t, u_xx, f, nu: u_t - nu * u_xx - f),
            sp.Block("bc", points.boundary(times=points.uniform(20)), lambda u, a, f, t: u - a - t * f),
            sp.Block("ic", points.initial(X), lambda u, a: u - a, weight=10.0),
        ),
    )
    return Case(problem, {"a": 1 + X, "f": 2 - X, "nu": np.array([0.05])}, lambda x, t: 1 + x + t * (2 - x))


def boundary_data():
    """u_t = u_xx with u(0, t) = g(t) as input: u = x^2 / 2 + t for g = t."""
    problem = sp.Problem(
        name="boundary-data",
        domain=sp.Box(x=(0, 1), t=(0, 1)),
        inputs=sp.Inputs(g=sp.SensorInput(FIELD, X, of="t")),
        blocks=(
            sp.Block("pde", points.hammersley(400, UNIT), lambda u_t, u_xx: u_t - u_xx),
            sp.Block("left", points.grid(np.zeros(1), X), lambda u, g: u - g),
            sp.Block("right", points.grid(np.ones(1), X), lambda u, t: u - 0.5 - t),
            sp.Block("ic", points.initial(X), lambda u, x: u - x**2 / 2),
        ),
    )
    return Case(problem, {"g": X}, lambda x, t: x**2 / 2 + t)


MODES = np.array([0.5, -0.3, 0.2])


def standing(x, t):
    """The standing wave of MODES."""
    n = jnp.arange(1, 4)
    return jnp.sqrt(2.0) * jnp.sum(MODES * jnp.sin(jnp.pi * n * x[:, None]) * jnp.cos(jnp.pi * n * t[:, None]), axis=1)


def standing_velocity(x, t):
    """Its velocity."""
    n = jnp.arange(1, 4)
    waves = jnp.sin(jnp.pi * n * x[:, None]) * jnp.sin(jnp.pi * n * t[:, None])
    return -jnp.sqrt(2.0) * jnp.sum(MODES * jnp.pi * n * waves, axis=1)


def wave_system():
    """u_t = v, v_t = u_xx, from an initial displacement in modes."""
    problem = sp.Problem(
        name="wave-system",
        domain=sp.Box(x=(0, 1), t=(0, 1)),
        solution=("u", "v"),
        inputs=sp.Inputs(a=sp.ModalInput(sp.SineSeries(modes=3))),
        blocks=(
            sp.Block(
                "pde", points.hammersley(1200, UNIT), lambda u_t, v, v_t, u_xx: jnp.stack([u_t - v, v_t - u_xx], -1)
            ),
            sp.Block("bc", points.boundary(times=points.uniform(40)), lambda u: u, weight=10.0),
            sp.Block("ic", points.initial(points.uniform(40)), lambda u, v, a: jnp.stack([u - a, v], -1), weight=10.0),
        ),
    )
    return Case(problem, {"a": MODES}, lambda x, t: (standing(x, t), standing_velocity(x, t)))


def wave():
    """u_tt = u_xx with u(x, 0) and u_t(x, 0) given."""
    problem = sp.Problem(
        name="wave",
        domain=sp.Box(x=(0, 1), t=(0, 1)),
        inputs=sp.Inputs(a=sp.ModalInput(sp.SineSeries(modes=3))),
        blocks=(
            sp.Block("pde", points.hammersley(800, UNIT), lambda u_tt, u_xx: u_tt - u_xx),
            sp.Block("bc", points.boundary(times=points.uniform(40)), lambda u: u, weight=10.0),
            sp.Block("ic", points.initial(points.uniform(40)), lambda u, a: u - a, weight=10.0),
            sp.Block("velocity", points.initial(points.uniform(40)), lambda u_t: u_t),
        ),
    )
    return Case(problem, {"a": MODES}, standing)


def pair():
    """A nonlinear pair: u_t = u_xx + u v - t a, v_t = v_xx - u v + 1 + t a, solved by u = a, v = t for a linear."""
    problem = sp.Problem(
        name="pair",
        domain=sp.Box(x=(0, 1), t=(0, 1)),
        solution=("u", "v"),
        inputs=sp.Inputs(a=sp.SensorInput(FIELD, X)),
        blocks=(
            sp.Block("u", points.hammersley(300, UNIT), lambda u, v, u_t, u_xx, a, t: u_t - u_xx - u * v + t * a),
            sp.Block("v", points.hammersley(300, UNIT), lambda u, v, v_t, v_xx, a, t: v_t - v_xx + u * v - 1 - t * a),
            sp.Block("bc", points.boundary(times=points.uniform(20)), lambda u, v, a, t: jnp.stack([u - a, v - t], -1)),
            sp.Block("ic", points.initial(X), lambda u, v, a: jnp.stack([u - a, v], -1), weight=10.0),
        ),
    )
    return Case(problem, {"a": 0.5 + X}, lambda x, t: (0.5 + x, t))


def neumann_robin():
    """-u_xx = f, u_x(0) = 0, u_x(1) + u(1) = 0: f = 1 + x gives u = 13/6 - x^2/2 - x^3/6."""
    problem = sp.Problem(
        name="neumann-robin",
        domain=sp.Box(x=(0, 1)),
        inputs=sp.Inputs(f=sp.SensorInput(FIELD, X)),
        blocks=(
            sp.Block("pde", points.hammersley(200), lambda u_xx, f: -u_xx - f),
            sp.Block("neumann", np.zeros((1, 1)), lambda u_x: u_x),
            sp.Block("robin", np.ones((1, 1)), lambda u, u_x: u_x + u),
        ),
    )
    return Case(problem, {"f": 1 + X}, lambda x: 13 / 6 - x**2 / 2 - x**3 / 6)


def other_domain():
    """u_t = 0.1 u_xx + a on [-1, 1] x [0, 2] with sensors denser on one side; u = t a for a linear."""
    sensors = -1 + 2 * points.uniform(17) ** 2
    box = [(-1, 1), (0, 2)]
    problem = sp.Problem(
        name="other-domain",
        domain=sp.Box(x=(-1, 1), t=(0, 2)),
        inputs=sp.Inputs(a=sp.SensorInput(FIELD, sensors)),
        blocks=(
            sp.Block("pde", points.hammersley(400, box), lambda u_t, u_xx, a: u_t - 0.1 * u_xx - a),
            sp.Block("bc", points.boundary((-1, 1), points.uniform(20, (0, 2))), lambda u, a, t: u - t * a),
            sp.Block("ic", points.initial(points.uniform(20, (-1, 1))), lambda u: u, weight=10.0),
        ),
    )
    return Case(problem, {"a": 2 + sensors}, lambda x, t: t * (2 + x))


def steady_3d():
    """-Lap u = f on the unit cube, u = -x^3 y z / 6 on its sides: exact for f = x y z."""
    axis = points.uniform(5)
    cube = [(0, 1)] * 3
    problem = sp.Problem(
        name="steady-3d",
        domain=sp.Box(x=(0, 1), y=(0, 1), z=(0, 1)),
        inputs=sp.Inputs(f=sp.SensorInput(FIELD, (axis, axis, axis), of="xyz")),
        blocks=(
            sp.Block("pde", points.hammersley(1500, cube), lambda u_xx, u_yy, u_zz, f: -u_xx - u_yy - u_zz - f),
            sp.Block("bc", sides(*cube, num=60), lambda u, x, y, z: u + x**3 * y * z / 6, weight=10.0),
        ),
    )
    return Case(problem, {"f": np.einsum("i,j,k->ijk", axis, axis, axis)}, lambda x, y, z: -(x**3) * y * z / 6)


CASES = {
    each.__name__: each
    for each in (
        poisson_2d,
        coefficient,
        flux,
        heat_three_inputs,
        boundary_data,
        wave_system,
        wave,
        pair,
        neumann_robin,
        other_domain,
        steady_3d,
    )
}
LINEAR = ("poisson_2d", "boundary_data", "wave_system", "wave", "neumann_robin", "other_domain", "steady_3d")
