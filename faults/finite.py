"""Numbers that are not finite, put into every block of every problem and into the optimiser; and what looking for them
costs."""

import dataclasses
import inspect
import itertools
import math
import statistics
import time
from pathlib import Path

import jax
import jax.numpy as jnp
from tiny import tiny

from stablepdenet.errors import DivergenceError
from stablepdenet.experiments.problems import make_problem
from stablepdenet.experiments.runs import configure
from stablepdenet.experiments.training import Run, initial_state, make_program, train_in
from stablepdenet.training import checkpoint

PROBLEMS = ("heat", "poisson", "burgers", "helmholtz")
METHODS = ("pi", "adv", "stable")
WARM = 20


def poisoned(problem, name):
    """The problem with a block whose residual is not finite."""

    def spoil(block):
        def residual(**known):
            return block.residual(**known) + jnp.nan

        residual.__signature__ = inspect.signature(block.residual)
        return dataclasses.replace(block, residual=residual)

    def spoiled(blocks):
        return tuple(spoil(block) if block.name == name else block for block in blocks)

    return dataclasses.replace(
        problem, blocks=spoiled(problem.blocks), refinement_blocks=spoiled(problem.refinement_blocks)
    )


def settings_for(problem, config):
    """The configuration of a training on that problem."""
    return dataclasses.replace(config, problem={**config.problem, "fingerprint": problem.fingerprint})


def inject(folder):
    """Each block by each method, on the problem's own points and on its fine ones, and the optimiser: in the first step
    and, where there is a defence, in one that is attacked. Noticed within a chunk, named, nothing stored."""
    counts = {"injected": 0, "noticed": 0, "named": 0, "published": 0}

    def expect(problem, config, start, part):
        counts["injected"] += 1
        own = Path(folder) / str(counts["injected"])
        try:
            train_in(own, problem, config, start=start)
        except DivergenceError as error:
            counts["noticed"] += f"step {int(start.step) + 1}:" in str(error)
            counts["named"] += f" {part} " in str(error)
        counts["published"] += bool(checkpoint.existing(own / "checkpoints")) or (own / "log.csv").exists()

    for name, method in itertools.product(PROBLEMS, METHODS):
        for points in ("own", "fine"):
            own = {"method.name": method, "training.steps": 60, "training.warmup": WARM, "training.points": points}
            problem, config = tiny(name, **own)
            if points == "fine" and not problem.refinement_blocks:
                continue
            program = make_program(problem, config)
            starts = [initial_state(problem, config)]
            if method != "pi":
                warm, _ = program.advance(starts[0], WARM)
                starts.append(program.advance(warm, WARM + 10)[0])
            for start in starts:
                for block in problem.blocks:
                    bad = poisoned(problem, block.name)
                    expect(bad, settings_for(bad, config), start, f"loss_{block.name}")
                broken = jax.tree.map(lambda x: x * jnp.nan if x.dtype == jnp.float32 else x, start.optimiser)
                expect(problem, config, start._replace(optimiser=broken), "optimiser")
    return counts


def cost(folder):
    """What the finite check, the log and a checkpoint take of the time of the steps between them, in percent, at the
    paper's sizes."""
    return {name: round(100 * _share(name, Path(folder)), 2) for name in PROBLEMS}


def _share(name, folder, steps=100):
    problem = make_problem(name)
    config = configure(problem, {"method.name": "pi"})
    program, run = make_program(problem, config), Run.create(folder / name, config)
    state, terms = jax.block_until_ready(program.advance(initial_state(problem, config), 10))
    row = {"step": 10}
    step = _median(lambda: jax.block_until_ready(program.advance(state, 10 + steps)), 5) / steps
    check = _median(lambda: program.sound(state, terms, math.inf), 51)
    log = _median(lambda: run.append(row), 51)
    save = _median(lambda: run.save(state), 11)
    return ((check + log) / config.training.log_every + save / config.training.checkpoint_every) / step


def _median(action, times):
    spent = []
    for _ in range(times + 1):  # the first compiles
        began = time.perf_counter()
        action()
        spent.append(time.perf_counter() - began)
    return statistics.median(spent[1:])
