"""Parquet options for messages.

Parquet builds a dictionary of repeated values for every column, and drops a full dictionary. For columns with a
different value per message the dictionary is wasted work: two fifths of all work with bodies of a kilobyte. It also
keeps the least and the greatest value of each column, with two comparisons a row. Nobody looks for rows by the order of
bodies, so these comparisons are wasted, too: a tenth of the writing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

PARQUET: Final = "parquet"
DICTIONARY: Final = "parquet.enable.dictionary"  # properties of Parquet for Java; ``#column`` limits them to a column
STATISTICS: Final = "parquet.column.statistics.enabled"
BODIES: Final = ("properties.key_value.value.value", "text", "bytes", "body.value")
DISTINCT_COLUMNS: Final = (*BODIES, "JMSMessageID", "JMSTimestamp", "sequence")
OFF: Final = {DICTIONARY: DISTINCT_COLUMNS, STATISTICS: BODIES}


def with_parquet_options(form: str, options: Mapping[str, str]) -> dict[str, str]:
    """Return the options of a writer, for Parquet with defaults for messages.

    Args:
        form: the format of the writer. Only ``parquet`` gets defaults.
        options: the options of the program. A property that they name has no defaults.
    """
    if form != PARQUET:
        return dict(options)
    left = {name: columns for name, columns in OFF.items() if not any(option.startswith(name) for option in options)}
    return {**{f"{name}#{column}": "false" for name, columns in left.items() for column in columns}, **options}
