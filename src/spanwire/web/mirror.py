"""A copy of the rows of all destinations, kept up to date by changes.

`spanwire.management.destination_feed` sends the changes.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from spanwire.management.control_client import ControlError
from spanwire.management.tables.view_table import with_averages

if TYPE_CHECKING:
    from spanwire.web.link import Link

COMMAND: Final = "changes"
LOOKED_PER_ROW: Final = 10  # destinations that the broker looks at in the time in which it makes a row of another view
CHANGED_PER_ROW: Final = 5  # rows of changed destinations that it makes in this time

Row = dict[str, object]


class DestinationMirror:
    """The rows of the destinations, by name. Each answer has the same objects for unchanged rows.

    The rows have the attributes of a list, also the derived attributes, so a page of a list copies its own rows alone.
    """

    def __init__(self, link: Link) -> None:
        self._link: Final = link
        self._lock: Final = asyncio.Lock()
        self._since: object = None
        self._rows: Final[dict[str, Row]] = {}
        self._names: list[str] = []
        self.cost = 0  # of the last answer, in rows of other views

    async def rows(self, handle: str) -> list[Row]:
        """Return the present rows in the order of their names. Raises `ControlError`."""
        async with self._lock:
            with_handle = {"handle": handle} if handle else {}
            self._update(await self._link.ask(COMMAND, since=self._since, **with_handle))
            return [self._rows[name] for name in self._names]

    def _update(self, answer: object) -> None:
        header = answer[0] if isinstance(answer, list) and answer else None
        if not isinstance(answer, list) or not isinstance(header, dict):
            raise ControlError("the broker's changes have another form than expected; is it of another version?")
        first = 1 + int(header["removed"])
        if header["complete"]:
            self._rows.clear()
        for name in answer[1:first]:
            self._rows.pop(str(name), None)
        columns = header["columns"]
        known = len(self._rows)
        for values in answer[first:]:
            self._rows[str(values[0])] = with_averages(dict(zip(columns, values, strict=True)))
        if header["complete"] or first > 1 or len(self._rows) != known:
            self._names = sorted(self._rows)
        self._since = header["since"]
        self.cost = len(self._rows) // LOOKED_PER_ROW + (len(answer) - first) // CHANGED_PER_ROW
