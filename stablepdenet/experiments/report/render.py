"""Tables as Markdown, LaTeX and HTML."""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from stablepdenet.experiments.report.cells import Cell, Table

# Recipe -> kind -> tables.
Tables = Mapping[str, Mapping[str, Sequence[Table]]]

CAPTION = (
    "Mean ± standard deviation over the seeds; ratio: ours over the paper's. Bold marks the smallest of a row, among "
    "Lipschitz constants the closest to the exact one."
)
# Symbols with an index: κ_E, u_xx.
INDEXED = re.compile(r"(κ|(?<!\w)u)_([A-Za-z]+)")
TEX_INDEXED = re.compile(r"(κ|(?<!\w)u)\\_([A-Za-z]+)")
TEX_SPECIAL = {
    "\\": r"\textbackslash{}",
    **{character: f"\\{character}" for character in "&%$#_{}"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\textquotedbl{}",
}
TEX_SYMBOLS = {
    "α": r"$\alpha$",
    "ε": r"$\varepsilon$",
    "κ": r"$\kappa$",
    "ν": r"$\nu$",
    "π": r"$\pi$",
    "±": r"$\pm$",
    "−": "$-$",
    "–": "--",
    "²": "$^2$",
}
PREAMBLE = r"""\documentclass[11pt]{article}
\usepackage[T1]{fontenc}
\usepackage[utf8]{inputenc}
\usepackage[margin=2cm]{geometry}
\usepackage{booktabs, float, graphicx}
\begin{document}
"""


def to_markdown(tables: Tables, told: Mapping[str, str]) -> str:
    """All tables, GitHub's dialect; each recipe says first what its numbers are of."""
    parts = ["# Results beside the paper", markdown_text(CAPTION)]
    for recipe, kinds in tables.items():
        parts += [f"## Recipe {markdown_text(recipe)}", markdown_text(told[recipe])]
        for kind, members in kinds.items():
            parts += [f"### {markdown_text(kind)}", *map(markdown_table, members)]
    return "\n\n".join(parts) + "\n"


def to_tex(tables: Tables, told: Mapping[str, str]) -> str:
    """All tables as a document; each can be copied into another that loads booktabs, float and graphicx."""
    parts = [f"{PREAMBLE}\\section*{{Results beside the paper}}\n{tex_text(CAPTION)}"]
    for recipe, kinds in tables.items():
        parts += [f"\\section*{{Recipe {tex_text(recipe)}}}", tex_text(told[recipe])]
        for kind, members in kinds.items():
            parts += [f"\\subsection*{{{tex_text(kind)}}}", *map(tex_table, members)]
    return "\n\n".join([*parts, "\\end{document}\n"])


def markdown_table(table: Table) -> str:
    """A pipe table under its title; a group's title stands over its first column."""
    header = list(table.header)
    for (first, _), title in zip(_ranges(table), (title for title, _ in table.groups if title), strict=True):
        header[first - 1] = title
    aligned = [":--", *["--:" if table.numbers else ":--"] * (len(header) - 1)]
    rows = [[_marked(cell, "**{}**", markdown_text) for cell in row] for row in table.rows]
    lines = [[markdown_text(text) for text in header], aligned, *rows]
    return f"**{markdown_text(table.title)}**\n\n" + "\n".join(f"| {' | '.join(line)} |" for line in lines)


def tex_table(table: Table) -> str:
    """A booktabs table, made smaller where it is wider than the page."""
    columns = "l" + ("r" if table.numbers else "l") * (len(table.header) - 1)
    lines = [r"\toprule"]
    if table.groups:
        lines.append(" & ".join(f"\\multicolumn{{{span}}}{{c}}{{{tex_text(title)}}}" for title, span in table.groups))
        lines[-1] += r" \\"
        lines.append(" ".join(f"\\cmidrule(lr){{{first}-{last}}}" for first, last in _ranges(table)))
    lines += [" & ".join(map(tex_text, table.header)) + r" \\", r"\midrule"]
    lines += [" & ".join(_marked(cell, "\\textbf{{{}}}", tex_text) for cell in row) + r" \\" for row in table.rows]
    body = "\n".join([*lines, r"\bottomrule"])
    return (
        f"\\begin{{table}}[H]\n\\centering\n\\caption{{{tex_text(table.title)}}}\n\\small\n"
        "\\resizebox{\\ifdim\\width>\\linewidth\\linewidth\\else\\width\\fi}{!}{%\n"
        f"\\begin{{tabular}}{{{columns}}}\n{body}\n\\end{{tabular}}}}\n\\end{{table}}"
    )


def html_table(table: Table) -> str:
    """A table that scrolls where it is wider than the page."""
    groups = "".join(f'<th colspan="{span}">{html_text(title)}</th>' for title, span in table.groups)
    header = "".join(f"<th>{html_text(text)}</th>" for text in table.header)
    cells = [[f"<td>{_marked(cell, '<b>{}</b>', html_text)}</td>" for cell in row] for row in table.rows]
    rows = "\n".join(f"<tr>{''.join(row)}</tr>" for row in cells)
    head = (f"<tr>{groups}</tr>" if groups else "") + f"<tr>{header}</tr>"
    kind = "numbers" if table.numbers else "text"
    return (
        f'<div class="scroll"><table class="{kind}"><caption>{html_text(table.title)}</caption>\n'
        f"<thead>{head}</thead>\n<tbody>\n{rows}\n</tbody></table></div>"
    )


def markdown_text(text: str) -> str:
    """Text that means nothing to Markdown; an underscore inside of a word needs no care."""
    return re.sub(r"([\\`*|\[\]])", r"\\\1", text.replace("&", "&amp;").replace("<", "&lt;").replace("\n", " "))


def tex_text(text: str) -> str:
    """Text that compiles whatever it is, with symbols as mathematics; unknown letters become question marks."""
    plain = "".join(TEX_SPECIAL.get(character, character) for character in text.replace("\n", " "))
    indexed = TEX_INDEXED.sub(lambda found: "$" + found[1].replace("κ", r"\kappa") + f"_{{{found[2]}}}$", plain)
    known = "".join(TEX_SYMBOLS.get(character, character) for character in indexed)
    return known.encode("latin-1", "replace").decode("latin-1")


def html_text(text: str) -> str:
    """Escaped, with indices set low."""
    return INDEXED.sub(r"\1<sub>\2</sub>", html.escape(text))


def _marked(cell: Cell, bold: str, write: Callable[[str], str]) -> str:
    return bold.format(write(cell.text)) if cell.bold else write(cell.text)


def _ranges(table: Table) -> Iterator[tuple[int, int]]:
    """The first and the last column under each title."""
    first = 1
    for title, span in table.groups:
        if title:
            yield first, first + span - 1
        first += span
