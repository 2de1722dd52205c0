"""Shows a report on a terminal, and as JSON."""

from __future__ import annotations

from datetime import datetime

from spanwire.pipeline.report.model import Report, Table, Value
from spanwire.pipeline.report.texts import printable, table_text


def report_text(report: Report) -> str:
    """Return all tables, then the notes, then the verdict, which stays visible at the end."""
    parts = [table_text(table) for table in report.tables]
    parts += [f"Note: {printable(note)}" for note in report.notes]
    return "\n\n".join([*parts, verdict(report)]) + "\n"


def verdict(report: Report) -> str:
    """Return the result of the report in one line."""
    named = ", ".join(
        f"{figure.value:,} {figure.name}" if not isinstance(figure.value, str) else f"{figure.name} {figure.value}"
        for figure in report.figures
    )
    if report.is_broken:
        return f"The ledger is broken: {named}."
    has_ledger = any(table.key == "ledger" for table in report.tables)
    return f"The ledger holds: {named}." if has_ledger else f"No record of what was sent: {named}."


def json_of(report: Report) -> dict[str, object]:
    """Return the report for programs: times as ISO 8601, rows as objects by column names."""
    return {
        "sources": report.sources,
        "begin": _plain(report.begin),
        "end": _plain(report.end),
        "ledgerHolds": not report.is_broken,
        "figures": {figure.name: figure.value for figure in report.figures},
        "tables": {table.key: _table(table) for table in report.tables},
        "notes": report.notes,
    }


def _table(table: Table) -> dict[str, object]:
    names = [column.name for column in table.columns]
    rows = [{name: _plain(value) for name, value in zip(names, row, strict=True)} for row in table.rows]
    return {"title": table.title, "total": table.total, "rows": rows}


def _plain(value: Value) -> str | int | float | None:
    return value.isoformat() if isinstance(value, datetime) else value
