"""Inputs that training did not show: jumps, rougher and smoother fields, coarser data, a finer grid."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from numpy import ndarray

from stablepdenet.auditing.inputs import TEST_SEED, Case, clean_case, finer
from stablepdenet.auditing.measure import Measurer
from stablepdenet.auditing.session import Session, Task
from stablepdenet.functions import Inputs, SensorInput, points
from stablepdenet.problems import Problem

# How many times as fast the functions vary.
FIELDS = {"rough": 2.0, "smooth": 0.5}


def unseen(session: Session) -> Iterator[Task]:
    """The problem's own unseen inputs, then those that every problem has."""
    for case in unseen_cases(session):
        yield f"unseen {case.setting}", partial(_measure, session, case)
    coarse = coarsened(session.clean, session.problem.inputs)
    if coarse is not None:
        yield "unseen coarse", partial(_measure, session, Case("none", "coarse", coarse, session.clean))
    yield "unseen fine", partial(_finer, session)


def unseen_cases(session: Session) -> Iterator[Case]:
    """Other functions: the problem's own ones, rougher and smoother fields."""
    for name, inputs in session.problem.unseen.items():
        yield clean_case(jnp.asarray(np.asarray(inputs, float)), name)
    for name in FIELDS:
        yield field_case(session.problem, name, len(session.clean))


def field_case(problem: Problem, name: str, num: int) -> Case:
    """Inputs of a rougher or smoother law."""
    inputs = Inputs(**{own: problem.inputs[own].refined(FIELDS[name]) for own in problem.inputs})
    key = jax.random.fold_in(jax.random.key(TEST_SEED), list(FIELDS).index(name))
    return clean_case(dataclasses.replace(problem, inputs=inputs).sample(num, key=key), name)


def coarsened(a: Float[ndarray, "batch m"], inputs: Inputs) -> Float[ndarray, "batch m"] | None:
    """The inputs as half the sensors along each coordinate would know them, joined by straight lines; None where there
    are no sensors."""
    if not any(isinstance(inputs[name], SensorInput) for name in inputs):
        return None
    found = np.array(a)
    for name, columns in inputs.slices.items():
        law = inputs[name]
        if isinstance(law, SensorInput):
            few = [np.linspace(axis[0], axis[-1], len(axis) // 2 + 1) for axis in law.axes]
            coarse = SensorInput(law.space, tuple(few), law.of)
            there_and_back = coarse.matrix(points.grid(*law.axes)) @ law.matrix(points.grid(*few))
            found[:, columns] = (a[:, columns] @ there_and_back.T).astype(a.dtype)
    return found


def _measure(session: Session, case: Case) -> None:
    session.measure(case)


def _finer(session: Session) -> None:
    """The same inputs on a grid of half the spacing."""
    problem = finer(session.problem)
    if problem is None:
        return session.note("The reference knows one grid only: the finer one is left out.")
    if session.movable:
        case = clean_case(jnp.asarray(session.clean), "fine")
        session.measure(dataclasses.replace(case, methods=tuple(session.movable)), Measurer(problem))
    return None
