"""Exports the contents of a store as JSON Lines.

The reader may be another store, another version or another program.

The file has one JSON object per line, in UTF-8. Version 1:

| line | members |
|---|---|
| the first | ``spanwire-store-export``: 1, the version; ``store``: the id of the store, hexadecimal |
| a destination | ``destination``: its qualified name; ``messages``: the count of the messages on the next lines |
| a message | ``sequence``, ``priority``, ``expiration`` (milliseconds since 1970, 0: never; in ``schedule://`` the number of the job), ``redelivery_count``, ``format``: the number of the message format, ``bytes``: the message in base64; the message belongs to the destination above |
| a metadata record | ``table``, ``key`` and ``value`` in base64 |
| the last | ``end``: the count of destinations, ``messages`` and ``facts``: the counts of messages and metadata records |

A readable export has only one line for each message: ``line`` (the destination) and ``sequence``; the caller's
`Readable` adds the other members.
"""  # noqa: E501

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import BinaryIO, Final

from spanwire.broker.dispatch.message_formats import MessageFormats
from spanwire.broker.persistence.recovered import RecoveredDestination
from spanwire.model.destination import SCHEDULE, Destination
from spanwire.model.errors import SpanwireError, StoreError
from spanwire.model.message import Message
from spanwire.model.message_view import MessageView
from spanwire.stores.journal.segments.disk_port import Disk
from spanwire.stores.offline.contents import StoreContents, StoredMessage
from spanwire.stores.offline.inspection import Progress

EXPORT_NAME: Final = "spanwire-store-export"
EXPORT_VERSION: Final = 1

Readable = Callable[[MessageView], dict[str, object]]


def export_store(
    disk: Disk, formats: MessageFormats, output: BinaryIO, pattern: Destination | None, progress: Progress
) -> tuple[int, int]:
    """Write all destinations and metadata records; with ``pattern`` only the matching destinations.

    Returns:
        The number of messages and of metadata records.

    Raises:
        StoreError: a part of the store is unreadable.
    """
    contents = StoreContents(disk)
    destinations = [
        recovered for recovered in contents.destinations if pattern is None or pattern.matches(recovered.destination)
    ]
    destinations.sort(key=lambda recovered: recovered.destination.qualified_name)
    total = sum(len(recovered.sequences) for recovered in destinations)
    _write(output, {EXPORT_NAME: EXPORT_VERSION, "store": contents.recovery.store_id.hex()})
    done = 0
    for recovered in destinations:
        _write(output, {"destination": recovered.destination.qualified_name, "messages": len(recovered.sequences)})
        done += _export_destination(contents, recovered, formats, output, (done, total), progress)
    metadata = 0
    if pattern is None:
        for table, values in sorted(contents.metadata.items()):
            for key, value in sorted(values.items()):
                metadata += 1
                _write(output, {"table": table, "key": _base64(key), "value": _base64(value)})
    _write(output, {"end": len(destinations), "messages": done, "facts": metadata})
    progress("messages", done, done)
    return done, metadata


def export_readable(
    disk: Disk,
    formats: MessageFormats,
    output: BinaryIO,
    pattern: Destination | None,
    progress: Progress,
    readable: Readable,
) -> int:
    """Write the messages in the form of ``readable``, and return the number of messages.

    No import reads this form.

    Raises:
        StoreError: a part of the store is unreadable.
    """
    contents = StoreContents(disk)
    destinations = [
        recovered for recovered in contents.destinations if pattern is None or pattern.matches(recovered.destination)
    ]
    total = sum(len(recovered.sequences) for recovered in destinations)
    done = 0
    for recovered in sorted(destinations, key=lambda recovered: recovered.destination.qualified_name):
        for stored in contents.read(recovered):
            message = _decode(stored, recovered, formats)
            view = formats.view(message)
            view.redelivery_count = recovered.redeliveries.get(stored.sequence, 0)
            _write(
                output, {"line": recovered.destination.qualified_name, "sequence": stored.sequence, **readable(view)}
            )
            done += 1
            if done % 1000 == 0:
                progress("messages", done, total)
    progress("messages", done, done)
    return done


def _decode(stored: StoredMessage, recovered: RecoveredDestination, formats: MessageFormats) -> Message:
    try:
        return formats.index(stored.format_id, stored.raw)
    except SpanwireError as error:
        raise StoreError(
            f"message {stored.sequence} of {recovered.destination} cannot be read: {error}; run spanwire store check"
        ) from error


def _export_destination(
    contents: StoreContents,
    recovered: RecoveredDestination,
    formats: MessageFormats,
    output: BinaryIO,
    done: tuple[int, int],
    progress: Progress,
) -> int:
    count = 0
    numbers: dict[int, int] = {}
    if recovered.destination.kind == SCHEDULE:  # the field of the expiration has the number of the job
        numbers = dict(zip(recovered.expirations.sequences, recovered.expirations.wall_ms, strict=True))
    for stored in contents.read(recovered):
        message = _decode(stored, recovered, formats)
        _write(
            output,
            {
                "sequence": stored.sequence,
                "priority": message.priority,
                "expiration": numbers.get(stored.sequence, message.expiration_ms),
                "redelivery_count": recovered.redeliveries.get(stored.sequence, 0),
                "format": stored.format_id,
                "bytes": _base64(stored.raw),
            },
        )
        count += 1
        if count % 1000 == 0:
            progress("messages", done[0] + count, done[1])
    return count


def _write(output: BinaryIO, value: dict[str, object]) -> None:
    output.write(json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass") + b"\n")


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")
