"""This library: its own compiled training chunk."""

import jax
import jax.numpy as jnp
import numpy as np
from attack import SAMPLE
from case import Case
from export import program_of
from products import operations, products_alone

from stablepdenet.problems.physics import physics_loss, residual_map


def gradient_norm(optimiser):
    """From Adam's first moment after one step, which is a tenth of the gradient. By numpy: jax would compile for it."""
    moments = [np.ravel(leaf) for leaf in jax.tree.leaves(optimiser[0].mu)]
    return float(np.linalg.norm(np.concatenate(moments)) / 0.1)


class Products:
    """The matrix products of our PI step and nothing else."""

    def __init__(self, path, kind):
        found = Case(path).products
        self.alone, self.operations = products_alone(found), operations(found)

    def first(self):
        self.run(1)
        return {"operations": self.operations}

    def run(self, steps):
        jax.block_until_ready(self.alone(steps))


class Library:
    """Chunks of Program as `train` runs them: a PI step also deals its batch, which no peer's step does here."""

    def __init__(self, path, kind):
        self.case, self.kind = Case(path), kind
        self.program, self.state = program_of(self.case.problem, kind)
        self.functions = self.program.functions
        if kind == "stable":
            half = len(self.case.clean)
            cache = self.state.cache._replace(clean=self.case.both[:half], attacked=self.case.both[half:])
            self.state = self.state._replace(cache=cache, lambda_sens=jnp.asarray(self.case.lambda_sens))

    def first(self):
        if self.kind == "refresh":
            residuals = residual_map(self.state.operator, self.program.problem)
            attacked = self.program._refresh(self.state, self.functions).attacked[:SAMPLE]
            return {"loss": float(jnp.mean(physics_loss(residuals(attacked), self.program.problem)))}
        terms = self._advance(1)
        return {"loss": float(terms.loss), "gradient": gradient_norm(self.state.optimiser)}

    def run(self, steps):
        if self.kind == "refresh":
            for _ in range(steps):
                jax.block_until_ready(self.program._refresh(self.state, self.functions))
        else:
            jax.block_until_ready(self._advance(steps))

    def _advance(self, steps):
        stop = int(self.state.step) + steps
        if self.kind in ("pi", "limit"):
            self.state, terms = self.program._warm_up(self.state, self.functions, stop)
        else:
            self.state, terms = self.program._defend(self.state, stop)
        return terms
