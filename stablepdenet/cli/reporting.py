"""Commands that show what was found: report."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from stablepdenet.cli.base import app
from stablepdenet.errors import ConfigError

FORMATS = ("html", "md", "tex", "json")


@app.command()
def report(
    results: Annotated[Path, typer.Argument(help="The folder that reproduce wrote.")],
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Default: report.html for html, else stdout.")
    ] = None,
    form: Annotated[str, typer.Option("--format", help="html (with figures), md, tex or json.")] = "html",
) -> None:
    """Set every table and figure of a campaign beside the paper's."""
    from stablepdenet.experiments.report.page import page
    from stablepdenet.experiments.report.paper_tables import tables_of
    from stablepdenet.experiments.report.render import to_markdown, to_tex
    from stablepdenet.experiments.report.settings import conditions
    from stablepdenet.experiments.report.summary import as_json, recipes_of, summarise
    from stablepdenet.experiments.results import load_results
    from stablepdenet.files import storage, write_synced

    if form not in FORMATS:
        raise ConfigError(f"--format {form!r} must be one of {', '.join(FORMATS)}.")
    found = load_results(results)
    summary = summarise(found)
    if form == "json":
        text = json.dumps(as_json(summary), indent=1) + "\n"
    elif form == "html":
        text = page(results, found, summary)
    else:
        recipes = recipes_of(found)
        tables = {recipe: tables_of(recipe, summary, found) for recipe in recipes}
        told = {recipe: conditions([result for result in found if result.recipe == recipe]) for recipe in recipes}
        text = to_markdown(tables, told) if form == "md" else to_tex(tables, told)
    target = output or (Path("report.html") if form == "html" else None)
    if target is None:
        return typer.echo(text, nl=False)
    with storage(target, "--output"):
        write_synced(target, text.encode())
    return typer.echo(f"Report: {target}", err=True)
