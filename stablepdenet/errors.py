"""Errors that are the user's to fix: one sentence that names the field and the fix, and a stable exit code."""

from __future__ import annotations

from pathlib import Path
from shlex import quote
from typing import Any

# Characters of a wrong value that a sentence quotes.
LONGEST = 80


class UserError(Exception):
    """Something the user can put right. The command line prints the sentence and exits with `exit_code`."""

    exit_code = 2

    def __init_subclass__(cls, exit_code: int | None = None):
        cls.exit_code = cls.exit_code if exit_code is None else exit_code


class ConfigError(UserError, exit_code=2):
    """An unknown problem, an unknown configuration key or an impossible value."""


class InputError(UserError, exit_code=3):
    """An input file or array that cannot be used."""


class CheckpointError(UserError, exit_code=4):
    """A run folder or checkpoint that is foreign, damaged or does not fit."""


class DamageError(CheckpointError):
    """A checkpoint that is not what was written; one before it may still be good."""


class StorageError(UserError, exit_code=5):
    """A folder or file that cannot be written."""


class Interrupted(UserError):
    """A training that was asked to stop and left a resumable run."""

    def __init__(self, signal_number: int, folder: Path):
        super().__init__(f"Stopped; continue with: stablepdenet resume {quote(str(folder))}")
        self.signal_number = signal_number
        self.exit_code = 128 + signal_number


class DivergenceError(UserError, exit_code=6):
    """A training that produced a number that is not finite."""


class AuditError(UserError, exit_code=7):
    """An audit that could not measure everything it was asked for."""


def shown(value: Any) -> str:
    """A value in a sentence: not all of a long one, and Python refuses to print a very long number at all."""
    try:
        text = repr(value)
        return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."
    except ValueError:
        return "a number of thousands of digits"
