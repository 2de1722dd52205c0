"""The record of a staged part, built message by message.

Messages form runs to one destination. A run is encoded as soon as the next run begins, so that the end of a part costs
no look at all its messages.
"""

from __future__ import annotations

import json
from typing import Final

from spanwire.model.destination import Destination


class PartDraft:
    """The final destinations of a part's copies, in order."""

    __slots__ = ("_count", "_indexes", "_last", "_names", "_runs", "_target")

    def __init__(self) -> None:
        self._indexes: Final[dict[str, int]] = {}
        self._names: Final[list[str]] = []
        self._runs: Final[list[str]] = []
        self._last: Destination | None = None
        self._target = 0
        self._count = 0  # copies for the target, behind the encoded runs

    def copy(self) -> PartDraft:
        """Return a draft that can grow without this one."""
        copy = PartDraft()
        copy._indexes.update(self._indexes)
        copy._names.extend(self._names)
        copy._runs.extend(self._runs)
        copy._last = self._last
        copy._target = self._target
        copy._count = self._count
        return copy

    def add(self, destination: Destination, count: int = 1) -> None:
        """Add ``count`` copies for ``destination``."""
        if destination is not self._last:
            name = destination.qualified_name
            index = self._indexes.get(name)
            if index is None:
                index = len(self._names)
                self._indexes[name] = index
                self._names.append(json.dumps([destination.kind, destination.name], separators=(",", ":")))
            if index != self._target and self._count > 0:
                self._runs.append(f"[{self._target},{self._count}]")
                self._count = 0
            self._target = index
            self._last = destination
        self._count += count

    def encoded(self, epoch: int, number: int, is_plain: bool, messages: int) -> bytes:
        """Return the record.

        An older version without ``plain`` reads all copies; a version without ``messages`` counts copies.
        """
        names = ",".join(self._names)
        runs = ",".join(self._runs)
        if self._count > 0:
            runs += ("," if runs else "") + f"[{self._target},{self._count}]"
        plain = "true" if is_plain else "false"
        head = f'{{"epoch":{epoch},"line":{number},"destinations":[{names}],"sends":[{runs}]'
        return f'{head},"plain":{plain},"messages":{messages}}}'.encode("ascii")
