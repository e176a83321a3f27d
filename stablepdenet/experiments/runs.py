"""From names and folders to trainings: the one place where a configuration meets its problem."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from shlex import quote
from typing import Any

from stablepdenet.errors import CheckpointError, ConfigError, Interrupted, shown
from stablepdenet.experiments.config import AttackConfig, Config, override
from stablepdenet.experiments.problems import PROBLEMS, complete_options, make_problem
from stablepdenet.experiments.reading import import_object
from stablepdenet.experiments.recipes import explain, settings_of
from stablepdenet.experiments.training import SOLVED, Run, state_shapes, train, train_in, train_suite, with_refinement
from stablepdenet.experiments.training.run import load_config
from stablepdenet.experiments.training.running import run_in
from stablepdenet.files import read_json, storage, write_json
from stablepdenet.operators import AbstractOperator
from stablepdenet.problems import Problem
from stablepdenet.progress import Progress, Report, displayed
from stablepdenet.refining import warn_unsettled
from stablepdenet.robust import make_judge
from stablepdenet.saving import load, save
from stablepdenet.solving import solve
from stablepdenet.spectral import JudgedOperator
from stablepdenet.training import TrainState
from stablepdenet.training.objectives import METHODS

SINGLE, SUITE = "config.json", "suite.json"
# What a solved problem keeps in its folder.
OPERATOR = "operator.safetensors"
# What estimates the errors of a run's operator, and what is left of one that was stopped while it was made.
JUDGE, TRIALS = "judge.safetensors", "judge.trials.json"
# Not an option: what tells two problems of one name apart.
FINGERPRINT = "fingerprint"


def configure(problem: Problem, changes: Mapping[str, Any] | None = None, *, recipe: str = "paper") -> Config:
    """The paper's configuration with the problem's own sizes and training radius, then the recipe's, then `changes` by
    dotted keys."""
    attack = problem.attack
    own: dict[str, Any] = {
        **({f"attack.{name}": getattr(attack, name) for name in AttackConfig.__dataclass_fields__} if attack else {}),
        "operator.embedding": problem.embedding,
        "training.functions": problem.functions,
        "training.batch": problem.batch,
    }
    if (changes or {}).get("recipe", recipe) != recipe:
        raise ConfigError("recipe is not a setting of its own: choose it by --recipe, or configure(..., recipe=...).")
    identity = {"name": problem.name, FINGERPRINT: problem.fingerprint}
    return override(Config(problem=identity), {**own, **settings_of(recipe, problem), **(changes or {})})


def by_recipe(
    problem: Problem,
    changes: Mapping[str, Any] | None = None,
    *,
    folder: Path | str | None = None,
    progress: Progress | None = None,
) -> AbstractOperator:
    """The operator of the recipe `robust`, as it answers; `progress` is told which way was taken.

    Where every residual is linear in u and a, it is solved by least squares; where not, it is trained on clean inputs
    and refined by Gauss-Newton steps in every answer; where these do not settle, there is a warning. With a `folder`
    the training is kept there, and continued. (`stablepdenet.robust` trains nothing.)
    """
    config = configure(problem, changes, recipe="robust")
    with displayed(progress, problem.name) as told:
        told(Report("robust", 0, note=explain(config)))
        if config.operator.kind == SOLVED:
            return solve_in(Path(folder), problem, config) if folder else solve(problem)
        state = train_in(folder, problem, config, progress=told) if folder else train(problem, config, progress=told)
    operator = with_refinement(state.trained, problem, config)
    warn_unsettled(operator, problem)
    return operator


def solve_in(folder: Path, problem: Problem, config: Config) -> AbstractOperator:
    """The solution of a linear problem, kept in a run folder: what is there is not solved again."""
    with run_in(folder, problem, config) as run:
        path = run.folder / OPERATOR
        if path.exists():
            return load(path, problem)
        operator = solve(problem)
        save(operator, path, problem)
        return operator


def resolve(name: str, changes: Mapping[str, Any], *, recipe: str = "paper") -> tuple[Problem, Config]:
    """The registered problem `name` with its `problem.*` options, and the configuration with all of them in it."""
    if changes.get("problem.name", name) != name:
        raise ConfigError(
            f"problem.name = {shown(changes['problem.name'])} is not the problem '{name}' that was asked for."
        )
    prefix = "problem."
    given = {key.removeprefix(prefix): value for key, value in changes.items() if key.startswith(prefix)}
    options = complete_options(name, {key: value for key, value in given.items() if key not in ("name", FINGERPRINT)})
    others = {key: value for key, value in changes.items() if not key.startswith(prefix)}
    problem = make_problem(name, options)
    settings = {**others, **{f"{prefix}{key}": value for key, value in options.items()}}
    return problem, configure(problem, settings, recipe=recipe)


def posed(name: str, changes: Mapping[str, Any]) -> Problem:
    """The problem that a user names: a registered one with its `problem.*` options, or MODULE:NAME of their own."""
    if ":" in name:
        problem = import_object(name)
        if not isinstance(problem, Problem) or changes:
            raise ConfigError(f"'{name}' must name a stablepdenet.Problem, which takes no --set.")
        return problem
    foreign = [key for key in changes if not key.startswith("problem.")]
    if foreign:
        raise ConfigError(f"--set {foreign[0]} does not matter here: only problem.* does.")
    problem, config = resolve(name, changes)
    return dataclasses.replace(problem, name=label(config))


def problem_of(config: Config) -> Problem:
    """The registered problem that a stored configuration names."""
    name = str(config.problem["name"])
    if name not in PROBLEMS:
        raise CheckpointError(
            f"'{name}' is a problem of your own, which a folder cannot hold: load it in Python with "
            "load_operator(folder, problem), continue it with train_in(folder, problem, config)."
        )
    options = {key: value for key, value in config.problem.items() if key not in ("name", FINGERPRINT)}
    return _same(make_problem(name, options), config)


def _same(problem: Problem, config: Config) -> Problem:
    """The problem, if it is the one that the configuration was made for."""
    problem.require(str(config.problem.get(FINGERPRINT, problem.fingerprint)), "What is stored")
    return problem


def start(
    problem: Problem, config: Config, folder: Path, *, together: bool, progress: Progress
) -> dict[str, TrainState]:
    """Trains the configured method, or all three `together`, in `folder`; continues what is unfinished there."""
    _require_own(folder, together)
    if together and config.operator.kind == SOLVED:
        raise ConfigError("operator.kind = solved has nothing to train by three methods: take --recipe robust instead.")
    if not together:
        name = config.display_name
        return {name: train_in(folder, problem, config, progress=progress)}
    with storage(folder):
        folder.mkdir(parents=True, exist_ok=True)
        if not (folder / SUITE).exists():
            write_json(folder / SUITE, config.as_dict())
    try:
        return train_suite(problem, config, folder=folder, progress=progress)
    except Interrupted as stop:
        # What is to be resumed is the suite, not the one run of it that was under way.
        raise Interrupted(stop.signal_number, folder) from None


def _require_own(folder: Path, together: bool) -> None:
    if (folder / (SINGLE if together else SUITE)).exists():
        there = "a single run" if together else "the three methods"
        raise ConfigError(f"'{folder}' holds {there}, which is not what is asked for: choose another --out.")


def finish(
    problem: Problem, config: Config, folder: Path, *, together: bool, progress: Progress
) -> dict[str, AbstractOperator]:
    """The operators that `folder` is for, as they answer: solved, or trained to the end."""
    if config.operator.kind == SOLVED and not together:
        _require_own(folder, together)
        return {config.display_name: solve_in(folder, problem, config)}
    states = start(problem, config, folder, together=together, progress=progress)
    return {name: with_refinement(state.trained, problem, config) for name, state in states.items()}


def resume(folder: Path, *, progress: Progress) -> tuple[Problem, Config, dict[str, AbstractOperator]]:
    """Continues the run, or the three runs, in `folder` to their end; the operators as they answer."""
    together = (folder / SUITE).exists()
    config = load_config(read_json(folder / SUITE), folder) if together else Run.open(folder).config
    problem = problem_of(config)
    return problem, config, finish(problem, config, folder, together=together, progress=progress)


def holds_run(folder: Path) -> bool:
    """Whether a training was started in `folder`."""
    return (folder / SINGLE).exists() or (folder / SUITE).exists()


def load_operators(folders: Sequence[Path]) -> tuple[Problem, Config, dict[str, AbstractOperator]]:
    """The trained operators of several run folders by method, all of one problem and seed; a folder of the three
    methods counts as three."""
    singles = [folder / name if (folder / SUITE).exists() else folder for folder in folders for name in _inside(folder)]
    configs = {folder: Run.open(folder).config for folder in singles}
    first = next(iter(configs.values()))
    for folder, config in configs.items():
        for what, one, other in (("problem", first.problem, config.problem), ("seed", first.seed, config.seed)):
            if one != other:
                raise ConfigError(f"'{singles[0]}' and '{folder}' differ in their {what}: evaluate them one by one.")
    methods = [config.display_name for config in configs.values()]
    twice = next((name for name in methods if methods.count(name) > 1), None)
    if twice:
        raise ConfigError(f"Two of the runs are of the method {twice}: evaluate them one by one.")
    problem = problem_of(first)
    operators = {}
    for folder, config in configs.items():
        operator, step = _load(folder, problem)
        if step < config.training.steps:
            raise CheckpointError(
                f"'{folder}' is not trained to its end: `stablepdenet resume {quote(str(folder))}` finishes it."
            )
        operators[config.display_name] = operator
    return dataclasses.replace(problem, name=label(first)), first, operators


def label(config: Config) -> str:
    """The problem's name, with the options that are not the paper's: `burgers[viscosity=0.002]`."""
    name = str(config.problem["name"])
    defaults = complete_options(name, {})
    changed = [f"{key}={config.problem[key]:g}" for key, value in defaults.items() if config.problem[key] != value]
    return f"{name}[{','.join(changed)}]" if changed else name


def _inside(folder: Path) -> tuple[str, ...]:
    return tuple(METHODS) if (folder / SUITE).exists() else ("",)


def load_operator(
    folder: Path | str, problem: Problem | None = None, *, judged: bool = False, progress: Progress | None = None
) -> tuple[Problem, AbstractOperator]:
    """The problem and the trained operator of a run folder, the best so far by validation loss; give the `problem` if
    it is one of your own. If `judged`, it estimates the errors of its answers: a judge is made, which may take minutes,
    and kept in the folder for the next time.

        problem, operator = sp.load_operator("runs/heat-stable-0", judged=True)
        u, errors, estimate, trusted = operator.answer(a, problem.grid)
    """
    folder = Path(folder)
    if (folder / SUITE).exists():
        raise CheckpointError(
            f"'{folder}' holds several runs: give one of {', '.join(str(folder / name) for name in METHODS)}."
        )
    config = Run.open(folder).config
    problem = _same(problem, config) if problem else problem_of(config)
    operator, step = _load(folder, problem)
    if step < config.training.steps:
        warnings.warn(
            f"'{folder}' is trained to step {step} of {config.training.steps}: its operator is the best so far.",
            stacklevel=2,
        )
    return problem, judged_in(folder, operator, problem, progress=progress) if judged else operator


def judged_in(
    folder: Path, operator: AbstractOperator, problem: Problem, *, progress: Progress | None = None
) -> JudgedOperator:
    """The operator with the judge of its folder, which is made where there is none."""
    path, trials = folder / JUDGE, folder / TRIALS
    if not path.exists():
        with displayed(progress, problem.name) as told:
            save(make_judge(problem, trials=trials, progress=told), path, problem)
        trials.unlink(missing_ok=True)
    return JudgedOperator(operator, load(path, problem))


def _load(folder: Path, problem: Problem) -> tuple[AbstractOperator, int]:
    """The newest operator of a run, as it answers, and the step that it is from; what is solved needs none."""
    run = Run.open(folder)
    config = run.config
    if config.operator.kind == SOLVED:
        return load(folder / OPERATOR, problem), config.training.steps
    state = run.latest(state_shapes(problem, config))
    if state is None:
        raise CheckpointError(
            f"'{folder}' has no checkpoint yet: continue it with `stablepdenet resume {quote(str(folder))}`."
        )
    return with_refinement(state.trained, problem, config), int(state.step)
