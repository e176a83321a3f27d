"""Configuration: frozen dataclasses with the paper's values as defaults, read from TOML and `--set key=value`."""

from __future__ import annotations

import dataclasses
import difflib
import math
import sys
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from stablepdenet.errors import ConfigError, shown

Value = bool | int | float | str

# Recipes that train the paper's three methods together; any other makes one operator.
SUITES = ("paper", "plain")


def _number(default: Any, *, low: float, high: float | None = None, exclusive: bool = False) -> Any:
    """A numeric field with its range; `exclusive` leaves both ends out. Whole numbers fit the compiled loops' int32."""
    largest = 2**31 - 1 if isinstance(default, int) else math.inf
    return field(default=default, metadata={"low": low, "high": high or largest, "exclusive": exclusive})


def _choice(default: str, *options: str) -> Any:
    return field(default=default, metadata={"options": options})


@dataclass(frozen=True)
class OperatorConfig:
    """The networks: 4 weight matrices of width 128 in branch and trunk; `embedding` is what the trunk sees.

    The kind `solved` has no networks: it is the solution of a linear problem by least squares. With `constraints` hard,
    solutions have the form of the problem's ansatz. `refinements` counts the Gauss-Newton steps of every answer; inputs
    that have not arrived by then take more. With `tanh_trunk` the trunk's last layer has a tanh too, as in DeepXDE.
    """

    kind: str = _choice("deeponet", "deeponet", "modified", "solved")
    width: int = _number(128, low=1)
    depth: int = _number(4, low=2)
    embedding: str = _choice("coordinates", "coordinates", "periodic", "waves")
    constraints: str = _choice("soft", "soft", "hard")
    refinements: int = _number(0, low=0, high=100)
    tanh_trunk: bool = False


@dataclass(frozen=True)
class AttackConfig:
    """The training attack: `eps` as the problem's family reads it, `step_size` as a fraction of the ball's radius."""

    eps: float = _number(0.05, low=0.0, exclusive=True)
    steps: int = _number(40, low=0)
    step_size: float = _number(0.1, low=0.0, exclusive=True)
    random_start: bool = True


@dataclass(frozen=True)
class MethodConfig:
    """The objective, and how lambda_sens is calibrated: to a share `rho`, on `calibration_batches` attacked batches.

    After the paper's three come other defences, for comparison.
    """

    name: str = _choice(
        "stable", "pi", "adv", "stable", "noise", "fgsm", "tangent", "increment", "trades", "jacobian", "spectral"
    )
    rho: float = _number(0.10, low=0.0, high=1.0, exclusive=True)
    tau: float = _number(1e-6, low=0.0, exclusive=True)
    calibration_batches: int = _number(10, low=1)


@dataclass(frozen=True)
class TrainingConfig:
    """Algorithm 2: `warmup` = j0, `refresh` = M; Adam with a constant rate, or Muon, or a rate that rises over the
    first steps and falls along a cosine.

    `cache` says what a refresh attacks: the whole training `set`, from which each step draws its batch, or one `batch`,
    reused for M steps. `points` says where residuals are taken: at the problem's own points, or at its fine ones, which
    answers are refined on. Every `validate_every` steps the loss on `validation` functions of their own is taken.
    `deterministic` insists on one core, so that two processes give the same bytes.
    """

    steps: int = _number(50_000, low=1)
    warmup: int = _number(5_000, low=0)
    refresh: int = _number(1_000, low=1)
    cache: str = _choice("set", "batch", "set")
    points: str = _choice("own", "own", "fine")
    functions: int = _number(1_000, low=1)
    batch: int = _number(100, low=1)
    optimiser: str = _choice("adam", "adam", "muon")
    schedule: str = _choice("constant", "constant", "cosine")
    learning_rate: float = _number(5e-4, low=0.0, exclusive=True)
    validation: int = _number(200, low=1)
    validate_every: int = _number(500, low=1)
    log_every: int = _number(100, low=1)
    checkpoint_every: int = _number(5_000, low=1)
    checkpoints_kept: int = _number(2, low=1)
    deterministic: bool = False


@dataclass(frozen=True)
class Config:
    """Everything that decides a run. `problem` holds the problem's name and its own options, `recipe` says under which
    name the rest was chosen."""

    problem: Mapping[str, Value]
    seed: int = _number(0, low=0, high=2**32 - 1)
    recipe: str = _choice("paper", *SUITES, "robust")
    operator: OperatorConfig = OperatorConfig()
    attack: AttackConfig = AttackConfig()
    method: MethodConfig = MethodConfig()
    training: TrainingConfig = TrainingConfig()

    @property
    def display_name(self) -> str:
        """The method's name in tables: a recipe of its own stands under its own."""
        return self.method.name if self.recipe in SUITES else self.recipe

    def as_dict(self) -> dict[str, Any]:
        """Nested plain values, as stored with a run."""
        return {
            key: dict(value) if isinstance(value, Mapping) else value for key, value in dataclasses.asdict(self).items()
        }


def flatten(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """{"training": {"steps": 1}} -> {"training.steps": 1}."""
    flat: dict[str, Any] = {}
    for key, value in tree.items():
        flat |= flatten(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {f"{prefix}{key}": value}
    return flat


def read_toml(path: Path) -> dict[str, Any]:
    """The dotted keys and values of a TOML file."""
    try:
        return flatten(tomllib.loads(path.read_text(encoding="utf-8")))
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"Cannot read the configuration file '{path}': {_reason(error)}.") from None
    except (ValueError, RecursionError) as error:  # also of a number too long to read
        raise ConfigError(f"'{path}' is not valid TOML: {_reason(error)}.") from None


def parse_settings(settings: Sequence[str]) -> dict[str, Any]:
    """`["training.steps=20000"]` -> {"training.steps": 20000}; values are read as TOML, anything else is text."""
    parsed: dict[str, Any] = {}
    for setting in settings:
        key, equals, text = setting.partition("=")
        if not equals or not key.strip():
            raise ConfigError(f"--set {setting!r} is not of the form section.key=value, e.g. training.steps=20000.")
        try:
            document = tomllib.loads(f"value = {text}")
            value = document["value"] if set(document) == {"value"} else text
        except (ValueError, RecursionError):
            value = text.strip()
        parsed[key.strip()] = value
    return parsed


def override(config: Config, changes: Mapping[str, Any]) -> Config:
    """A copy of `config` with dotted keys replaced; unknown keys and impossible values are refused by name."""
    sections: dict[str, Any] = {key: value for key, value in vars(config).items() if dataclasses.is_dataclass(value)}
    edits: dict[str, dict[str, Any]] = {key: {} for key in sections}
    problem, own = dict(config.problem), {key: getattr(config, key) for key in ("seed", "recipe")}
    known = [*own, *(f"{name}.{f.name}" for name, part in sections.items() for f in dataclasses.fields(part))]
    for key, value in changes.items():
        section, _, name = key.partition(".")
        if section == "problem" and name and name != "name":
            problem[name] = value
        elif key not in known:
            near = difflib.get_close_matches(key, known, n=1, cutoff=0.8)
            hint = f"did you mean '{near[0]}'?" if near else f"the keys are {', '.join(known)} and problem.*."
            raise ConfigError(f"Unknown configuration key '{key}': {hint}")
        elif key in own:
            own[key] = check(Config, key, value, key)
        else:
            edits[section][name] = check(type(sections[section]), name, value, key)
    changed = {name: dataclasses.replace(sections[name], **edit) for name, edit in edits.items()}
    result = dataclasses.replace(config, problem=problem, **own, **changed)
    training = result.training
    if result.method.name != "pi" and training.warmup >= training.steps:
        raise ConfigError(
            f"training.warmup = {training.warmup} leaves no defence steps before training.steps = {training.steps}: "
            "lower it, or train the method pi."
        )
    if result.method.name != "pi" and not result.attack.steps and not result.attack.random_start:
        raise ConfigError("attack.steps = 0 with attack.random_start = false is no attack: raise attack.steps.")
    if result.operator.kind == "modified" and result.operator.embedding != "coordinates":
        raise ConfigError("operator.kind = modified sees the coordinates: add --set operator.embedding=coordinates.")
    if result.operator.kind == "modified" and result.operator.tanh_trunk:
        raise ConfigError("operator.kind = modified has a last layer of its own: operator.tanh_trunk is for deeponet.")
    if result.operator.kind == "modified" and (result.operator.constraints == "hard" or result.operator.refinements):
        raise ConfigError(
            "operator.kind = modified has no basis, which operator.constraints = hard and operator.refinements need: "
            "take the kind deeponet."
        )
    if training.batch > training.functions:
        raise ConfigError(
            f"training.batch = {training.batch} is larger than training.functions = {training.functions}: lower "
            "the batch or draw more functions."
        )
    return result


def check(owner: type, name: str, value: Any, key: str) -> Any:
    """`value` converted to the field's type, or a ConfigError that names `key`."""
    spec = next(f for f in dataclasses.fields(owner) if f.name == name)
    if "options" in spec.metadata:
        if value not in spec.metadata["options"]:
            raise ConfigError(f"{key} = {shown(value)} must be one of {', '.join(spec.metadata['options'])}.")
        return value
    if spec.type == "bool":
        if not isinstance(value, bool):
            raise ConfigError(f"{key} = {shown(value)} must be true or false.")
        return value
    whole = spec.type == "int"
    low, high, exclusive = (spec.metadata[k] for k in ("low", "high", "exclusive"))
    good = isinstance(value, int | float) and not isinstance(value, bool)
    # The range first: it refuses nan, infinities, and whole numbers too long for a float.
    good = good and value <= sys.float_info.max and (low < value < high if exclusive else low <= value <= high)
    if not good or (whole and value != int(value)):
        lower = f"{'above' if exclusive else 'of at least'} {low:g}"
        upper = "" if high == math.inf else f" and {'below' if exclusive else 'at most'} {high}"
        raise ConfigError(f"{key} = {shown(value)} must be a {'whole' if whole else 'finite'} number {lower}{upper}.")
    return int(value) if whole else float(value)


def _reason(error: Exception) -> str:
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return text.rstrip(".").replace("\n", " ") or type(error).__name__
