"""The command line: parsing and printing only. Data goes to stdout, progress and errors to stderr.

Exit codes: 0 done; 1 a check that failed (doctor, evaluate --replay), or a campaign in several ways at once; 2 wrong
usage or configuration; 3 unusable input file; 4 foreign or damaged run, checkpoint or operator; 5 folder not writable;
6 a training that diverged; 7 an audit of a campaign that failed; 129, 130 and 143 stopped by SIGHUP, Ctrl-C or SIGTERM
with a resumable run.
"""

from __future__ import annotations

import sys
import warnings
from typing import Annotated, NoReturn

import typer

from stablepdenet import __version__

# Importing a module registers its commands, in the order of the help page.
from stablepdenet.cli import answering, inspecting, measuring, reporting, reproducing, training  # noqa: F401
from stablepdenet.cli.base import app
from stablepdenet.errors import ConfigError, StorageError, UserError
from stablepdenet.system.compilation import keep_compiled


@app.callback(invoke_without_command=True)
def _root(version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False) -> None:
    if version:
        typer.echo(__version__)
        raise typer.Exit


def _fail(message: str, code: int) -> NoReturn:
    print(f"stablepdenet: {message}", file=sys.stderr)
    raise SystemExit(code)


def main() -> None:
    """Runs the command line; whatever is the user's to fix or to continue ends in one sentence."""
    keep_compiled()
    warnings.showwarning = lambda message, *_: print(f"stablepdenet: warning: {message}", file=sys.stderr)
    try:
        code = app(standalone_mode=False)
    except UserError as error:
        _fail(str(error), error.exit_code)
    except typer.TyperException as error:
        message = error.format_message().replace("\n", " ")
        # Called without a command it has printed its help and has nothing to add.
        _fail(message, error.exit_code) if message else sys.exit(error.exit_code)
    except OSError as error:
        _fail(f"Cannot write the output: {error.strerror or error}.", StorageError.exit_code)
    except (typer.Abort, KeyboardInterrupt):
        _fail("Interrupted.", 130)
    except MemoryError:
        _fail("Not enough memory: lower the sizes that were asked for.", ConfigError.exit_code)
    except RuntimeError as error:
        # JAX's own way to say so.
        if "RESOURCE_EXHAUSTED" not in str(error):
            raise
        _fail("Not enough memory: lower the sizes that were asked for.", ConfigError.exit_code)
    raise SystemExit(code if isinstance(code, int) else 0)
