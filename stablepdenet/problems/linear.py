"""Which part of a residual is linear in u: that part can be evaluated in one piece.

A residual is anybody's function. Its linear part is read off its program, traced for one input, and then tried on a few
numbers for several: a function that looks at the shape or the type of what it gets is not what its program says.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend import core
from jaxtyping import Float
from numpy import ndarray

Coefficient = float | Float[ndarray, " n"]


class _Form(NamedTuple):
    """sum_k coefficients[k] * k + (anything of the names in `rest`) + an unknown constant."""

    coefficients: dict[str, Any]
    rest: frozenset[str]


def linear_part(jaxpr: core.ClosedJaxpr, names: Sequence[str], points: int) -> dict[str, Coefficient]:
    """The inputs `names` of a traced residual that enter it as sum_k c_k * k with c_k known at every point.

    An input that meets another one, or any operation but sums and multiples on its way to the result, is not linear.
    What is not understood counts as not linear.
    """
    program = jaxpr.jaxpr
    forms: dict[Any, _Form | Any] = dict(zip(program.constvars, jaxpr.consts, strict=True))
    forms |= {variable: _Form({name: 1.0}, frozenset()) for variable, name in zip(program.invars, names, strict=True)}

    def read(atom: Any) -> _Form | Any:
        return atom.val if isinstance(atom, core.Literal) else forms[atom]

    # Where a coefficient is not finite, neither is the residual; that is not for this place to say.
    with np.errstate(all="ignore"):
        for equation in program.eqns:
            found = _applied(equation, [read(atom) for atom in equation.invars])
            forms |= dict(zip(equation.outvars, found, strict=True))
    (outcome,) = program.outvars
    result = read(outcome)
    if not isinstance(result, _Form) or outcome.aval.shape != (1, points):
        return {}
    return {name: _along_points(value) for name, value in result.coefficients.items() if name not in result.rest}


def is_linear_part(
    residual: Callable[..., Any], terms: Sequence[str], found: Mapping[str, Coefficient], points: int
) -> bool:
    """Whether F(terms) = sum_k c_k * k + F(0 for these k) on random numbers for three inputs."""
    generator = np.random.default_rng(0)
    rows = {name: generator.uniform(0.5, 1.5, (3, points)).astype(jnp.result_type(float)) for name in terms}
    rest = rows | {name: np.zeros_like(rows[name]) for name in found}
    with jax.ensure_compile_time_eval(), np.errstate(all="ignore"):
        whole, without = np.asarray(residual(**rows)), np.asarray(residual(**rest))
        linear = sum(coefficient * rows[name] for name, coefficient in found.items())
        size = sum(np.abs(coefficient * rows[name]) for name, coefficient in found.items()) + np.abs(without)
        close = np.isclose(whole, linear + without, rtol=0, atol=1e-4 * size, equal_nan=True)
    return whole.shape == without.shape == (3, points) and bool(np.all(close))


def _applied(equation: Any, inputs: list[Any]) -> list[Any]:
    forms = [value for value in inputs if isinstance(value, _Form)]
    if not forms:
        try:
            with jax.ensure_compile_time_eval():
                values = equation.primitive.bind(*inputs, **equation.params)
        except Exception:  # functions with derivatives of their own, and what else has no value of its own here
            return [_Form({}, frozenset())] * len(equation.outvars)
        return list(values) if equation.primitive.multiple_results else [values]
    known = next((np.asarray(value) for value in inputs if not isinstance(value, _Form)), None)
    match equation.primitive.name, inputs:
        case "neg", [_Form() as form]:
            return [_scaled(form, -1.0)]
        case "mul", _ if known is not None:
            return [_scaled(forms[0], known)]
        case "div", [_Form() as form, _] if known is not None:
            return [_scaled(form, 1.0 / known)]
        case "add", _:
            return [_sum(*forms)]
        case "sub", [_Form() as form, *others]:
            return [_sum(form, *(_scaled(other, -1.0) for other in others if isinstance(other, _Form)))]
        case "sub", [_, _Form() as form]:
            return [_scaled(form, -1.0)]
    mixed = _Form({}, frozenset(name for form in forms for name in (*form.coefficients, *form.rest)))
    return [mixed] * len(equation.outvars)


def _scaled(form: _Form, factor: Any) -> _Form:
    return _Form({name: value * factor for name, value in form.coefficients.items()}, form.rest)


def _sum(*forms: _Form) -> _Form:
    total: dict[str, Any] = {}
    for form in forms:
        for name, value in form.coefficients.items():
            total[name] = total[name] + value if name in total else value
    return _Form(total, frozenset().union(*(form.rest for form in forms)))


def _along_points(value: Any) -> Coefficient:
    flat = np.ravel(np.asarray(value, np.float64))
    return float(flat[0]) if np.all(flat == flat[0]) else flat
