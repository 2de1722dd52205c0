"""The tables of metadata records, whose numbers stand in every store."""

from __future__ import annotations

from spanwire.broker import metadata
from spanwire.stores.offline.inspection import TABLES


def test_each_table_has_a_number_and_a_name_of_its_own() -> None:
    numbers = [value for name, value in vars(metadata).items() if name.isupper() and not name.startswith("MAX_")]
    assert sorted(numbers) == sorted(TABLES), "two tables with one number read each other's records"
    assert len(set(TABLES.values())) == len(TABLES)
