"""The stored fields of one result, sorted for figures."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from jaxtyping import Float
from numpy import ndarray

from stablepdenet.experiments.report import names


@dataclass(frozen=True)
class Snapshot:
    """Inputs at the first axis, references and predictions (by setting, then method) on the grid of all axes."""

    axes: tuple[Float[ndarray, " _"], ...]
    inputs: dict[str, Float[ndarray, " n"]]
    references: dict[str, Float[ndarray, "n ..."]]
    predictions: dict[str, dict[str, Float[ndarray, "n ..."]]]

    @classmethod
    def read(cls, fields: Mapping[str, ndarray]) -> Snapshot | None:
        """Sorts `axis.0`, `input.SETTING`, `reference.SETTING`, `METHOD.SETTING`; what does not fit the axes is left
        out. None where no setting is complete."""
        axes = tuple(fields[f"axis.{i}"] for i in range(len(fields)) if f"axis.{i}" in fields)
        shape = tuple(map(len, axes))
        found: dict[str, dict[str, ndarray]] = {}
        for name, values in fields.items():
            kind, _, setting = name.partition(".")
            wanted = shape[:1] if kind == "input" else shape
            if kind != "axis" and axes and values.size == math.prod(wanted):
                found.setdefault(setting, {})[kind] = values.reshape(wanted)
        complete = [name for name in names.settings_in_order(found) if {"input", "reference"} <= found[name].keys()]
        if not complete:
            return None
        return cls(
            axes,
            {name: found[name]["input"] for name in complete},
            {name: found[name]["reference"] for name in complete},
            {
                name: {m: found[name][m] for m in names.methods_in_order(found[name].keys() - {"input", "reference"})}
                for name in complete
            },
        )

    @property
    def radii(self) -> list[str]:
        """The perturbed settings, the smallest radius first."""
        return [name for name in self.inputs if names.radius_of(name) is not None]

    @property
    def unseen(self) -> list[str]:
        """The settings that training did not show."""
        return [name for name in self.inputs if name != "clean" and names.radius_of(name) is None]

    @property
    def moment(self) -> str:
        """When the profiles are taken."""
        return " at the last time" if len(self.axes) > 1 else ""

    @property
    def label(self) -> str:
        """What the profiles show, e.g. u(x, 1)."""
        return f"$u({', '.join(['x', *(f'{axis[-1]:g}' for axis in self.axes[1:])])})$"


def profile(u: Float[ndarray, "n ..."]) -> Float[ndarray, " n"]:
    """A field along its first axis, at the end of the others."""
    return u.reshape(len(u), -1)[:, -1]
