"""What all commands share: the application, common options."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

# jax takes half a second to import: commands import what they need when they run, so that --help answers at once.
app = typer.Typer(
    help="Label-free neural PDE operators that stay right under noisy, unseen and hostile inputs.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

PROBLEM = "A name from `stablepdenet list`, or MODULE:NAME of your own Problem."
Json = Annotated[bool, typer.Option("--json", help="Print JSON on stdout.")]
Settings = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="E.g. training.steps=20000. Repeatable.")
]
Folder = Annotated[Path, typer.Argument(help="A run folder written by train.")]
