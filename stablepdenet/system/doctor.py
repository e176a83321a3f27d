"""What this machine offers and whether the installation works."""

from __future__ import annotations

import importlib.metadata
import platform
import time

import jax
import jax.numpy as jnp
import numpy as np

from stablepdenet.system.cores import usable

PACKAGES = ("stablepdenet", "jax", "jaxlib", "equinox", "optax", "numpy", "scipy", "safetensors")


def examine() -> dict[str, object]:
    """Versions, devices, the float32 product rate, the precision of a product and of local float64, and what is
    wrong."""
    problems = []
    report: dict[str, object] = {"python": platform.python_version(), "system": platform.platform()}
    report |= {name: importlib.metadata.version(name) for name in PACKAGES}
    report["devices"] = ", ".join(str(device) for device in jax.devices())
    report["cores"] = len(usable())
    report["GFLOP/s (float32)"] = round(_product_rate(), 1)

    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 128, 128))
    error = float(np.max(np.abs(np.asarray(jnp.float32(a) @ jnp.float32(b)) - a @ b)) / np.max(np.abs(a @ b)))
    report["float32 product error"] = f"{error:.1e}"
    if error > 1e-5:
        problems.append("float32 products are inaccurate: this device rounds them to a shorter format")
    with jax.enable_x64(True):
        if jnp.asarray(1.0).dtype != jnp.float64:
            problems.append("float64 is not available: reference solutions would be inaccurate")
    report["problems"] = "; ".join(problems)
    return report


def _product_rate(size: int = 1024, repeats: int = 5) -> float:
    """The best rate of a matrix product in 1e9 operations per second."""
    a = jnp.ones((size, size), jnp.float32)
    product = jax.jit(lambda a: a @ a)
    product(a).block_until_ready()
    times = []
    for _ in range(repeats):
        began = time.perf_counter()
        product(a).block_until_ready()
        times.append(time.perf_counter() - began)
    return 2e-9 * size**3 / min(times)
