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


class ConfigError(UserError):
    """An unknown problem, an unknown configuration key or an impossible value."""

    exit_code = 2


class InputError(UserError):
    """An input file or array that cannot be used."""

    exit_code = 3


class CheckpointError(UserError):
    """A run folder or checkpoint that is foreign, damaged or does not fit."""

    exit_code = 4


class DamageError(CheckpointError):
    """A checkpoint that is not what was written; one before it may still be good."""


class StorageError(UserError):
    """A folder or file that cannot be written."""

    exit_code = 5


class DivergenceError(UserError):
    """A training that produced a number that is not finite."""

    exit_code = 6


class AuditError(UserError):
    """An audit that could not measure everything it was asked for."""

    exit_code = 7


class Interrupted(UserError):
    """A training that was asked to stop and left a resumable run."""

    def __init__(self, signal_number: int, folder: Path):
        super().__init__(f"Stopped; continue with: stablepdenet resume {quote(str(folder))}")
        self.signal_number = signal_number
        self.exit_code = 128 + signal_number


def shown(value: Any) -> str:
    """A value in a sentence: not all of a long one, and Python refuses to print a very long number at all."""
    try:
        text = repr(value)
        return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."
    except ValueError:
        return "a number of thousands of digits"
