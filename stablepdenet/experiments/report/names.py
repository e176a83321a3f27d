"""What problems, methods, settings and attacks are called in a report, and in which order they come.

Names are plain text with a few symbols (κ_E, u_xx, ε, π, ±), which `render` writes as each format wants them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from stablepdenet.experiments.problems import PROBLEMS
from stablepdenet.training.objectives import TITLES

METRICS = {
    "kappa_S": "κ_S",
    "kappa_G": "κ_G",
    "kappa_E": "κ_E",
    "kappa_r": "κ_r",
    "angle": "angle in degrees",
}
CERTIFIED = "certified"
ATTACKS = {
    "whitebox": "white-box",
    "apgd": "white-box, APGD",
    CERTIFIED: "certified worst case",
    "search": "search without gradients",
    "physics": "on the physics loss",
    "noise": "noise",
    "smooth-noise": "smooth noise",
}


class Equation(NamedTuple):
    """A line of the paper's table of benchmarks, and how a figure calls the input."""

    title: str
    equation: str
    input: str
    symbol: str


EQUATIONS = {
    "heat": Equation("Heat", "u_t − α u_xx = 0", "initial condition", "$a(x)$"),
    "poisson": Equation("Poisson", "−u_xx = f", "source function", "$f(x)$"),
    "burgers": Equation("Burgers", "u_t + u u_x = ν u_xx", "initial condition", "$u_0(x)$"),
    "helmholtz": Equation("Helmholtz", "−u_xx − κ² u = f", "sine coefficients of the source", "$f(x)$"),
}


def equation_of(problem: str) -> Equation:
    """What is known of a problem; one that is not the paper's has its name."""
    return EQUATIONS.get(re.split(r"[-\[]", problem)[0], Equation(problem, "", "", "$a(x)$"))


def problem_title(problem: str) -> str:
    """`helmholtz-3pi+0.5` -> Helmholtz, κ = 3π + 0.5; `burgers[viscosity=0.002]` -> Burgers, viscosity = 0.002."""
    name, _, options = problem.partition("[")
    family, _, wavenumber = name.partition("-")
    if family not in EQUATIONS:
        return problem
    parts = [EQUATIONS[family].title]
    if wavenumber:
        parts.append("κ = " + wavenumber.replace("pi", "π").replace("+", " + "))
    return ", ".join(parts + [text.replace("=", " = ") for text in options.rstrip("]").split(",") if text])


def method_title(method: str) -> str:
    """A method's name as the paper writes it; a foreign one keeps its own."""
    return TITLES.get(method, method)


def setting_title(setting: str) -> str:
    """`clean` -> Clean, `0.05` -> ε = 0.05; an unseen input keeps its name."""
    if setting == "clean":
        return "Clean"
    return f"ε = {setting}" if radius_of(setting) is not None else setting


def attack_title(attack: str) -> str:
    """`transfer:pi` -> transferred from PI-DeepONet."""
    kind, _, source = attack.partition(":")
    return f"transferred from {method_title(source)}" if source else ATTACKS.get(kind, kind)


def radius_of(setting: str) -> float | None:
    """The radius that a setting begins with (`0.05`, `0.05 viscosity=0.002`), if any."""
    match = re.match(r"[0-9.]+(e-?[0-9]+)?(?= |$)", setting)
    try:
        return float(match[0]) if match else None
    except ValueError:
        return None


def is_radius(setting: str) -> bool:
    """Whether a setting is a radius and nothing more."""
    return radius_of(setting) is not None and " " not in setting


def in_order(names: Iterable[str], known: Iterable[str]) -> list[str]:
    """The names once each: known ones as listed, each followed by its variants (`burgers[viscosity=0.002]`), others
    after them."""
    place = {name: number for number, name in enumerate(known)}
    return sorted(set(names), key=lambda name: (place.get(name.partition("[")[0], len(place)), name))


def problems_in_order(names: Iterable[str]) -> list[str]:
    """As `stablepdenet list` has them."""
    return in_order(names, PROBLEMS)


def methods_in_order(names: Iterable[str]) -> list[str]:
    """As the paper has them."""
    return in_order(names, TITLES)


def settings_in_order(names: Iterable[str]) -> list[str]:
    """Clean, the radii by size, then the rest."""
    return sorted(set(names), key=lambda name: (name != "clean", radius_of(name) is None, radius_of(name) or 0.0, name))
