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

from stablepdenet import hats
from stablepdenet.evaluation.inputs import TEST_SEED, Case, clean_case, finer
from stablepdenet.evaluation.measure import Measurer
from stablepdenet.evaluation.session import Session, Task
from stablepdenet.problems import Problem
from stablepdenet.spaces import SensorInput

# How many times as fast the functions vary.
FIELDS = {"rough": 2.0, "smooth": 0.5}


def unseen(session: Session) -> Iterator[Task]:
    """The problem's own unseen inputs, then those that every problem has."""
    for name, inputs in session.problem.unseen.items():
        yield f"unseen {name}", partial(_measure, session, clean_case(jnp.asarray(inputs, jnp.float32), name))
    for name in FIELDS:
        yield f"unseen {name}", partial(_measure, session, field_case(session.problem, name, len(session.clean)))
    if isinstance(session.problem.input, SensorInput):
        coarse = coarsened(session.clean, session.problem.input)
        yield "unseen coarse", partial(_measure, session, Case("none", "coarse", coarse, session.clean))
    yield "unseen fine", partial(_finer, session)


def field_case(problem: Problem, name: str, num: int) -> Case:
    """Inputs of a rougher or smoother law."""
    law = dataclasses.replace(problem.input, space=problem.input.space.refined(FIELDS[name]))
    key = jax.random.fold_in(jax.random.key(TEST_SEED), list(FIELDS).index(name))
    return clean_case(dataclasses.replace(problem, input=law).sample(num, key=key), name)


def coarsened(a: Float[ndarray, "batch m"], law: SensorInput) -> Float[ndarray, "batch m"]:
    """The inputs as half the sensors would know them, joined by straight lines."""
    few = np.linspace(law.sensors[0], law.sensors[-1], law.size // 2 + 1)
    return (a @ (hats.values(few, law.sensors) @ law.matrix(few)).T).astype(a.dtype)


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
