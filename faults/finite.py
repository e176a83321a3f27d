"""Numbers that are not finite, put into every block of every problem and into the optimiser; and what looking for them
costs."""

import dataclasses
import inspect
import math
import time
from pathlib import Path

import jax
import jax.numpy as jnp
from tiny import tiny

from stablepdenet.errors import DivergenceError
from stablepdenet.problems import make_problem
from stablepdenet.runs import configure
from stablepdenet.training import Program, Run, checkpoint, train, train_in

PROBLEMS = ("heat", "poisson", "burgers", "helmholtz")
METHODS = ("pi", "adv", "stable")


def poisoned(problem, name):
    """The problem with a block whose residual is not finite."""

    def spoil(block):
        def residual(**known):
            return block.residual(**known) + jnp.nan

        residual.__signature__ = inspect.signature(block.residual)
        return dataclasses.replace(block, residual=residual)

    blocks = (spoil(block) if block.name == name else block for block in problem.blocks)
    return dataclasses.replace(problem, blocks=tuple(blocks))


def inject(folder):
    """Each block by each method, and the optimiser: noticed within a chunk, named, nothing stored."""
    counts = {"injected": 0, "noticed": 0, "named": 0, "published": 0}
    for name in PROBLEMS:
        for method in METHODS:
            problem, config = tiny(name, **{"method.name": method, "training.steps": 60, "training.warmup": 20})
            for block in problem.blocks:
                own = Path(folder) / f"{name}-{method}-{block.name}"
                counts["injected"] += 1
                try:
                    train_in(own, poisoned(problem, block.name), config)
                except DivergenceError as error:
                    counts["noticed"] += "step 1:" in str(error)
                    counts["named"] += f"loss_{block.name} " in str(error)
                counts["published"] += bool(checkpoint.existing(own / "checkpoints")) or (own / "log.csv").exists()
            program = Program(problem, config)
            state, _ = program.advance(program.initial(), 15)
            broken = jax.tree.map(lambda leaf: leaf * jnp.nan if leaf.dtype == jnp.float32 else leaf, state.optimiser)
            counts["injected"] += 1
            try:
                train(problem, config, start=state._replace(optimiser=broken))
            except DivergenceError as error:
                counts["noticed"] += "step 16:" in str(error)
                counts["named"] += "optimiser " in str(error)
    return counts


def cost(folder):
    """What the finite check and a checkpoint take of the time of the steps between them, at the paper's sizes, in
    percent."""
    return {name: round(100 * _share(name, Path(folder)), 2) for name in PROBLEMS}


def _share(name, folder, steps=100):
    problem = make_problem(name)
    config = configure(problem, {"method.name": "pi"})
    program, run = Program(problem, config), Run.create(folder / name, config)
    state, terms = jax.block_until_ready(program.advance(program.initial(), 10))
    run.append({"step": 10})
    step = _shortest(lambda: jax.block_until_ready(program.advance(state, 10 + steps)), 3) / steps
    check = _shortest(lambda: program.sound(state, terms, math.inf), 50)
    save = _shortest(lambda: run.save(state), 5)
    return (check / config.training.log_every + save / config.training.checkpoint_every) / step


def _shortest(action, times):
    spent = []
    for _ in range(times + 1):  # the first compiles
        began = time.perf_counter()
        action()
        spent.append(time.perf_counter() - began)
    return min(spent[1:])
