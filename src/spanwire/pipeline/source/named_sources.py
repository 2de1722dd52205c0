"""The sources of a query with the option ``brokers``: each broker with each destination.

The name of a source, such as ``tcp://a:61616 queue://ORDERS``, stands in checkpoints, in the progress of the query and,
encoded, in the name of a directory. It has neither credentials nor options of the URL.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final
from urllib.parse import quote, unquote

from spanwire.model.destination import Destination, parse_destination
from spanwire.model.errors import InvalidDestinationError
from spanwire.pipeline.broker_list import place_of
from spanwire.pipeline.options import ReadOptions
from spanwire.pipeline.storage.location import child, is_uri

MAX_DIRECTORY: Final = 200  # characters of a directory's name; file systems allow 255
MAX_CURSOR: Final = 200  # characters of a cursor's name at the control destination
CURSOR_NAME: Final = re.compile(r"[A-Za-z0-9._:/@#+-]+")
DIGEST: Final = 16  # hexadecimal digits that tell long names apart
CUT: Final = 60  # characters of a long name that stay readable


@dataclass(frozen=True, slots=True)
class NamedSource:
    """One broker and one destination; ``options`` are those of a reader of this source alone."""

    name: str
    options: ReadOptions

    @property
    def is_pattern(self) -> bool:
        """Return True if the source stands for cursors on all queues that match a pattern."""
        destination = self.options.destination
        return self.options.cursor is not None and destination.is_queue and destination.is_pattern


def sources_of(options: ReadOptions, url: str) -> list[NamedSource]:
    """Return a source for each destination of the options at the broker ``url``."""
    return [named_source(options, url, part) for part in options.destination.parts()]


def source_of_name(options: ReadOptions, name: str) -> NamedSource | None:
    """Return the source of a name in a checkpoint, with a URL without options.

    Returns:
        ``None`` for a shortened name.
    """
    url, _, destination = name.rpartition(" ")
    try:
        source = named_source(options, url, parse_destination(destination))
    except InvalidDestinationError:
        return None
    return source if source.name == name else None


def source_name(url: str, destination: Destination) -> str:
    """Return the name of a source."""
    text = f"{place_of(url)} {destination}"
    if "…" not in text and len(_encoded(text)) <= MAX_DIRECTORY:
        return text
    return f"{text[:CUT]}#{_digest(f'{url} {destination}')}"


def staging_of(directory: str, name: str) -> str:
    """Return the directory of a source inside of the stagingDirectory of the query."""
    encoded = _encoded(name)
    return child(directory, encoded) if is_uri(directory) else str(Path(directory) / encoded)


def name_of_staging(directory_name: str) -> str | None:
    """Return the name of the source whose messages a directory holds, or ``None`` for another directory."""
    name = unquote(directory_name.replace("=", "%"))
    return name if "://" in name and _encoded(name) == directory_name else None


def cursor_of(cursor: str, destination: Destination) -> str:
    """Return the name of the cursor of a destination; cursors of different brokers may have the same name."""
    name = f"{cursor}:{destination.name}"
    if len(name) <= MAX_CURSOR and CURSOR_NAME.fullmatch(name):
        return name
    return f"{cursor}:{_digest(str(destination))}"


def named_source(options: ReadOptions, url: str, destination: Destination) -> NamedSource:
    """Return the source of one destination at the broker ``url``."""
    name = source_name(url, destination)
    directory, cursor = options.staging_directory, options.cursor
    return NamedSource(
        name,
        replace(
            options,
            login=replace(options.login, url=url),
            brokers=(),
            destination=destination,
            staging_directory=None if directory is None else staging_of(directory, name),
            cursor=None if cursor is None else cursor_of(cursor, destination),
        ),
    )


def _encoded(name: str) -> str:
    """Return a name of letters, digits and marks that mean nothing in a path or URI."""
    return quote(name, safe="").replace("~", "%7E").replace("%", "=")


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:DIGEST]
