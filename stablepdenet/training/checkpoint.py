"""Checkpoints: the training state in safetensors beside a JSON manifest. Nothing here runs code from a file.

A checkpoint is a folder `step-00005000` with `state.safetensors`, `manifest.json` (step, configuration, versions,
cores, the state's SHA-256) and `SHA256SUMS`, which covers both and which `sha256sum -c` understands. It is written
under another name, flushed to disk and renamed, so a folder of that name is complete, unless the disk damages it later.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import re
import shutil
from pathlib import Path
from typing import Any

import jax
import safetensors
import safetensors.numpy

from stablepdenet.errors import CheckpointError, DamageError
from stablepdenet.files import from_arrays, sync_folder, to_arrays, write_synced
from stablepdenet.system.cores import usable
from stablepdenet.training.state import TrainState

FORMAT = "stablepdenet-checkpoint-2"
STATE, MANIFEST, SUMS = "state.safetensors", "manifest.json", "SHA256SUMS"
PACKAGES = ("stablepdenet", "jax", "equinox", "optax")


def save(parent: Path, state: TrainState, config: dict[str, Any], *, keep: int) -> Path:
    """Writes the checkpoint of `state` below `parent` and removes all but the newest `keep`."""
    step = int(state.step)
    final, draft = parent / name_of(step), parent / f".draft-{step:08d}"
    _remove_drafts(parent)
    if not parent.exists():
        parent.mkdir(parents=True)
        sync_folder(parent.parent)
    draft.mkdir()
    weights = safetensors.numpy.save(to_arrays(state._replace(key=jax.random.key_data(state.key))))
    manifest = {
        "format": FORMAT,
        "step": step,
        "config": config,
        **_surroundings(),
        "sha256": {STATE: hashlib.sha256(weights).hexdigest()},
    }
    files = {STATE: weights, MANIFEST: json.dumps(manifest, indent=1).encode()}
    for name, data in {**files, SUMS: sums(files)}.items():
        write_synced(draft / name, data)
    if final.exists():  # damaged, or of a run that was taken back to an earlier one
        _retire(final)
    draft.rename(final)
    sync_folder(parent)
    # What is newer was damaged: a run goes on from the newest good one.
    kept = [path for path in existing(parent) if path.name <= final.name]
    for other in existing(parent):
        if other not in kept[-keep:]:
            _retire(other)
    _remove_drafts(parent)
    return final


def name_of(step: int) -> str:
    """A checkpoint's folder."""
    return f"step-{step:08d}"


def _surroundings() -> dict[str, Any]:
    """What decides the bytes of a step beside the state: versions, and how many cores there are."""
    return {
        "versions": {name: importlib.metadata.version(name) for name in PACKAGES},
        "cores": len(usable()),
    }


def changes(folder: Path) -> list[str]:
    """What is not as it was when the checkpoint was written, as "jax 0.9.0, now 0.10.2"."""
    manifest, here = _manifest(folder, read_files(folder)[MANIFEST]), _surroundings()
    stored = manifest.get("versions")
    before = {"cores": manifest.get("cores"), **(stored if isinstance(stored, dict) else {})}
    now = {"cores": here["cores"], **here["versions"]}
    return [f"{name} {before.get(name)}, now {value}" for name, value in now.items() if before.get(name) != value]


def _retire(folder: Path) -> None:
    """Renamed before it is removed: half of it must not be taken for a checkpoint."""
    folder.rename(folder.with_name(f".draft-{folder.name}-retired"))


def _remove_drafts(parent: Path) -> None:
    for stale in parent.glob(".draft-*"):
        shutil.rmtree(stale, ignore_errors=True)


def sums(files: dict[str, bytes]) -> bytes:
    """What `sha256sum` prints of the files."""
    return "".join(f"{hashlib.sha256(data).hexdigest()}  {name}\n" for name, data in files.items()).encode()


def existing(parent: Path) -> list[Path]:
    """The checkpoints below `parent`, oldest first."""
    return sorted(path for path in parent.glob("step-*") if re.fullmatch(r"step-[0-9]{8,}", path.name))


def load(folder: Path, template: TrainState, config: dict[str, Any]) -> TrainState:
    """The state stored in `folder`, with the structure of `template`, of which shapes are enough; anything that does
    not fit is refused, and what is damaged is told apart from what is foreign."""
    files = read_files(folder)
    manifest = _manifest(folder, files[MANIFEST])
    if manifest.get("config") != config or folder.name != name_of(manifest["step"]):
        raise CheckpointError(f"Checkpoint '{folder}' belongs to another run: its manifest does not fit config.json.")
    try:
        arrays = safetensors.numpy.load(files[STATE])
    except (safetensors.SafetensorError, KeyError):  # a type that NumPy lacks is looked up in vain
        raise CheckpointError(f"Checkpoint '{folder}' holds no safetensors in {STATE}: delete that folder.") from None
    bare = template._replace(key=jax.eval_shape(jax.random.key_data, template.key))
    state = from_arrays(arrays, bare, f"Checkpoint '{folder}'")
    return state._replace(key=jax.random.wrap_key_data(state.key))


def read_files(folder: Path) -> dict[str, bytes]:
    """The files of a checkpoint, if they are what was written."""
    files: dict[str, bytes] = {}
    for name in (STATE, MANIFEST, SUMS):
        try:
            files[name] = (folder / name).read_bytes()
        except OSError as error:
            if name == SUMS and _format(files[MANIFEST]) not in (None, FORMAT):
                _manifest(folder, files[MANIFEST])  # another version may have none
            raise DamageError(f"'{folder / name}' cannot be read ({error.strerror or error})") from None
    stored = files.pop(SUMS)
    if stored != sums(files):
        lines = stored.split(b"\n")
        wrong = next((name for name, data in files.items() if sums({name: data}).rstrip() not in lines), SUMS)
        raise DamageError(f"'{folder / wrong}' does not match its checksum")
    return files


def _parsed(data: bytes) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None


def _format(data: bytes) -> Any:
    """What a manifest says it is, or None where it says nothing."""
    manifest = _parsed(data)
    return manifest.get("format") if isinstance(manifest, dict) else None


def _manifest(folder: Path, data: bytes) -> dict[str, Any]:
    manifest = _parsed(data)
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT or not isinstance(manifest.get("step"), int):
        raise CheckpointError(f"'{folder}' is not a checkpoint of this version: its manifest does not say '{FORMAT}'.")
    return manifest
