"""The version of the format of states on the disk: offsets, `route.json`, staged messages, replays.

The number in ``route.json`` and in the note of a replay is also that of the files beside it.

A record without version has format 1. A change that an older Spanwire would misread raises `FORMAT`, and every format
that was ever released stays readable: ``tests/vectors/checkpoints`` has a checkpoint of each.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from spanwire.model.errors import ConfigurationError

FORMAT: Final = 1
KEY: Final = "format"
# what the reading of a damaged JSON file can raise
DAMAGED: Final = (OSError, ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError)


def check_format(record: Mapping[str, object], where: object) -> None:
    """Refuse a record that a newer Spanwire has written.

    Raises:
        ConfigurationError: the format is newer than `FORMAT`, or no format at all.
    """
    version = record.get(KEY, FORMAT)
    if type(version) is not int or version < 1:
        raise ConfigurationError(
            f"spanwire: {where} is damaged, because {str(version)[:20]!r} is no format; restore it from a copy, or "
            "take a new directory"
        )
    if version > FORMAT:
        raise ConfigurationError(
            f"spanwire: {where} has the format {str(version)[:20]!r} of a newer Spanwire, and this one reads "
            f"the formats 1 to {FORMAT}; use the newer one, or a new directory"
        )
