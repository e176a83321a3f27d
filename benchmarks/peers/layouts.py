"""Rates of a layer's three products in both layouts, in XLA and in PyTorch: why activations are features x points.

    python benchmarks/peers/layouts.py --peers .venv-peers/bin/python --out runs/bench   (or: make bench-layouts)

Each product is repeated on operands that stay in cache, on one pinned core. With h, dz of n points and 128 features and
a weight W they are: forward h W, input gradient dz W^T, weight gradient h^T dz; or all of them transposed.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

SHARED = str(Path(__file__).resolve().parents[1])
sys.path.append(SHARED)

import common

WIDTH, POINTS = 128, (100, 1000)
# layout: {product: (left, right)}, with a trailing T where it is transposed.
PRODUCTS = {
    "points x features": {"forward": ("h", "W"), "input gradient": ("h", "WT"), "weight gradient": ("hT", "h")},
    "features x points": {"forward": ("WT", "h"), "input gradient": ("W", "h"), "weight gradient": ("h", "hT")},
}
ROUNDS, OPERATIONS = 9, 2e9


def xla(shapes, turned):
    """A function that multiplies n times."""
    import jax
    import jax.numpy as jnp
    import numpy as np

    operands = [jnp.asarray(np.random.default_rng(0).normal(size=shape), jnp.float32) for shape in shapes]

    def body(i, total):
        # Tied to the counter, a product stays in the loop; behind the barrier, it stays whole.
        (a, b), _ = jax.lax.optimization_barrier((operands, i))
        result = (a.T if turned[0] else a) @ (b.T if turned[1] else b)
        return total + jax.lax.optimization_barrier(result)[0, 0]

    run = jax.jit(lambda n: jax.lax.fori_loop(0, n, body, jnp.zeros(())))
    return lambda n: run(n).block_until_ready()


def pytorch(shapes, turned):
    import torch

    torch.set_num_threads(1)
    a, b = (torch.randn(shape).T if turn else torch.randn(shape) for shape, turn in zip(shapes, turned, strict=True))
    out = torch.empty(a.shape[0], b.shape[1])

    def run(n):
        for _ in range(n):
            torch.mm(a, b, out=out)

    return run


def rate(make, layout, product, points):
    """The median rate in GFLOP/s."""
    rows = layout == "points x features"
    shapes = {"h": (points, WIDTH) if rows else (WIDTH, points), "W": (WIDTH, WIDTH)}
    names = PRODUCTS[layout][product]
    run = make([shapes[name[0]] for name in names], [name.endswith("T") for name in names])
    operations = 2 * points * WIDTH**2
    count, times = max(1, round(OPERATIONS / operations)), []
    run(count)
    for _ in range(ROUNDS):
        began = time.perf_counter()
        run(count)
        times.append((time.perf_counter() - began) / count)
    return operations / common.quartiles(times)[0] / 1e9


def rates(library):
    """{points: {product: {layout: GFLOP/s}}}."""
    make = {"xla": xla, "pytorch": pytorch}[library]
    products = ("forward", "input gradient", "weight gradient")
    return {
        n: {name: {layout: rate(make, layout, name, n) for layout in PRODUCTS} for name in products} for n in POINTS
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", type=Path, default=Path(".venv-peers/bin/python"), help="Python of the peers")
    parser.add_argument("--out", type=Path, default=Path("runs/bench"), help="folder for layouts.json")
    parser.add_argument("--library", choices=("xla", "pytorch"), help="measure one library here and print its rates")
    options = parser.parse_args()
    common.pin()
    if options.library:
        print(json.dumps(rates(options.library)))
        return
    common.stop_in_time(5)
    results = {}
    for library, python in (("xla", sys.executable), ("pytorch", options.peers.absolute())):
        command = [python, __file__, "--library", library]
        done = subprocess.run(command, env=os.environ | {"PYTHONPATH": SHARED}, stdout=subprocess.PIPE, text=True)
        if done.returncode:
            sys.exit(f"The rates of {library} could not be measured.")
        results[library] = json.loads(done.stdout)
    common.save(options.out / "layouts.json", {"rates": results})
    for library, table in results.items():
        for points, products in table.items():
            for name, row in products.items():
                cells = ", ".join(f"{layout} {value:.0f}" for layout, value in row.items())
                print(f"{library:8} {points:>5} points, {name:16} GFLOP/s: {cells}")


if __name__ == "__main__":
    main()
