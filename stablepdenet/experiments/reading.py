"""Reading what a user names: an input file, an object of a module."""

from __future__ import annotations

import importlib
import sys
import warnings
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from numpy import ndarray

from stablepdenet.errors import ConfigError, InputError


def read_inputs(path: Path, size: int) -> Float[ndarray, "batch size"]:
    """Inputs from a .npy or .csv file: one row of `size` finite numbers per input, as float32."""
    suffix = path.suffix.lower()
    if suffix not in (".npy", ".csv"):
        raise InputError(f"'{path}' must end in .npy or .csv.")
    try:
        if suffix == ".npy":
            # Mapped: a header that promises more than the file holds takes no memory.
            array = np.load(path, allow_pickle=False, mmap_mode="r")
        else:
            with warnings.catch_warnings():
                # An empty file is reported below, in one sentence.
                warnings.simplefilter("ignore", UserWarning)
                # Opened here, as NumPy would also take a compressed file of another name; no line is left out.
                with path.open(encoding="utf-8-sig") as file:
                    array = np.loadtxt(file, delimiter=",", ndmin=2, comments=None)
    except OSError as error:
        raise InputError(f"Cannot read '{path}': {error.strerror or 'no array in it'}.") from None
    except Exception:  # a foreign header may fail in any way
        form = "a NumPy array of numbers" if suffix == ".npy" else "rows of numbers with commas between, and no header"
        raise InputError(f"'{path}' cannot be read: it must hold {form}.") from None
    if not isinstance(array, ndarray) or array.dtype.kind not in "fiu":
        raise InputError(f"'{path}' cannot be read: it must hold a NumPy array of numbers.")
    if array.ndim not in (1, 2) or array.shape[-1] != size or not array.size:
        raise InputError(
            f"'{path}' holds an array of shape {array.shape}: this model needs rows of {size} values each."
        )
    with np.errstate(over="ignore"):
        rows = np.atleast_2d(array.astype(jnp.result_type(float)))
    bad = np.argwhere(~np.isfinite(rows))
    if len(bad):
        raise InputError(
            f"'{path}' has a value that is not finite in {rows.dtype}, in row {bad[0][0] + 1}, column {bad[0][1] + 1}: "
            "replace it."
        )
    return rows


def import_object(name: str) -> Any:
    """The object that MODULE:NAME names, the module being looked for in the working folder first."""
    module, _, attribute = name.partition(":")
    if not module or not attribute.isidentifier():
        raise ConfigError(f"'{name}' must be of the form MODULE:NAME, e.g. mymodel:solve for solve in mymodel.py.")
    sys.path.insert(0, str(Path.cwd()))
    try:
        found = importlib.import_module(module)
    except Exception as error:  # a module is anybody's code and may fail in any way
        first = next(iter(str(error).splitlines()), "")
        raise ConfigError(f"Cannot import '{module}' ({type(error).__name__}: {first}): name a module here.") from error
    if not hasattr(found, attribute):
        raise ConfigError(f"The module '{module}' has no '{attribute}': name an object that it defines.")
    return getattr(found, attribute)
