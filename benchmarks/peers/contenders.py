"""Who takes part, and the driver's end of a contender's process."""

import contextlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from common import ONE_THREAD

OURS = "ours"
# name: what a reader sees, what worker.py starts, and whether it lives in the peers' environment.
CONTENDERS = {
    OURS: ("stablepdenet", "ours.Library", False),
    "zcs": ("DeepXDE, zero-coordinate shift", "deepxde_model.shifted", True),
    "zcs-stacked": ("DeepXDE, zcs, all blocks stacked", "deepxde_model.shifted_stacked", True),
    "default": ("DeepXDE", "deepxde_model.default", True),
    "default-stacked": ("DeepXDE, all blocks stacked", "deepxde_model.default_stacked", True),
    "torch": ("PyTorch by hand", "torch_autograd.Expanded", True),
    "jax": ("JAX, nested grad and vmap", "jax_pointwise.Pointwise", False),
    "xla-products": ("products alone, XLA", "ours.Products", False),
    "torch-products": ("products alone, PyTorch", "torch_products.Products", True),
}
PRODUCTS = ("xla-products", "torch-products")
# Of DeepXDE's models only the stacked shifted one sees clean and attacked residuals together, and none has an attack.
KINDS = {
    "pi": tuple(name for name in CONTENDERS if name not in PRODUCTS),
    "limit": (OURS, *PRODUCTS),
    "stable": (OURS, "zcs-stacked", "torch", "jax"),
    "refresh": (OURS, "torch", "jax"),
}
# Rounds below this many seconds are warmed up.
WARM = 1.0
HERE = Path(__file__).parent
ENVIRONMENT = ONE_THREAD | {"DDE_BACKEND": "pytorch", "PYTHONPATH": str(HERE.parent)}


class Failure(Exception):
    """Ends the benchmark with one sentence."""


class Contender:
    """A process that waits for its turn."""

    def __init__(self, name, kind, case, options, environment=None):
        self.name = name
        self.label, target, peer = CONTENDERS[name]
        self.times, self.told, self.steps, self.parts, self.spent, self.peak = {}, {}, 1, 1, 0.0, 0
        self.errors = tempfile.TemporaryFile("w+")  # noqa: SIM115  (closed in `end`)
        python = options.peers.absolute() if peer else sys.executable
        self.process = subprocess.Popen(
            [python, HERE / "worker.py", target, kind, case],
            env=os.environ | ENVIRONMENT | (environment or {}),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            text=True,
        )

    def begin(self):
        """Waits for the first step and keeps what it tells: its loss, its gradient's norm, and into how many equal
        parts it cuts what others do in one step."""
        self.told = self._answer()
        self.parts = self.told.pop("parts", 1)

    def choose_steps(self, budget):
        """As many steps to a round as fit into the budget, judged by a later step: the first one compiles."""
        seconds = self._time()
        self.steps = max(1, int(budget / (self._time() if seconds < WARM else seconds)))

    def round(self, number):
        # While others worked, caches and pages went cold: a short round is done once for nothing.
        if not self.times or self.times[max(self.times)] * self.steps < WARM * self.parts:
            self._time()
        seconds = self._time()
        self.times[number] = self.parts * seconds / self.steps
        self.spent += seconds

    def end(self):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()
        self.errors.close()

    def _time(self):
        # Where the process has ended, no answer comes, and that is reported.
        with contextlib.suppress(BrokenPipeError):
            print(json.dumps({"steps": self.steps}), file=self.process.stdin, flush=True)
        return self._answer()["seconds"]

    def _answer(self):
        line = self.process.stdout.readline()
        if not line:
            self.errors.seek(0)
            last = (self.errors.read().strip().splitlines() or ["it said nothing; perhaps memory ran out"])[-1]
            raise Failure(f"{self.label} ended before its time: {last}")
        answer = json.loads(line)
        self.peak = answer.pop("peak")
        return answer
