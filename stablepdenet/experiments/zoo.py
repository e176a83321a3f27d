"""The model zoo: trained operators that come with the package, so that a first plot needs no training."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path

import jax
import safetensors.numpy

from stablepdenet.errors import CheckpointError, ConfigError
from stablepdenet.experiments.config import Config
from stablepdenet.experiments.problems import make_problem
from stablepdenet.experiments.runs import problem_of
from stablepdenet.experiments.training import make_operator, with_refinement
from stablepdenet.experiments.training.run import load_config
from stablepdenet.files import from_arrays, read_arrays, storage, to_arrays, write_synced
from stablepdenet.operators import AbstractOperator
from stablepdenet.solving import is_linear, solve
from stablepdenet.training.objectives import METHODS

FORMAT, ROBUST = "stablepdenet-model-1", "robust"


def load_model(problem: str, method: str = "stable") -> AbstractOperator:
    """The operator of a paper's `problem` ("heat", "poisson", "burgers", "helmholtz-3.5pi", "helmholtz-3pi+0.5",
    "helmholtz-3pi+0.1") trained by `method` ("pi", "adv", "stable"), from seed 0 of the committed campaign, or made by
    the recipe "robust": that of a linear problem is solved on the spot.

        operator = stablepdenet.load_model("heat", "stable")
        problem = stablepdenet.make_problem("heat")
        u = operator(a, jnp.asarray(problem.grid))
    """
    zoo = files("stablepdenet") / "data" / "zoo"
    known = sorted(path.name.removesuffix(".safetensors") for path in zoo.iterdir()) if zoo.is_dir() else []
    if method == ROBUST and f"{problem}-pi" in known and is_linear(posed := make_problem(problem)):
        return solve(posed)
    if f"{problem}-{method}" not in known:
        listed = ", ".join(sorted({name.rpartition("-")[0] for name in known})) or "none"
        raise ConfigError(
            f"The zoo has no model of '{problem}' by '{method}': its problems are {listed}, its methods "
            f"{', '.join((*METHODS, ROBUST))}."
        )
    config, operator = read_model((zoo / f"{problem}-{method}.safetensors").read_bytes(), f"{problem}-{method}")
    return with_refinement(operator, problem_of(config), config) if config.operator.refinements else operator


def write_model(operator: AbstractOperator, config: Config, path: Path) -> None:
    """One file: the weights, and in its header the configuration that they belong to."""
    header = {"format": FORMAT, "config": json.dumps(config.as_dict())}
    with storage(path.parent):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_synced(path, safetensors.numpy.save(to_arrays(operator), metadata=header))


def read_model(data: bytes, name: str) -> tuple[Config, AbstractOperator]:
    """The configuration and the operator from a file's content; `name` is for messages."""
    try:
        arrays, header = read_arrays(data)
        if header["format"] != FORMAT:
            raise ValueError
        stored = json.loads(header["config"])
    except (KeyError, TypeError, ValueError, RecursionError):
        raise CheckpointError(f"'{name}' is not a model of this version.") from None
    config = load_config(stored, Path(name))
    template = make_operator(problem_of(config), config, key=jax.random.key(0))
    return config, from_arrays(arrays, template, f"The model '{name}'")
