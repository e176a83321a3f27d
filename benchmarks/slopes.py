"""What modes of the Jacobian save a refined answer: the same operator with and without, in turn, on one pinned core:

    python benchmarks/slopes.py --out docs/slopes.json

Burgers is the zoo's recipe robust. Darcy is -div(k grad u) = 1 with a log-normal k at 12 x 12 sensors: 128 polynomials,
from zero, and one step on 64 x 64 points. Answers are on a grid. Errors are relative L2, pooled, on drawn inputs and
under random signs of 0.1 (of k's size); Darcy's against twice as many polynomials.
"""

import argparse
import json
import time
from pathlib import Path

from common import pin, quartiles, save, seconds, stop_in_time

pin()

import jax
import jax.numpy as jnp
import numpy as np

from stablepdenet import (
    Block,
    Box,
    GaussianField,
    Inputs,
    LogNormal,
    Problem,
    SensorInput,
    faster,
    load_model,
    make_problem,
    points,
    refine,
)
from stablepdenet.auditing.inputs import TEST_SEED
from stablepdenet.auditing.metrics import relative_l2
from stablepdenet.operators import BoxFunctions, LinearOperator

MANY, CHECKED, ROUGH = 100, 100, 0.1
SENSORS, SIDE, DEGREES, FINER = 12, 64, (12, 11), (16, 16)


def darcy():
    """The problem; its points are Gauss's."""
    axis, gauss = points.uniform(SENSORS), points.gauss(SIDE)
    inside = points.grid(gauss, gauss)

    def residual(u_x, u_y, u_xx, u_yy, k, k_x, k_y):
        return -k * (u_xx + u_yy) - k_x * u_x - k_y * u_y - 1.0

    law = SensorInput(LogNormal(GaussianField(0.3, 0.5)), (axis, axis), of="xy")
    return Problem("darcy", Box(x=(0, 1), y=(0, 1)), Inputs(k=law), (Block("pde", inside, residual),))


def in_polynomials(problem, degrees, count):
    """One step from zero, in functions that vanish on the sides."""
    products = BoxFunctions(problem.domain, degrees)

    def functions(points):
        return jnp.prod(points * (1 - points), axis=1, keepdims=True) * products(points)[:, :count]

    size = problem.inputs.size
    return refine(LinearOperator(np.zeros((size, count)), np.zeros(count), functions, None, 2), problem)


def timed(ways, a, options):
    """{way: [seconds]} of calls in turn."""
    for way in ways.values():
        seconds(way, a)
    times = {name: [] for name in ways}
    until = time.monotonic() + options.seconds
    while time.monotonic() < until or len(times["modes"]) < 5:
        for name, way in ways.items():
            times[name].append(seconds(way, a))
    return times


def measured(operators, answer, a, rough, truth, options):
    """Times and errors of one problem."""
    ways = {name: answer(operator) for name, operator in operators.items()}
    found = {}
    for count in (1, MANY):
        times = timed(ways, a[:count], options)
        middle = {name: 1e3 * quartiles(each)[0] / count for name, each in times.items()}
        ratio = quartiles([slow / fast for slow, fast in zip(times["exact"], times["modes"], strict=True)])[0]
        found[count] = {f"{name}_ms": value for name, value in middle.items()} | {"times": ratio}
    for case, inputs in (("clean", a), ("rough", rough)):
        reference = truth(inputs)
        found[case] = {name: relative_l2(np.asarray(way(inputs)), reference) for name, way in ways.items()}
    return found


def for_burgers(options):
    problem, operator = make_problem("burgers"), load_model("burgers", "robust")
    a = problem.sample(CHECKED, key=jax.random.key(TEST_SEED))
    signs = ROUGH * jax.random.rademacher(jax.random.key(0), a.shape, a.dtype)
    grid = jnp.asarray(problem.grid)

    def answer(operator):
        table, combine = operator.tabulate(grid), jax.jit(lambda a, table: operator.combine(table, a))
        return lambda a: combine(a, table)

    operators = {"exact": operator, "modes": faster(operator)}
    rough = problem.admissible.snap(a + signs)
    return measured(operators, answer, a, rough, lambda a: problem.reference(np.asarray(a)), options)


def for_darcy(options):
    problem = darcy()
    operator, finer = in_polynomials(problem, DEGREES, 128), in_polynomials(problem, FINER, FINER[0] * FINER[1])
    a = problem.sample(CHECKED, key=jax.random.key(TEST_SEED))
    rough = a * (1 + ROUGH * jax.random.rademacher(jax.random.key(0), a.shape, a.dtype))
    grid = jnp.asarray(points.grid(points.uniform(33), points.uniform(33)))

    def answer(operator):
        basis, combine = operator.basis(grid).T, jax.jit(lambda a, basis: operator.coefficients(a) @ basis)
        return lambda a: combine(a, basis)

    operators = {"exact": operator, "modes": faster(operator)}
    return measured(operators, answer, a, rough, lambda a: np.asarray(answer(finer)(a)), options)


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--out", type=Path, required=True)
    arguments.add_argument("--seconds", type=float, default=5.0, help="for the answers to one number of inputs")
    options = arguments.parse_args()
    stop_in_time(15)
    results = {"burgers": for_burgers(options), "darcy": for_darcy(options)}
    print(json.dumps(results, indent=1))
    save(options.out, {"results": results})


if __name__ == "__main__":
    main()
