"""The audit: anything that maps inputs to solutions, and a problem in; rows of numbers out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from stablepdenet.auditing.attacks import attacks, transfer
from stablepdenet.auditing.certificates import certificates
from stablepdenet.auditing.errors import curves, errors
from stablepdenet.auditing.estimates import estimates
from stablepdenet.auditing.front import front
from stablepdenet.auditing.inputs import setting_of
from stablepdenet.auditing.lipschitz import lipschitz
from stablepdenet.auditing.session import Audit, Session, Task
from stablepdenet.auditing.theory import theory
from stablepdenet.auditing.unseen import unseen
from stablepdenet.errors import ConfigError
from stablepdenet.problems import Problem
from stablepdenet.progress import Progress, Report, displayed

# In this order: later parts find what earlier ones have computed.
PARTS: dict[str, Callable[[Session], Iterator[Task]]] = {
    "errors": errors,
    "lipschitz": lipschitz,
    "attacks": attacks,
    "certificates": certificates,
    "transfer": transfer,
    "curves": curves,
    "unseen": unseen,
    "front": front,
    "theory": theory,
    "estimates": estimates,
}
# All but what needs a judge to be made.
USUAL = tuple(name for name in PARTS if name != "estimates")
EPS = (0.05, 0.10)


def audit(
    operators: Any,
    problem: Problem,
    *,
    parts: Sequence[str] = USUAL,
    tests: int | None = 200,
    eps: Sequence[float] = EPS,
    recipe: str = "own",
    seed: int = 0,
    progress: Progress | None = None,
) -> Audit:
    """Measures how right and how stable operators are on a problem.

    `operators` is one callable (a, points) -> u, or several by name: an equinox module, a function of jax or numpy, a
    PyTorch module. The common perturbation is found against the one named `pi`, else against the first.

    errors     clean, and under the common perturbation (eq:test-attack): relative L2, gains, angle
    lipschitz  local Lipschitz constants beside the exact ones
    attacks    each model's own worst case: on the true error by PGD, APGD and without gradients, on the physics loss;
               noise of equal norm as control
    certificates  the exact worst case, or an upper bound of it, of operators that are linear in the input
    transfer   each model's worst case given to the others
    curves     errors and gains over the radius, up to 0.2
    unseen     jumps, rougher and smoother fields, coarser data, a finer grid
    front      where the steepest gradient goes, for problems that have fronts
    theory     the constants of the paper's theorems, estimated
    estimates  estimated over true errors, coverage, rank correlation; only if asked for, as operators that do not
               estimate their errors need a judge, which takes minutes

    The first `tests` test inputs are used throughout (None: all). `seed` decides every random number. `progress` is
    told of each task; without one, stderr shows how far it is.
    """
    _check(parts, tests, eps)
    named = dict(operators) if isinstance(operators, Mapping) else {"model": operators}
    if not named:
        raise ConfigError("An audit needs at least one operator.")
    session = Session(named, problem, tests=tests, eps=tuple(eps), identity={"recipe": recipe, "seed": seed})
    tasks = [task for name, part in PARTS.items() if name in parts for task in part(session)]
    failures = session.audit.failures
    with displayed(progress, problem.name) as told:
        for number, (title, run) in enumerate(tasks):
            told(Report("audit", number, len(tasks), title))
            try:
                run()
            except KeyboardInterrupt:
                session.audit.stopped = True
                session.note(f"Stopped during '{title}': what comes after it is missing.")
                break
            except Exception as error:  # an operator is anybody's code; one task that fails must not cost the others
                failures.append(f"'{title}' failed and is left out: {_reason(error)}")
                session.note(failures[-1])
        if failures and not any(row["metric"] in ("relative_l2", "coverage") for row in session.audit.rows):
            raise ConfigError(f"No error could be measured: {failures[0]}")
        told(Report("audit", len(tasks), len(tasks), "done"))
    return session.audit


def _reason(error: Exception) -> str:
    """The last line that says something: inside of a compiled program, the user's own exception comes last."""
    lines = [line.strip() for line in str(error).splitlines()]
    spoken = [line for line in lines if line and not line.startswith(("--", "For simplicity, JAX"))]
    return spoken[-1] if spoken else type(error).__name__


def _check(parts: Sequence[str], tests: int | None, eps: Sequence[float]) -> None:
    unknown = [part for part in parts if part not in PARTS]
    if unknown:
        raise ConfigError(f"Unknown part '{unknown[0]}' of an audit: choose from {', '.join(PARTS)}.")
    bad = [radius for radius in eps if not 0 < radius < np.inf]
    if bad:
        raise ConfigError(f"eps = {bad[0]:g} must be a positive number.")
    settings = [setting_of(radius) for radius in eps]
    twice = next((setting for setting in settings if settings.count(setting) > 1), None)
    if twice:
        raise ConfigError(f"eps holds two radii that read {twice}: give each once.")
    if tests is not None and tests < 1:
        raise ConfigError(f"tests = {tests} must be at least 1.")
