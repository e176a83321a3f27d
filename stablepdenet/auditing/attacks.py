"""Beyond the common perturbation: each model's own worst case, whether it transfers, and noise as control."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from stablepdenet.auditing.inputs import setting_of
from stablepdenet.auditing.session import Session, Task

NOISE = ("noise", "smooth-noise")
# On the true error: two ascents that need gradients of operator and reference, and a search that needs none.
ASCENTS, SEARCH = ("whitebox", "apgd"), "search"


def attacks(session: Session) -> Iterator[Task]:
    """Noise of equal norm; the true error attacked by PGD, by APGD and without gradients; the physics loss attacked."""
    for eps in session.eps:
        setting = setting_of(eps)
        for kind in NOISE:
            yield f"{kind} {setting}", partial(_noise, session, kind, eps)
        for name in session.operators if session.trusted else ():
            for search in (*ASCENTS, SEARCH) if name in session.differentiable else (SEARCH,):
                yield f"{search} {setting} {name}", partial(_true_error, session, search, name, eps)
        for name in session.movable:
            yield f"physics {setting} {name}", partial(_physics, session, name, eps)


def transfer(session: Session) -> Iterator[Task]:
    """Each model's worst case given to all others; its own stands under `whitebox`."""
    if len(session.operators) > 1:
        for eps in session.eps:
            for source in session.differentiable:
                yield f"transfer {setting_of(eps)} {source}", partial(_transfer, session, source, eps)


def _noise(session: Session, kind: str, eps: float) -> None:
    session.measure(session.perturbed(kind, eps, session.noise(kind, eps)))


def _true_error(session: Session, search: str, name: str, eps: float) -> None:
    session.measure(session.perturbed(search, eps, session.true_error(search, name, eps), name))


def _physics(session: Session, name: str, eps: float) -> None:
    session.measure(session.perturbed("physics", eps, session.physics(name, eps), name))


def _transfer(session: Session, source: str, eps: float) -> None:
    others = [name for name in session.operators if name != source]
    session.measure(session.perturbed(f"transfer:{source}", eps, session.worst(source, eps), *others))
