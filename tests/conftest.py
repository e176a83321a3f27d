"""Every array that passes a function of the package is checked against its annotated shape while the tests run."""

import os
import tempfile
from pathlib import Path

# One thread for products: two test processes share two cores, and equal bytes are promised on one core. Most of a
# test's time is compiling, which is shorter with fewer optimisations.
FLAGS = "--xla_cpu_multi_thread_eigen=false --xla_backend_optimization_level=1"
os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {FLAGS}"

# Many tests compile the same small programs: keep them for the length of the session, for all its processes. The first
# to come here makes the folder; the others inherit its name.
if "STABLEPDENET_TESTS" not in os.environ:
    _compiled = tempfile.TemporaryDirectory()
    os.environ["STABLEPDENET_TESTS"] = os.environ["JAX_COMPILATION_CACHE_DIR"] = _compiled.name
    os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0.1"
    os.environ["JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES"] = "-1"

import equinox as eqx
import jax
import pytest
from beartype import BeartypeConf, beartype
from jaxtyping import install_import_hook

# Where a float is asked for, an int will do.
checked = beartype(conf=BeartypeConf(is_pep484_tower=True))
install_import_hook("stablepdenet", "conftest.checked")


# One test a line; made by `make slow-tests`.
SLOW = Path(__file__).parent / "slow.txt"


def pytest_collection_modifyitems(items):
    """Marks what takes more than some seconds as slow: `make test` leaves it out, `.ci/run` does not."""
    names = set(SLOW.read_text(encoding="utf-8").splitlines())
    for item in items:
        if item.nodeid in names:
            item.add_marker(pytest.mark.slow)


@pytest.fixture(autouse=True, scope="module")
def _forget_compiled():
    """Every compiled program takes memory maps, of which a process may have 65,530: more than all tests need together.
    What is compiled is on disk too, so forgetting it costs little."""
    yield
    eqx.clear_caches()
    jax.clear_caches()
