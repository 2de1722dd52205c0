"""Reading the archive as Spark leaves it: several files, beside files that are none of its data."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
from archive import archived_rows
from ledger import ArchivedRow, Ledger
from prices import books
from pyarrow import parquet


def write(path: Path, key: str, day: date, redelivered: bool) -> None:
    columns = {
        "JMSMessageID": [f"ID:{key}"],
        "JMSRedelivered": [redelivered],
        "key": [key],
        "symbol": ["MSFT"],
        "day": [day],
        "volume": pa.array([100], pa.int32()),
        "price": pa.array([Decimal("39.81")], pa.decimal128(10, 2)),
    }
    parquet.write_table(pa.table(columns), path)


def test_rows_of_all_files_are_read_and_spark_s_notes_are_not(tmp_path: Path) -> None:
    write(tmp_path / "part-1.snappy.parquet", "stomp-MSFT/0", date(2000, 1, 1), False)
    write(tmp_path / "part-2.snappy.parquet", "stomp-MSFT/1", date(2000, 2, 1), True)
    (tmp_path / "_spark_metadata").mkdir()
    (tmp_path / ".part-1.snappy.parquet.crc").write_bytes(b"crc")
    assert archived_rows(tmp_path) == [
        ArchivedRow("stomp-MSFT/0", "MSFT", "Jan 1 2000", "39.81", 100, False),
        ArchivedRow("stomp-MSFT/1", "MSFT", "Feb 1 2000", "39.81", 100, True),
    ]


def test_what_was_sent_and_read_back_is_the_same_to_the_ledger(tmp_path: Path) -> None:
    orders = books(1, {"MSFT": "stomp"})["MSFT"]
    write(tmp_path / "part-1.snappy.parquet", orders[0].key, orders[0].day, False)
    ledger = Ledger(orders)
    ledger.book_archive(archived_rows(tmp_path))
    assert ledger.wrong == []
    assert ledger.archived == {orders[0].key: 1}
