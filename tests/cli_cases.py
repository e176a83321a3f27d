"""The command line, as a process and as a call, and a training that takes seconds."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path
from unittest import mock

from stablepdenet import cli
from stablepdenet.system.cores import usable

TINY = [
    "--set=operator.width=8",
    "--set=training.steps=20",
    "--set=training.warmup=10",
    "--set=training.refresh=5",
    "--set=training.checkpoint_every=10",
    "--set=attack.steps=2",
    "--set=problem.interior=10",
]
# Python does not show these unless it is asked to, but pytest does.
HIDDEN = (DeprecationWarning, PendingDeprecationWarning, ImportWarning, ResourceWarning)


def stablepdenet(*arguments, **options):
    """A command as a process of its own: for exit codes, signals, bytes of two processes."""
    command = [sys.executable, "-m", "stablepdenet", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, **options)


def called(*arguments, cwd="."):
    """The same command in this process, where jax is imported already; the process is left as it was."""
    words = ["stablepdenet", *map(str, arguments)]
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        with (
            contextlib.chdir(cwd),
            mock.patch.object(sys, "argv", words),
            mock.patch.dict(os.environ),
            warnings.catch_warnings(),
            _same_cores(),
            _forgotten_modules(),
            _written_to(out, 1),
            _written_to(err, 2),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
        ):
            for category in HIDDEN:
                warnings.simplefilter("ignore", category)
            code = _exit_code()
        out.seek(0)
        err.seek(0)
        return subprocess.CompletedProcess(words, code, out.read(), err.read())


def _exit_code():
    try:
        cli.main()
    except SystemExit as stop:
        return stop.code
    raise AssertionError("main ends by SystemExit")


@contextlib.contextmanager
def _same_cores():
    """A deterministic training keeps to one core; what follows it need not."""
    cores = usable()
    try:
        yield
    finally:
        if hasattr(os, "sched_setaffinity"):
            os.sched_setaffinity(0, cores)


@contextlib.contextmanager
def _forgotten_modules():
    """Modules of the working folder are forgotten: the next one may have others by the same names."""
    with mock.patch.object(sys, "path", list(sys.path)):
        try:
            yield
        finally:
            for name, module in list(sys.modules.items()):
                if Path(getattr(module, "__file__", None) or "/").parent == Path.cwd():
                    del sys.modules[name]


@contextlib.contextmanager
def _written_to(file, number):
    """What is written to a standard stream below Python goes to the file too."""
    kept = os.dup(number)
    os.dup2(file.fileno(), number)
    try:
        yield
    finally:
        file.flush()
        os.dup2(kept, number)
        os.close(kept)


def assert_refused(result, code, *words):
    """One sentence on stderr that holds the words, nothing on stdout, the agreed exit code."""
    assert result.returncode == code, (result.stdout, result.stderr)
    assert result.stdout == ""
    assert len(result.stderr.strip().splitlines()) == 1, result.stderr
    assert all(word in result.stderr for word in words), result.stderr
