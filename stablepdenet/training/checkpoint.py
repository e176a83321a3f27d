"""Checkpoints: the training state in safetensors beside a JSON manifest. Nothing here runs code from a file.

A checkpoint is a folder `step-00005000` with `state.safetensors` and `manifest.json` (step, configuration, versions,
SHA-256). It is written under another name, flushed to disk and renamed, so a folder of that name is always complete.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import os
import shutil
from pathlib import Path
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
import safetensors
import safetensors.numpy
from numpy import ndarray

from stablepdenet.errors import CheckpointError
from stablepdenet.training.state import TrainState

FORMAT = "stablepdenet-checkpoint-1"
Tree = TypeVar("Tree")


def save(parent: Path, state: TrainState, config: dict[str, Any], *, keep: int) -> Path:
    """Writes the checkpoint of `state` below `parent` and removes all but the newest `keep`."""
    step = int(state.step)
    final, draft = parent / f"step-{step:08d}", parent / f".draft-{step:08d}"
    for stale in parent.glob(".draft-*"):
        shutil.rmtree(stale, ignore_errors=True)
    draft.mkdir(parents=True)
    weights = safetensors.numpy.save(to_arrays(state._replace(key=jax.random.key_data(state.key))))
    manifest = {
        "format": FORMAT,
        "step": step,
        "config": config,
        "versions": {name: importlib.metadata.version(name) for name in ("stablepdenet", "jax", "equinox", "optax")},
        "sha256": {"state.safetensors": hashlib.sha256(weights).hexdigest()},
    }
    write_synced(draft / "state.safetensors", weights)
    write_synced(draft / "manifest.json", json.dumps(manifest, indent=1).encode())
    _sync_folder(draft)
    shutil.rmtree(final, ignore_errors=True)
    draft.rename(final)
    _sync_folder(parent)
    for old in existing(parent)[:-keep]:
        shutil.rmtree(old, ignore_errors=True)
    return final


def existing(parent: Path) -> list[Path]:
    """The complete checkpoints below `parent`, oldest first."""
    return sorted(parent.glob("step-*"))


def newest_step(parent: Path) -> int:
    """The step of the newest checkpoint below `parent`, 0 without one."""
    found = existing(parent)
    return int(found[-1].name.removeprefix("step-")) if found else 0


def load(folder: Path, template: TrainState, config: dict[str, Any]) -> TrainState:
    """The state stored in `folder`, with the structure of `template`; anything that does not fit is refused."""
    manifest = _read_manifest(folder)
    if manifest.get("config") != config or folder.name != f"step-{manifest.get('step', -1):08d}":
        raise CheckpointError(f"Checkpoint '{folder}' belongs to another run: its manifest does not fit config.json.")
    try:
        data = (folder / "state.safetensors").read_bytes()
        if hashlib.sha256(data).hexdigest() != manifest["sha256"]["state.safetensors"]:
            raise CheckpointError(
                f"Checkpoint '{folder}' is damaged (state.safetensors does not match its checksum): delete that "
                "folder to go back to the checkpoint before it."
            )
        arrays = safetensors.numpy.load(data)
    except (OSError, KeyError, TypeError, safetensors.SafetensorError) as error:
        raise CheckpointError(
            f"Checkpoint '{folder}' cannot be read ({type(error).__name__}): delete that folder."
        ) from None
    bare = template._replace(key=jax.random.key_data(template.key))
    state = from_arrays(arrays, bare, f"Checkpoint '{folder}'")
    return state._replace(key=jax.random.wrap_key_data(state.key))


def _read_manifest(folder: Path) -> dict[str, Any]:
    try:
        manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise CheckpointError(
            f"'{folder}' is not a readable checkpoint (manifest.json: {type(error).__name__}): give a run folder that "
            "`train` wrote."
        ) from None
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise CheckpointError(f"'{folder}' is not a checkpoint of this version: its manifest does not say '{FORMAT}'.")
    return manifest


def to_arrays(tree: Any) -> dict[str, ndarray]:
    """Named arrays of all leaves, e.g. `operator.branch.layers[0].weight`."""
    leaves = jax.tree_util.tree_leaves_with_path(tree)
    # C order: safetensors stores the bytes as they lie.
    return {
        jax.tree_util.keystr(path).lstrip("."): np.ascontiguousarray(leaf).reshape(leaf.shape) for path, leaf in leaves
    }


def from_arrays(arrays: dict[str, ndarray], template: Tree, source: str) -> Tree:
    """A tree like `template` with these leaves; names, shapes and types must be the template's."""
    expected = to_arrays(template)
    for name in sorted(expected.keys() | arrays.keys()):
        want, got = expected.get(name), arrays.get(name)
        if want is None or got is None or want.shape != got.shape or want.dtype != got.dtype:
            raise CheckpointError(
                f"{source} does not belong to this configuration: '{name}' is {_describe(got)}, "
                f"expected {_describe(want)}."
            )
    return jax.tree.unflatten(jax.tree.structure(template), [jnp.asarray(arrays[name]) for name in expected])


def write_synced(path: Path, data: bytes) -> None:
    """Writes a file and waits until the disk has it."""
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _sync_folder(folder: Path) -> None:
    if os.name != "posix":
        return  # elsewhere a folder cannot be opened, and a rename is durable without it
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _describe(array: ndarray | None) -> str:
    return "missing" if array is None else f"{array.dtype}{list(array.shape)}"
