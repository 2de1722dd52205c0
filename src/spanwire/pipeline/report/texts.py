"""Formats values of tables for people, with foreign names made safe for a terminal."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from spanwire.model.text import printable as text_on_one_line
from spanwire.pipeline.report.model import Kind, Table, Value

NOTHING: Final = "–"
MAX_CELL: Final = 100  # characters of a cell on a terminal
GAP: Final = "  "
UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB")
STEP: Final = 1024
REPLACEMENT: Final = "\ufffd"  # the replacement character of Unicode
MANY_MS: Final = 10_000


def text_of(value: Value, kind: Kind) -> str:
    """Return one value as text."""
    if value is None:
        return NOTHING
    if isinstance(value, datetime):
        return value.strftime("%Y-%m-%d %H:%M:%S")
    if isinstance(value, str):
        return printable(value)
    if kind is Kind.BYTES:
        return octets_text(value)
    if kind is Kind.RATE:
        return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
    if kind is Kind.MILLIS:
        return f"{value / 1000:,.1f} s" if abs(value) >= MANY_MS else f"{value:,.4g} ms"
    return f"{value:,}"


def octets_text(count: int | float) -> str:
    """Return a number of octets with a unit."""
    size, unit = float(count), 0
    while size >= STEP and unit < len(UNITS) - 1:
        size /= STEP
        unit += 1
    return f"{size:,.0f} {UNITS[unit]}" if unit == 0 or size >= 100 else f"{size:,.3g} {UNITS[unit]}"


def printable(text: str) -> str:
    """Return a text without control characters and marks for the direction of writing."""
    return text_on_one_line(text, REPLACEMENT)


def is_number(kind: Kind) -> bool:
    """Return True if values of this kind are aligned to the right."""
    return kind not in (Kind.TEXT, Kind.TIME)


def table_text(table: Table) -> str:
    """Return a table for a terminal."""
    heads = [column.name for column in table.columns]
    kinds = [column.kind for column in table.columns]
    cells = [[short(text_of(value, kind)) for value, kind in zip(row, kinds, strict=True)] for row in table.rows]
    widths = [max(len(cells_of_row[index]) for cells_of_row in [heads, *cells]) for index in range(len(heads))]
    text_lines = [table.title, "=" * len(table.title)]
    for cells_of_row in [heads, *cells]:
        padded = [
            cell.rjust(width) if is_number(kind) else cell.ljust(width)
            for cell, width, kind in zip(cells_of_row, widths, kinds, strict=True)
        ]
        text_lines.append(GAP.join(padded).rstrip())
    if table.is_cut:
        text_lines.append(f"… {table.total - len(table.rows):,} more")
    return "\n".join(text_lines)


def short(text: str, most: int = MAX_CELL) -> str:
    """Return at most ``most`` characters; the middle is left out, because the end of an id says more."""
    if len(text) <= most:
        return text
    half = most // 2
    return f"{text[: half - 1]}…{text[-half:]}"
