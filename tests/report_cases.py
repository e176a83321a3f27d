"""Results of two seeds with round numbers, and the report of them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from typer.testing import CliRunner

from stablepdenet.cli import app
from stablepdenet.experiments.results import Result, save_result

# The errors of two seeds, by method and setting.
ERRORS = {"pi": {"clean": (0.01, 0.03), "0.05": (0.5, 0.7)}, "stable": {"clean": (0.02, 0.03), "0.05": (0.03, 0.04)}}
# Text of somebody else, in a name.
HOSTILE = "<script>$\\frac&|*"
GAINS = {"kappa_S": 0.1, "kappa_G": 0.3, "kappa_E": 0.2, "kappa_r": 1.0, "angle": 60.0}


def row(problem, method, seed, attack, setting, metric, value, recipe="paper"):
    place = {"problem": problem, "recipe": recipe, "method": method, "seed": seed}
    return {**place, "setting": setting, "attack": attack, "metric": metric, "value": value}


def rows_of(problem, seed, errors=ERRORS):
    for method, settings in errors.items():
        for setting, values in settings.items():
            attack = "none" if setting == "clean" else "common"
            yield row(problem, method, seed, attack, setting, "relative_l2", values[seed])
        for metric, value in GAINS.items():
            yield row(problem, method, seed, "common", "0.05", metric, value * (1 + seed))
        yield row(problem, method, seed, "none", "clean", "lipschitz_mean", 0.02 if method == "pi" else 0.03)
        yield row(problem, method, seed, "none", "clean", "lipschitz_exact_mean", 0.031176)
        yield row(problem, method, seed, "whitebox", "0.05", "relative_l2", 0.8)
        yield row(problem, method, seed, "none", "jump", "relative_l2", 0.4)


def fields_of(methods=("pi", "stable"), settings=("clean", "0.05", "jump"), times=5):
    x, t = np.linspace(0, 1, 7), np.linspace(0, 1, times)
    shape = (7, times) if times else (7,)
    fields = {"axis.0": x} | ({"axis.1": t} if times else {})
    for i, setting in enumerate(settings):
        fields |= {f"input.{setting}": x + i, f"reference.{setting}": np.full(shape, 1.0 + i)}
        fields |= {f"{m}.{setting}": np.linspace(1.1, 1.2 + n + i, math.prod(shape)) for n, m in enumerate(methods)}
    return fields


def result_of(problem, seed, rows=None, **changes):
    losses = {"pi": [1.0, 0.5, 0.2 + 0.1 * seed], "stable": [1.0, 0.6, 0.3 + 0.1 * seed]}
    curves = {
        name: {"step": [10, 20, 30], "loss": loss, "validation_clean": [None, loss[1], None]}
        for name, loss in losses.items()
    }
    settings = {
        "problem": {"name": problem},
        "seed": seed,
        "training": {"steps": 30, "warmup": 10, "batch": len(problem)},
    }
    content: dict[str, Any] = {
        "rows": list(rows_of(problem, seed)) if rows is None else rows,
        "settings": {"pi": settings, "stable": settings},
        "curves": curves,
        "seconds": {"pi": 1.0, "stable": 3.0 + seed},
        "versions": {"jax": "0.10.2"},
        "notes": ["Something was <left> out."],
    }
    return Result("paper", problem, seed, **(content | changes))


def report(*arguments):
    return CliRunner().invoke(app, ["report", *map(str, arguments)])


def two_seeds(folder):
    for seed in (0, 1):
        save_result(folder, result_of("heat", seed), fields_of())
        save_result(folder, result_of("helmholtz-3.5pi", seed), fields_of(settings=("clean", "0.05"), times=0))
    return folder
