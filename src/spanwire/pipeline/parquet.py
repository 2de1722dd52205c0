"""How messages are best written as Parquet.

Parquet looks for values that repeat in every column, in a dictionary that it gives up when it is full. In columns that
hold another value for each message that is work for nothing, and with bodies of a kilobyte two fifths of all work.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

PARQUET: Final = "parquet"
DICTIONARY: Final = "parquet.enable.dictionary"  # a property of the Parquet library for Java; of one column behind a #
DISTINCT_COLUMNS: Final = (
    "JMSMessageID",
    "JMSTimestamp",
    "properties.key_value.value.value",
    "text",
    "bytes",
    "body.value",
    "sequence",
)


def with_parquet_options(form: str, options: Mapping[str, str]) -> dict[str, str]:
    """The options of a writer, for Parquet with what suits messages; an option that is given stays."""
    if form != PARQUET or any(name.startswith(DICTIONARY) for name in options):
        return dict(options)
    return {**{f"{DICTIONARY}#{column}": "false" for column in DISTINCT_COLUMNS}, **options}
