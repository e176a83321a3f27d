"""Figures as SVG inside of an HTML page."""

from __future__ import annotations

import html
import io
import re

import matplotlib
from matplotlib.figure import Figure

from stablepdenet.experiments.report.figures import STYLE

# The resolution of colour maps; everything else stays vector.
DPI = 150


def inline_svg(figure: Figure, *, prefix: str, label: str) -> str:
    """The figure as an <svg> element: the same bytes every time, no metadata, ids of its own by `prefix`."""
    target = io.StringIO()
    with matplotlib.rc_context(STYLE):
        figure.savefig(target, format="svg", dpi=DPI, metadata={"Date": None})
    text = target.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    # HTML knows the namespaces of its own.
    text = re.sub(r' (xmlns(:\w+)?|version)="[^"]*"', "", text)
    text = text.replace("xlink:href", "href")
    text = re.sub(r'\bid="', f'id="{prefix}-', text)
    text = re.sub(r'(href="|url\()#', rf"\1#{prefix}-", text)
    return text.replace("<svg", f'<svg role="img" aria-label="{html.escape(label)}"', 1).strip()
