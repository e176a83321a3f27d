"""A table as data, and numbers as its text."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

# Significant digits of a number without a deviation, and at most of one with.
DIGITS, MOST = 5, 6


@dataclass(frozen=True)
class Cell:
    """Text of a table."""

    text: str
    bold: bool = False


@dataclass(frozen=True)
class Table:
    """A table: of text, or of `numbers` after its first column. `groups` are titles above the header, with how many
    columns each one spans."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    groups: tuple[tuple[str, int], ...] = ()
    numbers: bool = False


def text_table(title: str, header: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
    """A table of plain text."""
    return Table(title, tuple(header), tuple(tuple(Cell(text) for text in row) for row in rows))


def spread(mean: float, std: float | None) -> str:
    """`0.0234 ± 0.0012`: as many decimals as the deviation has with two digits."""
    if std is None or std < 10.0**-MOST * abs(mean):
        return f"{mean:#.{DIGITS}g}"
    if not 1e-4 <= max(abs(mean), std) < 1e5:
        return f"{mean:.3g} ± {std:.2g}"
    most = MOST - 1 - _exponent(max(abs(mean), std))
    decimals = max(0, min(1 - _exponent(std), most))
    return f"{mean:.{decimals}f} ± {std:.{decimals}f}"


def as_printed(value: float | None) -> str:
    """A number of the paper with all its digits."""
    return "–" if value is None else f"{value:.8g}"


def as_bound(value: float, text: str) -> str:
    """A certified relative error; one of 100 % or more, which answering zero has too, says nothing."""
    return text if value < 1.0 else f"no useful bound ({text})"


def quotient(value: float | None) -> str:
    """A ratio with two or three digits."""
    if value is None:
        return "–"
    return f"{value:.2f}" if 0.1 <= abs(value) < 100 else f"{value:.2g}"


def _exponent(value: float) -> int:
    return math.floor(math.log10(value))
