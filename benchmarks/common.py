"""What the benchmarks share: one pinned core, a clock that waits for results, and where they ran.

Import it before jax: threads are counted when jax starts.
"""

import json
import os
import platform
import signal
import statistics
import sys
import time
from importlib.metadata import version
from pathlib import Path

ONE_THREAD = {
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false",
    "JAX_PLATFORMS": "cpu",
}
# What is timed: networks on the coordinates themselves, as every peer has them, and attacks on one batch.
TIMED = {"operator.embedding": "coordinates", "training.cache": "batch"}


def pin():
    """One core and one thread for this process and all that it starts."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    os.environ.update(ONE_THREAD)


def stop_in_time(minutes):
    """Ends the process with one sentence if it takes longer."""

    def late(*_):
        sys.exit(f"The benchmark did not end within {minutes} minutes; let it measure less.")

    if hasattr(signal, "SIGALRM"):
        signal.signal(signal.SIGALRM, late)
        signal.alarm(60 * minutes)


def seconds(function, *arguments):
    """The time of a call, its results ready."""
    import jax

    began = time.perf_counter()
    jax.block_until_ready(function(*arguments))
    return time.perf_counter() - began


def quartiles(times):
    """Median, lower and upper quartile."""
    low, middle, high = statistics.quantiles(times, n=4) if len(times) > 1 else times * 3
    return middle, low, high


def machine():
    """The processor, the system, and the versions that matter for speed."""
    model = platform.processor()
    info = Path("/proc/cpuinfo")
    if info.exists():
        lines = info.read_text().splitlines()
        model = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), model)
    return {
        "processor": model,
        "cores": os.cpu_count(),
        "system": platform.system(),
        "python": platform.python_version(),
        **{name: version(name) for name in ("stablepdenet", "jax", "jaxlib", "numpy")},
    }


def save(path, content):
    """Writes results as JSON, with the machine they were measured on."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"machine": machine(), **content}, indent=1) + "\n", encoding="utf-8")
