"""Which part of a residual is linear in u: that part can be evaluated in one piece."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.extend import core
from jaxtyping import Float
from numpy import ndarray

Coefficient = float | Float[ndarray, " n"]


class _Form(NamedTuple):
    """sum_k coefficients[k] * k + (anything of the names in `rest`) + a constant."""

    coefficients: dict[str, Any]
    rest: frozenset[str]


def linear_part(jaxpr: core.ClosedJaxpr, names: Sequence[str], points: int) -> dict[str, Coefficient]:
    """The inputs `names` of a traced residual that enter it as sum_k c_k * k with c_k known at every point.

    Read off the program, so it is exact: an input that meets another one, or any operation but sums and multiples on
    its way to the result, is not linear. What is not understood counts as not linear.
    """
    program = jaxpr.jaxpr
    forms: dict[Any, _Form | Any] = dict(zip(program.constvars, jaxpr.consts, strict=True))
    forms |= {variable: _Form({name: 1.0}, frozenset()) for variable, name in zip(program.invars, names, strict=True)}

    def read(atom: Any) -> _Form | Any:
        return atom.val if isinstance(atom, core.Literal) else forms[atom]

    for equation in program.eqns:
        found = _applied(equation, [read(atom) for atom in equation.invars])
        forms |= dict(zip(equation.outvars, found, strict=True))
    result = read(program.outvars[0])
    if not isinstance(result, _Form) or program.outvars[0].aval.shape != (1, points):
        return {}
    return {
        name: _along_points(value)
        for name, value in result.coefficients.items()
        if name not in result.rest and np.size(value) in (1, points)
    }


def _applied(equation: Any, inputs: list[Any]) -> list[Any]:
    forms = [value for value in inputs if isinstance(value, _Form)]
    if not forms:
        with jax.ensure_compile_time_eval():
            values = equation.primitive.bind(*inputs, **equation.params)
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
