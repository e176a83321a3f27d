"""One contender that trains and is measured in turns: python accuracy_worker.py contender case data seconds

It tells its first loss and gradient, then {"seconds", "step", "error"} after each chunk of training. The clock runs
from the first step on, which also compiles, and stands still while the error is measured.
"""

import itertools
import json
import os
import sys
import time

import numpy as np
from case import Case

# Errors are measured at times in equal ratios, the same for all, the first at this fraction of the last.
POINTS, EARLIEST = 30, 1 / 300


class Ours:
    """This library's chunks, as `train` runs them."""

    def __init__(self, path, data):
        from export import program_of

        self.program, self.state = program_of(Case(path).problem, "pi")
        self.data = data
        _ = self.program.functions  # drawn before the clock starts, as peers are given them

    def run(self, steps):
        self.state, self.terms = self.program.advance(self.state, int(self.state.step) + steps)
        self.terms.loss.block_until_ready()

    def told(self):
        """The loss and the gradient's norm of the first step, the latter from Adam's first moment."""
        import optax

        return {"loss": float(self.terms.loss), "gradient": float(optax.global_norm(self.state.optimiser[0].mu) / 0.1)}

    def predict(self):
        return np.asarray(self.state.operator(self.data["tests"], self.data["grid"]))


class DeepXDE:
    """DeepXDE's own train_step, on the batches that ours deals, in the same order."""

    def __init__(self, path, data, way):
        import deepxde_model

        contender = getattr(deepxde_model, way)(path, "pi")
        self.model, self.data, self.norm = contender.model, data, deepxde_model.gradient_norm
        self.batches = self._batches(*contender.batch)
        self.loss = float(self.model.outputs_losses_train(*contender.batch)[1].sum().detach())

    def _batches(self, inputs, targets, _):
        """What train_step takes. The functions' values at the points are computed once, as DeepXDE does it."""
        functions, points = self.data["functions"], inputs[1]
        values = self.model.data.func_space.eval_batch(functions, points)
        for order in itertools.cycle(self.data["orders"]):
            for chosen, at_points in zip(functions[order], values[order], strict=True):
                yield (chosen, points), targets, at_points

    def run(self, steps):
        for batch in itertools.islice(self.batches, steps):
            self.model.train_step(*batch)

    def told(self):
        return {"loss": self.loss, "gradient": self.norm(self.model.opt)}

    def predict(self):
        return self.model.predict((self.data["tests"], self.data["grid"]))


def start(name, path, data):
    ways = {"zcs": "shifted", "zcs-stacked": "shifted_stacked"}
    return Ours(path, data) if name == "ours" else DeepXDE(path, data, ways[name])


def curve(contender, data, seconds, tell):
    """Trains up to each of the times in turn, with as many steps as fit at the last chunk's speed."""
    reference, size = data["reference"], np.linalg.norm(data["reference"])
    marks = np.geomspace(EARLIEST * seconds, seconds, POINTS)
    clock, step, steps = 0.0, 0, 1
    while True:
        began = time.perf_counter()
        contender.run(steps)
        spent = time.perf_counter() - began
        if step == 0:
            tell(contender.told())
        clock, step = clock + spent, step + steps
        error = np.linalg.norm(contender.predict() - reference) / size
        tell({"seconds": clock, "step": step, "error": float(error)})
        # A chunk that ends a little early counts as having come to its mark.
        ahead = marks[marks > 1.02 * clock]
        if not len(ahead):
            return
        # The first step compiled; it takes a second one to know the speed.
        steps = max(1, round((ahead[0] - clock) * steps / spent)) if step > 1 else 1


def main():
    # Libraries print to stdout when they are imported; the answers get it for themselves.
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    name, case, path, seconds = sys.argv[1:]
    with np.load(path) as file:
        data = {name: file[name] for name in file.files}
    curve(start(name, case, data), data, float(seconds), lambda row: print(json.dumps(row), file=answers))


if __name__ == "__main__":
    main()
