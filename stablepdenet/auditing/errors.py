"""Errors and gains, clean and under the common perturbation, and how they grow with its radius."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import jax.numpy as jnp

from stablepdenet.auditing.inputs import clean_case, setting_of
from stablepdenet.auditing.session import Session, Task

CURVE = (0.01, 0.02, 0.05, 0.10, 0.15, 0.20)


def errors(session: Session) -> Iterator[Task]:
    """The paper's protocol."""
    yield "clean", lambda: _clean(session)
    for eps in session.eps:
        yield f"common {setting_of(eps)}", partial(_common, session, eps)


def curves(session: Session) -> Iterator[Task]:
    """The common perturbation and each model's own worst case, over the radii."""
    for eps in CURVE:
        yield f"common {setting_of(eps)}", partial(_common, session, eps)
        for name in session.differentiable:
            yield f"whitebox {setting_of(eps)} {name}", partial(_worst, session, name, eps)


def _clean(session: Session) -> None:
    session.measure(clean_case(jnp.asarray(session.clean)))


def _common(session: Session, eps: float) -> None:
    case = session.common(eps)
    if case is not None:
        session.measure(case)


def _worst(session: Session, method: str, eps: float) -> None:
    session.measure(session.perturbed("whitebox", eps, session.worst(method, eps), method))
