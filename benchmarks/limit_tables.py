"""The tables of what is wrong (docs/robust.md) and of readings (docs/reproduction.md), for `reproduction.py`."""

import json

from document import DOCS, markdown

from stablepdenet.experiments.report import paper
from stablepdenet.training.objectives import METHODS

NUMBERS = ("pooled", "median", "largest", "last")


def limits():
    """Where robust is wrong, what the library says of it, and the command of each group."""
    groups = json.loads((DOCS / "limits.json").read_text(encoding="utf-8"))["groups"]
    rows = []
    for name, found in groups.items():
        for number, (title, row) in enumerate(found.items()):
            command = f"`--only {name}`" if number == 0 else ""
            cells = [f"{row[key]:.2g}" if key in row else "–" for key in NUMBERS]
            rows.append([title, *cells, call(row), row["predict"] or "nothing", command])
    header = ["inputs", "pooled", "median", "largest", "at the last time", "a call says", "`predict` says", "command"]
    return markdown(header, rows)


def call(row):
    """What one hears where the operator is made and called."""
    if row.get("made"):
        return "nothing, but `solve` warns"
    if row["call"]:
        return "warns"
    return "nothing" if "pooled" in row else "accepted without a word"


def readings():
    """The smallest validation loss and the error of each reading, and how far it is from the paper's."""
    rows = json.loads((DOCS / "readings.json").read_text(encoding="utf-8"))["rows"]
    cells = []
    for name, row in sorted(rows.items(), key=lambda item: item[1]["loss"]):
        ratio = row["error"] / printed(row["method"])
        cells.append([name, f"{row['loss']:.2g}", f"{row['step']:,}", f"{row['error']:.2g}", f"{ratio:.1f}"])
    return markdown(["changed", "validation loss", "at step", "clean error", "over the paper's"], cells)


def printed(method):
    """The paper's clean error at 3.5 pi, after 50,000 steps."""
    return paper.tables()["relative_l2"]["helmholtz-3.5pi"]["clean"][list(METHODS).index(method)]
