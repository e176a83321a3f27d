"""Configuration: frozen dataclasses with the paper's values as defaults, read from TOML and `--set key=value`.

A field's annotation says which values it takes; pydantic refuses the others.
"""

from __future__ import annotations

import dataclasses
import difflib
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, ConfigDict, Field, StrictBool, ValidationError, model_validator
from pydantic.dataclasses import dataclass

from stablepdenet.errors import ConfigError, shown

# Recipes that train the paper's three methods together; any other makes one operator.
SUITES = ("paper", "plain")


def _whole(value: Any) -> Any:
    """20.0 and 2e4 are whole numbers too."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


# Strict: neither true nor "5" is a number. Counts fit the compiled loops' int32.
Whole = Annotated[int, Field(strict=True), BeforeValidator(_whole)]
Count = Annotated[Whole, Field(le=2**31 - 1)]
AtLeast0 = Annotated[Count, Field(ge=0)]
AtLeast1 = Annotated[Count, Field(ge=1)]
Positive = Annotated[float, Field(strict=True, gt=0, allow_inf_nan=False)]

CHECKED = ConfigDict(extra="forbid")


@dataclass(frozen=True, config=CHECKED)
class OperatorConfig:
    """The networks: 4 weight matrices of width 128 in branch and trunk; `embedding` is what the trunk sees.

    The kind `solved` has no networks: it is the solution of a linear problem by least squares. With `constraints` hard,
    solutions have the form of the problem's ansatz. `refinements` counts the Gauss-Newton steps of every answer; inputs
    that have not arrived by then take more. With `tanh_trunk` the trunk's last layer has a tanh too, as in DeepXDE.
    """

    kind: Literal["deeponet", "modified", "solved"] = "deeponet"
    width: AtLeast1 = 128
    depth: Annotated[Count, Field(ge=2)] = 4
    embedding: Literal["coordinates", "periodic", "waves"] = "coordinates"
    constraints: Literal["soft", "hard"] = "soft"
    refinements: Annotated[Whole, Field(ge=0, le=100)] = 0
    tanh_trunk: StrictBool = False


@dataclass(frozen=True, config=CHECKED)
class AttackConfig:
    """The training attack: `eps` as the problem's family reads it, `step_size` as a fraction of the ball's radius."""

    eps: Positive = 0.05
    steps: AtLeast0 = 40
    step_size: Positive = 0.1
    random_start: StrictBool = True


@dataclass(frozen=True, config=CHECKED)
class MethodConfig:
    """The objective, and how lambda_sens is calibrated: to a share `rho`, on `calibration_batches` attacked batches.

    After the paper's three come other defences, for comparison.
    """

    name: Literal["pi", "adv", "stable", "noise", "fgsm", "tangent", "increment", "trades", "jacobian", "spectral"] = (
        "stable"
    )
    rho: Annotated[Positive, Field(lt=1)] = 0.10
    tau: Positive = 1e-6
    calibration_batches: AtLeast1 = 10


@dataclass(frozen=True, config=CHECKED)
class TrainingConfig:
    """Algorithm 2: `warmup` = j0, `refresh` = M; Adam with a constant rate, or Muon, or a rate that rises over the
    first steps and falls along a cosine.

    `cache` says what a refresh attacks: the whole training `set`, from which each step draws its batch, or one `batch`,
    reused for M steps. `points` says where residuals are taken: at the problem's own points, or at its fine ones, which
    answers are refined on. Every `validate_every` steps the loss on `validation` functions of their own is taken.
    `deterministic` insists on one core, so that two processes give the same bytes.
    """

    steps: AtLeast1 = 50_000
    warmup: AtLeast0 = 5_000
    refresh: AtLeast1 = 1_000
    cache: Literal["batch", "set"] = "set"
    points: Literal["own", "fine"] = "own"
    functions: AtLeast1 = 1_000
    batch: AtLeast1 = 100
    optimiser: Literal["adam", "muon"] = "adam"
    schedule: Literal["constant", "cosine"] = "constant"
    learning_rate: Positive = 5e-4
    validation: AtLeast1 = 200
    validate_every: AtLeast1 = 500
    log_every: AtLeast1 = 100
    checkpoint_every: AtLeast1 = 5_000
    checkpoints_kept: AtLeast1 = 2
    deterministic: StrictBool = False


@dataclass(frozen=True, config=CHECKED)
class Config:
    """Everything that decides a run. `problem` holds the problem's name and its own options, `recipe` says under which
    name the rest was chosen."""

    problem: dict[str, Any]
    seed: Annotated[Whole, Field(ge=0, le=2**32 - 1)] = 0
    recipe: Literal["paper", "plain", "robust"] = "paper"
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
        return dataclasses.asdict(self)

    @model_validator(mode="after")
    def _settings_go_together(self) -> Config:
        """Refuses settings that are possible one by one, but not together."""
        operator, training, defended = self.operator, self.training, self.method.name != "pi"
        modified = operator.kind == "modified"
        if defended and training.warmup >= training.steps:
            raise ConfigError(
                f"training.warmup = {training.warmup} leaves no defence steps before "
                f"training.steps = {training.steps}: lower it, or train the method pi."
            )
        if defended and not self.attack.steps and not self.attack.random_start:
            raise ConfigError("attack.steps = 0 with attack.random_start = false is no attack: raise attack.steps.")
        if modified and operator.embedding != "coordinates":
            raise ConfigError(
                "operator.kind = modified sees the coordinates: add --set operator.embedding=coordinates."
            )
        if modified and operator.tanh_trunk:
            raise ConfigError(
                "operator.kind = modified has a last layer of its own: operator.tanh_trunk is for deeponet."
            )
        if modified and (operator.constraints == "hard" or operator.refinements):
            raise ConfigError(
                "operator.kind = modified has no basis, which operator.constraints = hard and operator.refinements "
                "need: take the kind deeponet."
            )
        if training.batch > training.functions:
            raise ConfigError(
                f"training.batch = {training.batch} is larger than training.functions = {training.functions}: lower "
                "the batch or draw more functions."
            )
        return self


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
    tree = config.as_dict()
    known = [key for key in flatten(tree) if not key.startswith("problem.")]
    for key, value in changes.items():
        section, dot, name = key.partition(".")
        if key not in known and (section != "problem" or name in ("", "name")):
            near = difflib.get_close_matches(key, known, n=1, cutoff=0.8)
            hint = f"did you mean '{near[0]}'?" if near else f"the keys are {', '.join(known)} and problem.*."
            raise ConfigError(f"Unknown configuration key '{key}': {hint}")
        (tree[section] if dot else tree)[name or key] = value
    try:
        return Config(**tree)
    except ValidationError as error:
        first = error.errors()[0]
        key, must = ".".join(map(str, first["loc"])), first["msg"].replace("Input should", "must")
        raise ConfigError(f"{key} = {shown(first['input'])} {must}.") from None


def _reason(error: Exception) -> str:
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return text.rstrip(".").replace("\n", " ") or type(error).__name__
