"""Every defence in the same training time, with and without refinement, beside the recipe robust:

    python benchmarks/defences.py --out results [--problems burgers heat]

All have one architecture, one optimiser (Muon, as it needs the fewest steps) and the time that StablePDENet takes for
5,000 steps, measured first. Trainings may be interrupted; they lie in OUT/runs/defences. Rows go to OUT/defences;
what is there is skipped. The column of the worst case has 50 inputs, the others 200.
"""

import argparse
import importlib.metadata
import json
import time
from pathlib import Path

import jax
import jax.numpy as jnp

from stablepdenet import faster, load_model, make_problem, refine, solve
from stablepdenet.auditing.inputs import clean_case, setting_of
from stablepdenet.auditing.session import Session
from stablepdenet.experiments.campaign.job import PACKAGES, Kept
from stablepdenet.experiments.report import paper
from stablepdenet.experiments.results import Result, load_result, path_of, save_result
from stablepdenet.experiments.runs import configure
from stablepdenet.experiments.training import SOLVED, initial_state, make_program, train_in
from stablepdenet.experiments.training.run import load_config
from stablepdenet.files import write_json
from stablepdenet.operators import MovingFrameOperator
from stablepdenet.training.objectives import AbstractAttacking

RECIPE, SEED = "defences", 0
COMMON = {
    "training.optimiser": "muon",
    "training.schedule": "cosine",
    "training.learning_rate": 5e-3,
    "training.steps": 5_000,
    "training.warmup": 1_000,
    "training.refresh": 500,
}
MENU = ("pi", "noise", "fgsm", "adv", "trades", "jacobian", "increment", "spectral", "stable", "tangent")
# Perturbations that cost little are new in every epoch.
FRESH = ("noise", "fgsm", "jacobian")
VALIDATIONS = 10
EPS = (0.05, 0.10)
# Inputs of the errors, and of the search for each operator's own worst case.
TESTS, SEARCHED = 200, 50
TIMED, TURNS = 50, 5
REFINEMENTS = 3


def stopwatch(problem, config):
    """A function that takes some steps of a defence and says what one takes, its share of the refreshes included."""
    program = make_program(problem, config)
    refresh, defends = config.training.refresh, isinstance(program.objective, AbstractAttacking)

    def run(state, stop):
        began = time.perf_counter()
        state, _ = jax.block_until_ready(program.advance(state, stop))
        return state, time.perf_counter() - began

    # Where a refresh is due it comes with the step after it; the first of all, with the calibration, is not typical.
    start = config.training.warmup + refresh if defends else 0
    due = initial_state(problem, config)._replace(step=jnp.asarray(start))
    more = min(TIMED, refresh - 1)

    def turn():
        after, first = run(due, start + 1)
        # Where every step has its refresh, there are no others.
        step = run(after, start + 1 + more)[1] / more if more else 0.0
        return step + (max(first - step, 0.0) / refresh if defends else 0.0)

    turn()  # compiles
    return turn


def seconds_a_step(problem, configs):
    """Of each defence the shortest of a few turns, in which all take part: a machine's slow minutes are everybody's."""
    watches = {name: stopwatch(problem, config) for name, config in configs.items()}
    turns = [{name: watch() for name, watch in watches.items()} for _ in range(TURNS)]
    return {name: min(turn[name] for turn in turns) for name in configs}


def schedules(problem, seed, out):
    """Each defence's configuration, with as many steps as fit into StablePDENet's time, or as planned before."""
    path = out / "runs" / RECIPE / problem.name / "planned.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists():
        return {name: load_config(stored, path) for name, stored in json.loads(path.read_text()).items()}
    menu = {
        name: {"method.name": name, "seed": seed, **COMMON}
        | ({"training.refresh": problem.functions // problem.batch} if name in FRESH else {})
        for name in MENU
    }
    configs = {name: configure(problem, changes) for name, changes in menu.items()}
    cost = seconds_a_step(problem, configs)
    warm, steps = COMMON["training.warmup"], COMMON["training.steps"]
    budget = (steps - warm) * cost["stable"]
    planned = {}
    for name, changes in menu.items():
        # The warm-up is everybody's, and so is the number of times that what is best is asked.
        count = warm + round(budget / cost[name])
        own = {"training.steps": count, "training.validate_every": count // VALIDATIONS}
        planned[name] = configure(problem, {**changes, **own})
    write_json(path, {name: config.as_dict() for name, config in planned.items()})
    return planned


def robust(problem, seed, out):
    """The recipe robust and the seconds it took: solved here, or the zoo's, trained by `reproduce --recipe robust`."""
    config = configure(problem, {"seed": seed}, recipe="robust")
    if config.operator.kind == SOLVED:
        began = time.perf_counter()
        operator = solve(problem)
        return config, operator, time.perf_counter() - began
    rows = path_of(out, "robust", problem.name, seed)
    if not rows.exists():
        raise SystemExit(f"'{rows}' is missing: run stablepdenet reproduce {problem.name} --recipe robust --out {out}")
    operator = load_model(problem.name, "robust")
    return config, operator, load_result(rows).seconds["robust"]


def answer_seconds(operator, problem):
    """One input's answer on the evaluation grid's coefficients: the median of fifty calls."""
    inner = operator.operator if isinstance(operator, MovingFrameOperator) else operator
    solve = jax.jit(lambda a: inner.coefficients(a))
    inputs = problem.sample(50, key=jax.random.key(7))[:, None]
    jax.block_until_ready(solve(inputs[0]))
    times = []
    for a in inputs:
        began = time.perf_counter()
        jax.block_until_ready(solve(a))
        times.append(time.perf_counter() - began)
    return sorted(times)[len(times) // 2]


def measure(problem, recipe, seed, operators):
    """Rows: clean, common and white-box errors with their gains, and how long an answer takes."""
    identity = {"recipe": recipe, "seed": seed}
    session = Session(operators, problem, tests=TESTS, eps=EPS, identity=identity)
    session.measure(clean_case(session.clean))
    for eps in EPS:
        session.measure(session.common(eps))
    few = Session(operators, problem, tests=SEARCHED, eps=EPS, identity=identity)
    for name in operators:
        few.measure(few.perturbed("whitebox", EPS[-1], few.worst(name, EPS[-1]), name))
        few.add(name, "whitebox", setting_of(EPS[-1]), {"inputs": SEARCHED})
    for name, operator in operators.items():
        few.add(name, "none", "clean", {"answer_seconds": answer_seconds(operator, problem)})
    return session.audit.rows + few.audit.rows, list(dict.fromkeys(session.audit.notes + few.audit.notes))


def run(problem, seed, out):
    ours = robust(problem, seed, out)
    planned, curves, seconds, operators = schedules(problem, seed, out), {}, {}, {}
    for name, config in planned.items():
        folder = out / "runs" / RECIPE / problem.name / name
        operators[name] = train_in(folder, problem, config).trained
        curves[name] = Kept(config, folder).curves()
        seconds[name] = curves[name]["seconds"][-1]
        print(f"{problem.name}: {name}, {config.training.steps} steps, {seconds[name]:.0f} s", flush=True)
    refined = {f"{name}+refined": faster(refine(each, problem, steps=REFINEMENTS)) for name, each in operators.items()}
    planned["robust"], operators["robust"], seconds["robust"] = ours
    rows, notes = measure(problem, RECIPE, seed, {**operators, **refined})
    versions = {name: importlib.metadata.version(name) for name in PACKAGES}
    settings = {name: config.as_dict() for name, config in planned.items()}
    return Result(RECIPE, problem.name, seed, rows, settings, curves, seconds, versions, notes)


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--problems", nargs="+", default=list(paper.tables()["relative_l2"]))
    arguments.add_argument("--out", type=Path, default=Path("results"))
    chosen = arguments.parse_args()
    for name in chosen.problems:
        if not path_of(chosen.out, RECIPE, name, SEED).exists():
            save_result(chosen.out, run(make_problem(name), SEED, chosen.out))
            print(f"{name}: done", flush=True)
            # A process can hold only so many compiled programs.
            jax.clear_caches()


if __name__ == "__main__":
    main()
