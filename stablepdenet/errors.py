"""Errors that are the user's to fix: one sentence that names the field and the fix, and a stable exit code."""

from __future__ import annotations


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


class StorageError(UserError):
    """A folder or file that cannot be written."""

    exit_code = 5


class DivergenceError(UserError):
    """A training that produced a number that is not finite."""

    exit_code = 6
