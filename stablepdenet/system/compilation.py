"""Compiled programs, kept between commands: most of a short command's time is compiling what was compiled before."""

from __future__ import annotations

import os
import stat
from pathlib import Path

# Entries are programs for this machine, so the folder is its owner's alone, and nobody else's is used.
PRIVATE = stat.S_IRWXU


def keep_compiled() -> None:
    """Tells JAX, before it is imported, to keep its compiled programs in the user's cache folder.

    JAX's own variables come first: whoever sets them, or empties JAX_COMPILATION_CACHE_DIR to have no cache, is obeyed.
    Without a folder that can be made there is no cache, and no error.
    """
    if "JAX_COMPILATION_CACHE_DIR" in os.environ:
        return
    try:
        home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        folder = Path(home) / "stablepdenet" / "compiled"
        folder.mkdir(mode=PRIVATE, parents=True, exist_ok=True)
        if folder.stat().st_uid != os.getuid() or folder.stat().st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            return
    except (OSError, RuntimeError, AttributeError):  # no folder, no home, no user numbers on this system
        return
    os.environ["JAX_COMPILATION_CACHE_DIR"] = str(folder)
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.1")
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "-1")
