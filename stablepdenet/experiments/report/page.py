"""The report as one HTML file: tables, figures, settings. Nothing in it is loaded or run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from stablepdenet.auditing.session import EXACT
from stablepdenet.experiments.report import gallery, names
from stablepdenet.experiments.report.figures import looks_of
from stablepdenet.experiments.report.gallery import Looks, Picture
from stablepdenet.experiments.report.paper_tables import tables_of
from stablepdenet.experiments.report.render import CAPTION, html_table, html_text
from stablepdenet.experiments.report.settings import conditions, notes_of, setting_tables
from stablepdenet.experiments.report.summary import Summary, recipes_of
from stablepdenet.experiments.report.svg import inline_svg
from stablepdenet.experiments.results import Result, load_fields

CSS = """
body { font: 16px/1.5 Georgia, "Times New Roman", serif; color: #111; background: #fff; max-width: 60rem;
  margin: 2rem auto; padding: 0 1rem; }
h1, h2, h3, nav, table, figcaption { font-family: "Helvetica Neue", Arial, sans-serif; }
h1, h2, h3 { line-height: 1.2; font-weight: 600; }
h2 { margin-top: 3rem; border-bottom: 1px solid #999; }
h3 { margin-top: 2rem; }
nav ul { padding-left: 1.2rem; }
a { color: #0b4f8a; }
.scroll { overflow-x: auto; margin: 1rem 0; }
table { border-collapse: collapse; font-size: 0.82rem; font-variant-numeric: tabular-nums; }
caption { text-align: left; font-weight: 600; padding-bottom: 0.3rem; }
th, td { padding: 0.2rem 0.6rem; text-align: left; vertical-align: top; }
table.numbers td, table.numbers th { white-space: nowrap; text-align: right; }
table.numbers td:first-child, table.numbers th:first-child { text-align: left; }
table.numbers th[colspan] { text-align: center; }
thead { border-top: 1.5px solid #111; border-bottom: 0.75px solid #111; }
tbody { border-bottom: 1.5px solid #111; }
figure { margin: 1.5rem 0; break-inside: avoid; }
figure svg { width: 100%; height: auto; }
figcaption { font-size: 0.85rem; color: #333; }
@media print { body { margin: 0; max-width: none; font-size: 11pt; } .scroll { overflow: visible; }
  table { font-size: 6.5pt; break-inside: avoid; } th, td { padding: 0.1rem 0.25rem; } }
"""


def page(folder: Path, results: Sequence[Result], summary: Summary) -> str:
    """The whole file; `folder` is where the results' fields are."""
    shown = {place.method for place in summary} | {name for result in results for name in result.curves}
    looks = looks_of(shown - {EXACT})
    recipes = recipes_of(results)
    sections = [
        (f"r{i}", f"Recipe {recipe}", list(_recipe(f"r{i}", recipe, folder, results, summary, looks)))
        for i, recipe in enumerate(recipes)
    ]
    told = [conditions([result for result in results if result.recipe == recipe]) for recipe in recipes]
    contents = "\n".join(
        f'<li><a href="#{name}">{html_text(title)}</a><ul>\n'
        + "\n".join(f'<li><a href="#{part}">{html_text(heading)}</a></li>' for part, heading, _ in parts)
        + "\n</ul></li>"
        for name, title, parts in sections
    )
    body = "\n".join(
        f'<section id="{name}">\n<h2>{html_text(title)}</h2>\n<p>{html_text(sentence)}</p>\n'
        + "\n".join(f'<h3 id="{part}">{html_text(heading)}</h3>\n{content}' for part, heading, content in parts)
        + "\n</section>"
        for (name, title, parts), sentence in zip(sections, told, strict=True)
    )
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>StablePDENet: results beside the paper</title>\n<style>{CSS}</style>\n</head>\n<body>\n"
        f"<h1>StablePDENet: results beside the paper</h1>\n<p>{html_text(CAPTION)}</p>\n"
        f"<nav><ul>\n{contents}\n</ul></nav>\n{body}\n</body>\n</html>\n"
    )


def _recipe(
    name: str, recipe: str, folder: Path, results: Sequence[Result], summary: Summary, looks: Looks
) -> Iterator[tuple[str, str, str]]:
    """The parts of one recipe: an id, a heading, what stands below it."""
    own = [result for result in results if result.recipe == recipe]
    parts = [(kind, "\n".join(map(html_table, tables))) for kind, tables in tables_of(recipe, summary, results).items()]
    for problem in names.problems_in_order(result.problem for result in own):
        of_problem = [result for result in own if result.problem == problem]
        pictures = _pictures(folder, of_problem, summary, looks)
        parts.append((f"Figures: {names.problem_title(problem)}", _figures(pictures, f"{name}-{len(parts)}")))
    lipschitz = gallery.lipschitz_pictures(summary, recipe, looks)
    parts.append(("Figures: Lipschitz constants", _figures(lipschitz, f"{name}-{len(parts)}")))
    parts.append(("Settings and software", "\n".join(html_table(table) for table in setting_tables(own) if table.rows)))
    notes = [f"<li>{html_text(note)} ({html_text(whose)})</li>" for note, whose in notes_of(own).items()]
    parts.append(("Notes", f"<ul>\n{''.join(notes)}\n</ul>" if notes else ""))
    for number, (heading, content) in enumerate(parts):
        if content:
            yield f"{name}-{number}", heading, content


def _pictures(folder: Path, results: Sequence[Result], summary: Summary, looks: Looks) -> Iterator[Picture]:
    """All figures of one recipe and problem; a single input is that of the first seed that kept one."""
    recipe, problem = results[0].recipe, results[0].problem
    for result in results:
        fields = load_fields(folder, result)
        if fields:
            yield from gallery.field_pictures(fields, problem, result.seed, looks)
            break
    yield from gallery.gains_pictures(summary, recipe, problem, looks)
    yield from gallery.radius_pictures(summary, recipe, problem)
    yield from gallery.training_pictures(results, looks)


def _figures(pictures: Iterator[Picture], prefix: str) -> str:
    drawn = [
        f"<figure>\n{inline_svg(picture.figure, prefix=f'{prefix}-{number}', label=picture.caption)}\n"
        f"<figcaption>{html_text(picture.caption)}</figcaption>\n</figure>"
        for number, picture in enumerate(pictures)
    ]
    return "\n".join(drawn)
