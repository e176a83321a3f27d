"""The four problems once more, for arrays of any library: peers cannot import ours, whose residuals these must equal.

A formula's parameters name what it needs: u, its derivatives, the input's values a. It returns a list of residuals, one
for each channel, with points last.
"""

import inspect
import math


def periodic(u, u_x):
    """u and u_x at the left end less those at the right; the first half of the points is the left end."""
    half = u.shape[-1] // 2
    return [u[..., :half] - u[..., half:], u_x[..., :half] - u_x[..., half:]]


def zero(u):
    return [u]


def equal(u, a):
    return [u - a]


KAPPA = 3.5 * math.pi
BLOCKS = {
    "heat": {"pde": lambda u_t, u_xx: [u_t - 0.01 * u_xx], "bc": zero, "ic": equal},
    "poisson": {"pde": lambda u_xx, a: [-u_xx - a], "bc": zero},
    "burgers": {"pde": lambda u, u_x, u_t, u_xx: [u_t + u * u_x - 0.01 * u_xx], "bc": periodic, "ic": equal},
    "helmholtz-3.5pi": {"pde": lambda u, u_xx, a: [-u_xx - KAPPA**2 * u - a], "bc": zero},
}


def needs(formula):
    """The names of u and its derivatives in a formula, and whether it asks for the input."""
    names = list(inspect.signature(formula).parameters)
    return [name for name in names if name != "a"], "a" in names


def residuals(case, a, fields):
    """{block: its residuals} for inputs a, where fields(points, names) gives {name: array of inputs x points}."""
    result = {}
    for name, formula in BLOCKS[case.problem].items():
        names, with_input = needs(formula)
        block = case.blocks[name]
        arguments = fields(block.points, names)
        if with_input:
            arguments["a"] = a @ block.matrix.T
        result[name] = formula(**arguments)
    return result


def physics(case, found):
    """L_phys of each input: squares averaged over points, summed over channels, weighted over blocks."""
    return sum(case.blocks[name].weight * (r**2).mean(1) for name, channels in found.items() for r in channels)


def objective(case, kind, residuals_of):
    """What a step of `kind` minimises, where residuals_of(a) gives the residuals of inputs."""
    if kind == "pi":
        return physics(case, residuals_of(case.clean)).mean()
    half = len(case.clean)
    both = residuals_of(case.both)
    attacked = {name: [r[half:] for r in channels] for name, channels in both.items()}
    change = {name: [r[half:] - r[:half] for r in channels] for name, channels in both.items()}
    quotient = physics(case, change) / case.spread
    return (physics(case, attacked) + case.lambda_sens * quotient).mean()
