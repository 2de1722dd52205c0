"""Names of the bridges paused by an operator, kept in the data directory over restarts."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from spanwire.model.errors import ConfigurationError

FILE_NAME: Final = "bridges.json"
MAX_BYTES: Final = 4 * 1024 * 1024  # bytes of the file; 1,000 names need less
KEY: Final = "paused"
FORMAT_KEY: Final = "format"
FORMAT: Final = 1  # of the file; without a number it is 1


class PausedBridges:
    """The names; without a directory the names last as long as the broker."""

    def __init__(self, directory: Path | None) -> None:
        self._path: Final = None if directory is None else directory / FILE_NAME
        self.names: frozenset[str] = frozenset()
        self._is_read = False

    def read(self) -> None:
        """Read the file, once.

        Raises:
            ConfigurationError: the file is damaged, or a newer Spanwire has written it.
        """
        if self._path is None or self._is_read:
            return
        try:
            with self._path.open("rb") as file:
                record = json.loads(file.read(MAX_BYTES))
            _check(self._path, record.get(FORMAT_KEY, FORMAT))
            names = record[KEY]
            if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
                raise ValueError("the names are no list of texts")
        except FileNotFoundError:
            names = []
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is damaged"
            raise ConfigurationError(
                f"{self._path} cannot be read: {reason}; restore it, or move it away; then no bridge stays paused"
            ) from None
        self.names = frozenset(names)
        self._is_read = True

    def change(self, names: Iterable[str], is_paused: bool) -> None:
        """Add or remove names, and write the file. Raises `OSError` if the disk refuses."""
        after = self.names | frozenset(names) if is_paused else self.names - frozenset(names)
        if after != self.names:
            self.names = after
            self._write()

    def _write(self) -> None:
        if self._path is None:
            return
        new = self._path.with_name(f"{FILE_NAME}.new")
        with new.open("w", encoding="utf-8") as file:
            json.dump({FORMAT_KEY: FORMAT, KEY: sorted(self.names)}, file)
            file.flush()
            os.fsync(file.fileno())
        new.replace(self._path)


def _check(path: Path, version: object) -> None:
    if type(version) is not int or version < 1:
        raise ValueError(f"{str(version)[:20]!r} is no format")
    if version > FORMAT:
        raise ConfigurationError(
            f"{path} has the format {str(version)[:20]} of a newer Spanwire, and this one reads {FORMAT}: start the "
            "newer one, or move the file away; then no bridge stays paused"
        )
