"""Reads the Parquet files that the Spark job has written, without Spark."""

from __future__ import annotations

from pathlib import Path

from ledger import ArchivedRow
from pyarrow import parquet


def archived_rows(directory: Path) -> list[ArchivedRow]:
    """All rows. Names that begin with ``_`` or ``.`` are Spark's own notes."""
    rows: list[ArchivedRow] = []
    for path in sorted(directory.glob("[!_.]*.parquet")):
        table = parquet.read_table(path, columns=["key", "symbol", "day", "price", "volume", "JMSRedelivered"])
        for row in table.to_pylist():
            rows.append(
                ArchivedRow(
                    key=row["key"],
                    symbol=row["symbol"],
                    date=f"{row['day']:%b} {row['day'].day} {row['day'].year}",
                    price=str(row["price"]),
                    volume=row["volume"],
                    redelivered=row["JMSRedelivered"],
                )
            )
    return rows
