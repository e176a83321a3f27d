"""Files that are whole or absent, and trees of arrays as named arrays in them."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import safetensors
import safetensors.numpy
from numpy import ndarray

from stablepdenet.errors import CheckpointError, StorageError

Tree = TypeVar("Tree")


def write_synced(path: Path, data: bytes) -> None:
    """Writes a file in one piece, and waits until the disk has it: the old one or the new one is there, never half."""
    if path.is_symlink() or (path.exists() and not path.is_file()):
        path.write_bytes(data)  # a device or a pipe is written to, not replaced; a folder refuses
        return
    draft = path.with_name(f".{path.name}.draft")
    try:
        with draft.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, path)
    except OSError:
        with suppress(OSError):
            draft.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Waits until the disk has the folder's names."""
    if os.name != "posix":
        return  # elsewhere a folder cannot be opened, and a rename is durable without it
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_json(path: Path, content: Any, *, indent: int | None = 1) -> None:
    """Writes JSON in one piece."""
    write_synced(path, (json.dumps(content, indent=indent) + "\n").encode())


def read_json(path: Path) -> Any:
    """A run's JSON file, or a sentence that says it is not one."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        raise CheckpointError(
            f"'{path.parent}' is not a run folder (no readable {path.name}): give the folder that `train` wrote."
        ) from None


@contextmanager
def storage(folder: Path, option: str = "--out") -> Iterator[None]:
    """Turns what the file system refuses into one sentence that names the option to change."""
    try:
        yield
    except OSError as error:
        raise StorageError(
            f"Cannot write to '{folder}' ({error.strerror or error}): choose a writable {option}."
        ) from None


def to_arrays(tree: Any) -> dict[str, ndarray]:
    """The arrays of a tree by name, e.g. `operator.branch.layers[0].weight`; other leaves are left out."""
    # C order: safetensors stores the bytes as they lie.
    return {name: np.ascontiguousarray(leaf).reshape(leaf.shape) for name, leaf in _named(tree).items()}


def read_arrays(data: bytes) -> tuple[dict[str, ndarray], dict[str, str]]:
    """The arrays and the metadata of a safetensors file; a ValueError where it is none."""
    try:
        arrays = safetensors.numpy.load(data)
        # The package's own reader of metadata wants a file, and these may be inside of an archive.
        metadata = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])["__metadata__"]
    except (safetensors.SafetensorError, KeyError, TypeError, RecursionError):
        raise ValueError("no safetensors with metadata") from None
    return arrays, metadata


def from_arrays(arrays: dict[str, ndarray], template: Tree, source: str) -> Tree:
    """A tree like `template` with these arrays; names, shapes and types must be the template's. What is no array there
    is taken from it, and NumPy's arrays, which hold float64 whatever the precision, stay NumPy's."""
    expected = _named(template)
    for name in sorted(expected.keys() | arrays.keys()):
        want, got = expected.get(name), arrays.get(name)
        if want is None or got is None or want.shape != got.shape or want.dtype != got.dtype:
            raise CheckpointError(
                f"{source} does not belong to this configuration: '{name}' is {_describe(got)}, "
                f"expected {_describe(want)}."
            )
    leaves, structure = jax.tree_util.tree_flatten_with_path(template)
    return jax.tree.unflatten(structure, [_filled(arrays.get(_name(path)), leaf) for path, leaf in leaves])


def _filled(array: ndarray | None, leaf: Any) -> Any:
    if array is None or not _is_array(leaf):
        return leaf
    return array if isinstance(leaf, ndarray) else jnp.asarray(array)


def _named(tree: Any) -> dict[str, Any]:
    leaves = jax.tree_util.tree_leaves_with_path(tree)
    return {_name(path): leaf for path, leaf in leaves if _is_array(leaf)}


def _name(path: Any) -> str:
    return jax.tree_util.keystr(path).lstrip(".")


def _is_array(leaf: Any) -> bool:
    return eqx.is_array(leaf) or isinstance(leaf, jax.ShapeDtypeStruct)


def _describe(array: Any) -> str:
    return "missing" if array is None else f"{array.dtype}{list(array.shape)}"
