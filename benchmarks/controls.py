"""Does the network matter? The steps of `refine` in functions that nobody trained, beside the recipe robust:

    python benchmarks/controls.py --seeds 3 --out results [--problems burgers heat] [--busy]

Every control has the same lift and the same Gauss-Newton steps; only its functions differ. Rows go to OUT/controls as
they come, and what is there is kept; trainings and the answers for a POD lie in OUT/runs/controls. All may be
interrupted. `--busy` measures no times an answer: they need an idle machine. A seed draws the inputs of a POD, an
untrained trunk, the noise and the start of the common perturbation, which is found against the zoo's PI-DeepONet.
Fixed functions know no seed.
"""

import argparse
import dataclasses
import importlib.metadata
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy import ndarray

from stablepdenet import load_model, make_problem, points, refine, solve
from stablepdenet.auditing.session import Session
from stablepdenet.experiments import recipes
from stablepdenet.experiments.campaign import parse_seeds
from stablepdenet.experiments.campaign.job import PACKAGES, Kept
from stablepdenet.experiments.results import Result, load_result, path_of, save_result
from stablepdenet.experiments.runs import resolve
from stablepdenet.experiments.training import make_operator, train_in
from stablepdenet.experiments.training.making import FURTHER
from stablepdenet.functions.domain import Box
from stablepdenet.operators import AbstractBasisOperator, Ansatz, BoxFunctions, LinearOperator
from stablepdenet.problems import Problem

RECIPE, BASELINE, ROBUST = "controls", "pi", "robust"
STEPS = 3
EPS = (0.05, 0.10)
TESTS, HARDEST = 200, 4
# Inputs whose answers a POD is made of.
DRAWN = 1_000
# Fourier modes and Legendre degrees of the fixed functions; (2 modes + 1) degrees are 126, 248 and 492 functions.
SMALL, MIDDLE, LARGE = (10, 6), (15, 8), (20, 12)
# Points across and times of the equation's block, for as many functions at most: the steps need some times as many.
DENSER = ((130, None), (260, (64, 32)), (520, (82, 32)))
WIDTH = 128
# Wide trunks, and the seeds that they are trained from: a training of the widest takes many times as long.
WIDE = {256: (0, 1, 2), 512: (0,)}
BATCH, REPEATS, ALONE = 100, 2, 10
ANSWER = "answer_ms"


class Control(NamedTuple):
    """An operator, the seconds it took to make, and what it is."""

    operator: AbstractBasisOperator
    seconds: float
    settings: dict[str, Any]


class Together(AbstractBasisOperator):
    """The sum of two operators, with the functions of both in one basis; the last `lift` functions are the first's
    lift, the second has none."""

    first: AbstractBasisOperator
    second: AbstractBasisOperator
    lift: int = eqx.field(static=True)

    @property
    def lifted(self) -> bool:
        return self.first.lifted

    def coefficients(self, a: Float[Array, "batch m"]) -> Float[Array, "batch k"]:
        c = self.first.coefficients(a)
        own = c.shape[1] - self.lift
        return jnp.concatenate([c[:, :own], self.second.coefficients(a), c[:, own:]], axis=1)

    def basis(self, points: Float[Array, "n dim"]) -> Float[Array, "n k"]:
        found = self.first.basis(points)
        own = found.shape[1] - self.lift
        return jnp.concatenate([found[:, :own], self.second.basis(points), found[:, own:]], axis=1)


def at_rest(functions, count: int, problem: Problem, lift) -> LinearOperator:
    """Functions with coefficients of zero: whatever the answer has of them, the steps have found."""
    return LinearOperator(np.zeros((problem.inputs.size, count)), np.zeros(count), functions, lift)


def fixed(modes: int, degrees: int) -> Callable[[Float[Array, "n 2"]], Float[Array, "n k"]]:
    """t times trigonometric polynomials of x times Legendre polynomials of t: periodic, and zero where time begins."""
    products = BoxFunctions(Box(x=(0, 1), t=(0, 1), periodic="x"), (2 * modes + 1, degrees))
    return lambda points: points[:, 1:] * products(points)


def own_functions(operator: AbstractBasisOperator, problem: Problem) -> int:
    """How many functions there are beside the lift's."""
    a = jnp.zeros((1, problem.inputs.size))
    return operator.coefficients(a).shape[1] - (problem.inputs.size if operator.lifted else 0)


def denser(problem: Problem, functions: int) -> Problem:
    """The problem with enough points in its equation's block for so many functions."""
    size = next(size for most, size in DENSER if functions <= most)
    if size is None or not problem.refinement_blocks:
        return problem
    across, times = size
    inside = points.rows(across, points.gauss(times) ** 2)
    fine = tuple(dataclasses.replace(b, points=inside) if b.name == "pde" else b for b in problem.refinement_blocks)
    return dataclasses.replace(problem, refinement_blocks=fine)


def answers_of(operator: AbstractBasisOperator, problem: Problem, seed: int) -> Float[ndarray, "n k"]:
    """Coefficients of an operator's functions, for inputs drawn by the seed."""
    inputs = problem.sample(DRAWN, key=jax.random.key(seed))
    found = jax.jit(lambda a: operator.coefficients(a))(inputs)
    return np.asarray(found, np.float64)[:, : own_functions(operator, problem)]


def kept_answers(path: Path, source: Control, problem: Problem, seed: int) -> tuple[Float[ndarray, "n k"], float]:
    """The answers for a POD and the seconds that they took, from an earlier run if it got as far."""
    if not path.exists():
        began = time.perf_counter()
        answers = answers_of(source.operator, problem, seed)
        path.parent.mkdir(parents=True, exist_ok=True)
        np.savez(path, answers=answers, seconds=time.perf_counter() - began)
    with np.load(path) as stored:
        return stored["answers"], float(stored["seconds"])


def pod(operator: AbstractBasisOperator, problem: Problem, answers: Float[ndarray, "n k"], rank: int) -> LinearOperator:
    """The `rank` combinations of an operator's functions that its answers on the evaluation grid need most."""
    count = answers.shape[1]
    basis = np.asarray(operator.basis(jnp.asarray(problem.grid)), np.float64)[:, :count]
    left, sizes, _ = np.linalg.svd(answers @ np.linalg.qr(basis, mode="r").T, full_matrices=False)
    mix = answers.T @ (left[:, :rank] / sizes[:rank])
    # Compiled, so that the lift among the functions is not made in vain.
    functions = jax.jit(lambda points: operator.basis(points)[:, :count] @ jnp.asarray(mix, points.dtype))
    return at_rest(functions, rank, problem, problem.ansatz.lift if operator.lifted else None)


def refined(what: str, operator: AbstractBasisOperator, problem: Problem, *, before: float = 0.0) -> Control:
    """A control whose answers take Gauss-Newton steps; `before` are the seconds that its functions took."""
    began = time.perf_counter()
    count = own_functions(operator, problem)
    posed = denser(problem, count)
    found = refine(operator, posed, steps=STEPS, further=FURTHER)
    settings = {"what": what, "functions": count, "points": sum(len(b.points) for b in found.problem.blocks)}
    return Control(found, before + time.perf_counter() - began, settings)


def pods_of(
    title: str, source: Control, problem: Problem, ranks: Sequence[int], seed: int, out: Path
) -> Iterator[tuple[str, Control]]:
    """Controls of the POD of another one's answers, which all ranks share, with the time that these took."""
    path = folder_of(out, problem, seed) / f"{title.replace(' ', '-')}.npz"
    answers, drawn = kept_answers(path, source, problem, seed)
    for rank in ranks:
        began = time.perf_counter()
        functions = pod(source.operator, problem, answers, rank)
        before = source.seconds + drawn + time.perf_counter() - began
        what = f"the first {rank} POD functions of another one's answers, from zero"
        control = refined(what, functions, problem, before=before)
        told = control.settings | {"inputs": DRAWN, "of": source.settings}
        yield f"POD of {title}, {rank}", control._replace(settings=told)


def folder_of(out: Path, problem: Problem, seed: int) -> Path:
    return out / "runs" / RECIPE / problem.name / f"seed-{seed}"


def configured(problem: Problem, seed: int, changes: dict[str, Any]):
    """The configuration of robust as it is trained, whether or not the problem would be solved."""
    _, config = resolve(problem.name, {**recipes.trained(problem), **changes, "seed": seed})
    return dataclasses.replace(config, recipe=ROBUST)


def untrained(problem: Problem, seed: int, changes: dict[str, Any]) -> AbstractBasisOperator:
    return make_operator(problem, configured(problem, seed, changes), key=jax.random.key(seed))


def trained(problem: Problem, seed: int, width: int, out: Path) -> tuple[AbstractBasisOperator, float]:
    """A trained operator before its steps, and the seconds of its training."""
    config = configured(problem, seed, {"operator.width": width})
    folder = folder_of(out, problem, seed) / f"width-{width}"
    operator = train_in(folder, problem, config).trained
    return operator, Kept(config, folder).curves()["seconds"][-1]


def burgers(problem: Problem, seed: int, out: Path) -> Iterator[tuple[str, Control]]:
    """The quick ones first."""
    yield from with_robust(problem, *trained(problem, seed, WIDTH, out))
    what = "a DeepONet as robust trains it, before its training"
    yield "untrained trunk", refined(what, untrained(problem, seed, {}), problem)
    for size in (SMALL, MIDDLE, LARGE):
        count = (2 * size[0] + 1) * size[1]
        what = f"t x Fourier ({size[0]} modes) x Legendre ({size[1]} degrees), from zero"
        control = refined(what, at_rest(fixed(*size), count, problem, problem.ansatz.lift), problem)
        yield f"fixed, {count}", control
    yield from pods_of("fixed", control, problem, (64, WIDTH), seed, out)
    for width in (width for width, seeds in WIDE.items() if seed in seeds):
        operator, seconds = trained(problem, seed, width, out)
        wide = refined(f"the recipe robust, of width {width}", operator, problem, before=seconds)
        yield f"robust, width {width}", wide
        yield from pods_of(f"robust, width {width}", wide, problem, (WIDTH,), seed, out)


def with_robust(problem: Problem, operator: AbstractBasisOperator, seconds: float) -> Iterator[tuple[str, Control]]:
    """The recipe robust, without its branch, and with fixed functions beside its own."""
    yield ROBUST, refined("the recipe robust", operator, problem, before=seconds)
    count, size = own_functions(operator, problem), (2 * SMALL[0] + 1) * SMALL[1]
    functions = jax.jit(lambda points: operator.basis(points)[:, :count])
    alone = at_rest(functions, count, problem, problem.ansatz.lift)
    yield "robust's trunk, from zero", refined("robust without its branch", alone, problem, before=seconds)
    both = Together(operator, at_rest(fixed(*SMALL), size, problem, None), problem.inputs.size)
    what = "robust's functions and 126 fixed ones, from robust's branch"
    yield "robust and fixed together", refined(what, both, problem, before=seconds)


def solved(what: str, problem: Problem) -> Control:
    began = time.perf_counter()
    operator = solve(problem)
    settings = {"what": what, "functions": own_functions(operator, problem)}
    return Control(operator, time.perf_counter() - began, settings)


def heat(problem: Problem, seed: int, out: Path) -> Iterator[tuple[str, Control]]:
    """Robust has no network here, so that there is nothing to train; the ablation has the trained one."""
    lifted = dataclasses.replace(problem, ansatz=Ansatz(lift=problem.ansatz.lift))
    bare = dataclasses.replace(problem, ansatz=None)
    robust = solved("the recipe robust: solved in the lift and the corner functions", problem)
    yield ROBUST, robust
    source = solved("solved in the lift and polynomials", lifted)
    yield "lift and polynomials", source
    yield "polynomials", solved("solved in polynomials, without lift", bare)
    yield from pods_of("lift and polynomials", source, lifted, (robust.settings["functions"],), seed, out)
    for title, changes in {"soft": {"operator.constraints": "soft"}, "with lift": {}}.items():
        what = f"a DeepONet before its training, {title}"
        yield f"untrained trunk, {title}", refined(what, untrained(problem, seed, changes), problem)


def squares(solutions: Float[ndarray, "batch n"]) -> Float[ndarray, " batch"]:
    return np.sum(solutions**2, axis=1)


def pooled(above: Float[ndarray, " batch"], below: Float[ndarray, " batch"]) -> float:
    return float(np.sqrt(np.sum(above) / np.sum(below)))


def steepest(a: Float[ndarray, "batch m"]) -> Float[ndarray, " batch"]:
    """Places of all inputs, the one with the largest difference between neighbouring sensors first."""
    return np.argsort(-np.max(np.abs(np.diff(a, axis=1)), axis=1))


class Case(NamedTuple):
    """Perturbed inputs and their solutions."""

    attack: str
    setting: str
    inputs: Float[ndarray, "batch m"]
    truth: Float[ndarray, "batch n"]


def cases_of(session: Session) -> list[Case]:
    """The test inputs, under the common perturbation, and under random signs."""
    inputs = {("none", "clean"): session.clean}
    inputs |= {("common", f"{eps:.2f}"): session.common(eps).inputs for eps in EPS}
    inputs |= {("signs", f"{EPS[-1]:.2f}"): session.noise("noise", EPS[-1])}
    return [Case(*case, a, session.problem.reference(a)) for case, a in inputs.items()]


def errors(session: Session, cases: list[Case], name: str, control: Control) -> None:
    """Rows of one control's errors."""
    hardest = steepest(session.clean)[:HARDEST]
    for case in cases:
        above = squares(session.measurer.solve(control.operator, case.inputs) - case.truth)
        below = squares(case.truth)
        session.add(name, case.attack, case.setting, {"relative_l2": pooled(above, below)})
        if case.attack == "none":
            each = np.sqrt(above / below)
            spread = {"median": np.median(each), "p99": np.percentile(each, 99), "max": np.max(each)}
            session.add(name, "none", "clean", {f"relative_l2_{key}": value for key, value in spread.items()})
            session.add(name, "none", "hardest", {"relative_l2": pooled(above[hardest], below[hardest])})


def times(session: Session, controls: dict[str, Control]) -> None:
    """Rows of milliseconds an answer on the evaluation grid, its functions tabulated. All controls take turns, as the
    machine's slow minutes are everybody's, and the shortest turn counts."""
    grid, a = jnp.asarray(session.problem.grid), jnp.asarray(session.clean[:BATCH])
    answer = eqx.filter_jit(lambda operator, basis, a: operator.coefficients(a) @ basis.T)
    tables = {name: control.operator.basis(grid) for name, control in controls.items()}
    best: dict[tuple[str, int], float] = {}
    for turn in range(REPEATS + 1):
        for name, control in controls.items():
            for inputs, calls in ((a, 1), (a[:1], ALONE)):
                for _ in range(calls if turn else 1):
                    began = time.perf_counter()
                    jax.block_until_ready(answer(control.operator, tables[name], inputs))
                    taken = 1e3 * (time.perf_counter() - began) / len(inputs)
                    # The first turn compiles.
                    best[name, len(inputs)] = min(taken, best.get((name, len(inputs)), taken)) if turn else np.inf
    for (name, inputs), taken in best.items():
        session.add(name, "none", "clean", {f"{ANSWER}_{inputs}": taken})


def run(name: str, seed: int, out: Path, busy: bool) -> None:
    """Measures what an earlier run did not, and saves it control by control; times come last, of all together."""
    problem, path = make_problem(name), path_of(out, RECIPE, name, seed)
    identity = {"recipe": RECIPE, "seed": seed}
    session = Session({BASELINE: load_model(name, BASELINE)}, problem, tests=TESTS, eps=EPS, identity=identity)
    earlier = load_result(path) if path.exists() else empty(name, seed)
    session.audit.rows += [row for row in earlier.rows if not row["metric"].startswith(ANSWER)]
    known, cases = {row["method"] for row in earlier.rows}, cases_of(session)
    controls: dict[str, Control] = {}
    for title, control in CONTROLS[name](problem, seed, out):
        controls[title] = control
        if title not in known:
            errors(session, cases, title, control)
            save_result(out, extended(earlier, session, controls))
        print(f"{name} seed {seed}: {title}", flush=True)
    if not busy:
        times(session, controls)
        save_result(out, extended(earlier, session, controls))


def empty(name: str, seed: int) -> Result:
    versions = {package: importlib.metadata.version(package) for package in PACKAGES}
    return Result(RECIPE, name, seed, rows=[], settings={}, curves={}, seconds={}, versions=versions, notes=[])


def extended(earlier: Result, session: Session, controls: dict[str, Control]) -> Result:
    """An earlier result with what was measured since."""
    return dataclasses.replace(
        earlier,
        rows=session.audit.rows,
        settings=earlier.settings | {title: control.settings for title, control in controls.items()},
        seconds=earlier.seconds | {title: control.seconds for title, control in controls.items()},
        notes=session.audit.notes,
    )


CONTROLS = {"burgers": burgers, "heat": heat}


def is_done(path: Path) -> bool:
    """Whether a file has the times, which come last."""
    return path.exists() and any(row["metric"].startswith(ANSWER) for row in load_result(path).rows)


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--problems", nargs="+", default=list(CONTROLS), choices=list(CONTROLS))
    arguments.add_argument("--seeds", default="3")
    arguments.add_argument("--out", type=Path, default=Path("results"))
    arguments.add_argument("--busy", action="store_true", help="measure no times an answer")
    chosen = arguments.parse_args()
    for seed in parse_seeds(chosen.seeds):
        for name in chosen.problems:
            if not is_done(path_of(chosen.out, RECIPE, name, seed)):
                run(name, seed, chosen.out, chosen.busy)
                print(f"{name} seed {seed}: done", flush=True)
                # A process can hold only so many compiled programs.
                jax.clear_caches()


if __name__ == "__main__":
    main()
