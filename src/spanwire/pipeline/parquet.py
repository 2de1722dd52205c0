"""Parquet options for messages.

Parquet builds a dictionary of repeated values for every column, and drops a full dictionary. For columns with a
different value per message the dictionary is wasted work: two fifths of all work with bodies of a kilobyte.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

PARQUET: Final = "parquet"
DICTIONARY: Final = "parquet.enable.dictionary"  # property of Parquet for Java; ``#column`` limits it to a column
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
    """Return the options of a writer, for Parquet with defaults for messages.

    Args:
        form: the format of the writer. Only ``parquet`` gets defaults.
        options: the options of the program, which override the defaults.
    """
    if form != PARQUET or any(name.startswith(DICTIONARY) for name in options):
        return dict(options)
    return {**{f"{DICTIONARY}#{column}": "false" for column in DISTINCT_COLUMNS}, **options}
