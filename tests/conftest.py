"""Every array that passes a function of the package is checked against its annotated shape while the tests run."""

import os
import tempfile

# One thread for products: two test processes share two cores, and equal bytes are promised on one core.
os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_cpu_multi_thread_eigen=false"

import jax
from beartype import BeartypeConf, beartype
from jaxtyping import install_import_hook

# Where a float is asked for, an int will do.
checked = beartype(conf=BeartypeConf(is_pep484_tower=True))
install_import_hook("stablepdenet", "conftest.checked")

# Many tests compile the same small programs: keep them for the length of the session.
_compiled = tempfile.TemporaryDirectory()
jax.config.update("jax_compilation_cache_dir", _compiled.name)
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.1)
jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
