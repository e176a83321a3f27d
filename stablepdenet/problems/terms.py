"""What a residual asks for, by the names of its parameters: u, v_xx, k_x, t."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

from stablepdenet.errors import ConfigError
from stablepdenet.functions import Inputs
from stablepdenet.functions.domain import Box
from stablepdenet.operators import Derivative


class Terms(NamedTuple):
    """A residual's parameters, sorted by what they are. A derivative is the tuple of its coordinates' numbers."""

    solution: dict[str, tuple[int, Derivative]]
    inputs: dict[str, tuple[str, Derivative]]
    coordinates: tuple[str, ...]

    @property
    def words(self) -> dict[int, tuple[Derivative, ...]]:
        """The derivatives of each component of the solution, each once."""
        found: dict[int, dict[Derivative, None]] = {}
        for component, word in self.solution.values():
            found.setdefault(component, {})[word] = None
        return {component: tuple(words) for component, words in sorted(found.items())}


def check_names(domain: Box, solution: tuple[str, ...], inputs: Inputs) -> None:
    """Refuses names that a residual could not tell apart."""
    names = [*domain.coordinates, *solution, *inputs]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice:
        raise ConfigError(f"'{twice}' is the name of two of coordinates, solution and inputs: rename one of them.")
    wrong = next((name for name in names if not name.isidentifier() or "_" in name), None)
    if wrong is not None:
        raise ConfigError(f"'{wrong}' cannot be a parameter of a residual: take letters and digits without _.")
    for name in inputs:
        domain.columns(inputs[name].of)


def terms_of(block: str, residual: Callable[..., Any], domain: Box, solution: tuple[str, ...], inputs: Inputs) -> Terms:
    """The parameters of a block's residual; what is none of the problem's names is refused."""
    found = Terms({}, {}, ())
    coordinates: list[str] = []
    for parameter in inspect.signature(residual).parameters:
        name, _, letters = parameter.partition("_")
        if parameter in domain.coordinates:
            coordinates.append(parameter)
        elif name not in solution and name not in list(inputs):
            raise ConfigError(
                f"Block '{block}' asks for '{parameter}', which is none of the solution {', '.join(solution)}, the "
                f"inputs {', '.join(inputs)}, their derivatives, and the coordinates {', '.join(domain.coordinates)}: "
                "rename that parameter of its residual."
            )
        elif (parameter != name and not letters) or any(letter not in domain.coordinates for letter in letters):
            raise ConfigError(
                f"Block '{block}' asks for '{parameter}', but the coordinates are {', '.join(domain.coordinates)}: "
                f"write a derivative as {name}_ followed by coordinate letters, e.g. {name}_{domain.coordinates[0]}."
            )
        elif name in solution:
            word = tuple(sorted(domain.columns(letters)))
            found.solution[parameter] = (solution.index(name), word)
        else:
            own = inputs[name].of
            outside = next((letter for letter in letters if letter not in own), None)
            if outside:
                what = f"a function of {own} alone" if own else "a number"
                raise ConfigError(f"Block '{block}' asks for '{parameter}', but the input {name} is {what}.")
            found.inputs[parameter] = (name, tuple(own.index(letter) for letter in letters))
    return found._replace(coordinates=tuple(coordinates))
