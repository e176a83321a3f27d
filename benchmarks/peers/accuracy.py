"""Error against time: PI-DeepONets of this library and of DeepXDE, from the same weights, on one pinned core.

    python benchmarks/peers/accuracy.py --peers .venv-peers/bin/python --out runs/bench   (or: make bench-accuracy)

All take the same batches in the same order with the same optimiser, so they differ in how long a step takes. One after
the other they get the same time, compiling included; measuring their errors is not counted.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

SHARED = str(Path(__file__).resolve().parents[1])
sys.path.append(SHARED)

import accuracy_report
import common

LABELS = {
    "ours": "stablepdenet",
    "zcs": "DeepXDE, zero-coordinate shift",
    "zcs-stacked": "DeepXDE, zcs, all blocks stacked",
}
PROBLEMS = ("poisson", "heat", "burgers", "helmholtz-3.5pi")
# As in bench.py.
TOLERANCE = {"loss": 1e-4, "gradient": 1e-3}
TESTS = 200
# More epochs than a peer has time for; should it come to their end, it begins anew.
EPOCHS = 1000


def export_data(name, path):
    """What a case does not hold: all training functions, the order in which ours deals them, the test set."""
    # Only now: threads are counted when jax starts.
    import jax
    import jax.numpy as jnp
    import numpy as np
    from export import program_of

    from stablepdenet.auditing.inputs import evaluation_inputs

    program, state = program_of(name, "pi")
    problem, functions = program.problem, program.functions
    numbers = jnp.arange(len(functions))[:, None]
    epochs = jnp.arange(1 if program.schedule.batch == len(functions) else EPOCHS)
    orders = jax.lax.map(lambda epoch: program._deck(state, numbers, epoch)[..., 0], epochs)
    tests = np.asarray(evaluation_inputs(problem, TESTS))
    np.savez(
        path,
        functions=functions,
        orders=orders,
        tests=tests,
        grid=np.asarray(problem.grid, np.float32),
        reference=problem.reference(tests),
    )


def train(name, files, options):
    """What a contender's process tells: first its loss and gradient, then its points one by one."""
    python = sys.executable if name == "ours" else options.peers.absolute()
    worker = Path(__file__).with_name("accuracy_worker.py")
    # A program kept from an earlier run would hide what compiling takes.
    environment = {"DDE_BACKEND": "pytorch", "PYTHONPATH": SHARED, "JAX_ENABLE_COMPILATION_CACHE": "false"}
    with (
        tempfile.TemporaryFile("w+") as errors,
        subprocess.Popen(
            [python, worker, name, *files, str(options.seconds)],
            env=os.environ | environment,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        ) as process,
    ):
        try:
            yield from map(json.loads, process.stdout)
            if process.wait():
                errors.seek(0)
                last = (errors.read().strip().splitlines() or ["it said nothing; perhaps memory ran out"])[-1]
                sys.exit(f"{LABELS[name]} ended before its time: {last}")
        finally:
            process.kill()


def compare(problem, files, options):
    """{contender: its points} on one problem."""
    curves, expected = {}, None
    for name, label in LABELS.items():
        rows = train(name, files, options)
        told = next(rows)
        expected = expected or told
        for key, value in expected.items():
            if not abs(told[key] - value) <= TOLERANCE[key] * abs(value):
                rows.close()
                sys.exit(
                    f"{label} has another {key} on {problem} than ours at equal weights: {told[key]:.7g}, "
                    f"not {value:.7g}."
                )
        curves[name] = list(rows)
        last = curves[name][-1]
        print(f"{problem}, {label}: {last['step']} steps, error {last['error']:.4f}.", file=sys.stderr)
    return curves


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", type=Path, default=Path(".venv-peers/bin/python"), help="Python of the peers")
    parser.add_argument("--out", type=Path, default=Path("runs/bench"), help="folder for accuracy.json, accuracy.png")
    parser.add_argument("--problems", nargs="+", choices=PROBLEMS, default=("poisson", "heat"))
    parser.add_argument("--seconds", type=float, default=150.0, help="for one contender on one problem")
    options = parser.parse_args()
    if not options.peers.exists():
        sys.exit(f"The peers' environment is missing: there is no {options.peers}; run `make bench`.")
    common.pin()
    common.stop_in_time(10 + round(options.seconds * len(LABELS) * len(options.problems) / 30))
    from export import export

    results = {}
    with tempfile.TemporaryDirectory() as folder:
        for problem in options.problems:
            files = [Path(folder) / f"{problem}-{part}.npz" for part in ("case", "data")]
            export(problem, files[0])
            export_data(problem, files[1])
            results[problem] = compare(problem, files, options)
    accuracy_report.table(results, LABELS)
    common.save(options.out / "accuracy.json", {"labels": LABELS, "results": results})
    accuracy_report.picture(results, LABELS, options.out / "accuracy.png")
    print(f"\nWritten: {options.out / 'accuracy.json'}, {options.out / 'accuracy.png'}")


if __name__ == "__main__":
    main()
