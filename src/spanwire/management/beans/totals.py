"""The row of the broker with totals over the destinations, added up at the place of display."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from spanwire.management.control_client import ControlError
from spanwire.management.tables.attributes import ViewTable
from spanwire.management.tables.view_table import BROKER, QUEUES, SUBSCRIPTIONS, SUMMED, broker_row, rows_of

WILDCARDS: Final = "*>"  # of durable subscriptions to several topics; no topic counts their messages

Reader = Callable[[str], Awaitable[object]]


async def broker_with_totals(read: Reader) -> dict[str, object]:
    """Return the row of the broker.

    Args:
        read: returns the broker's answer to a reading command.

    Raises:
        ControlError: the broker does not answer, or in another form
    """
    answer = await read(QUEUES.command)  # of all destinations; copies of ten thousand rows take a tenth of a second
    destinations = [row for row in answer if isinstance(row, dict)] if isinstance(answer, list) else []
    known = {attribute.name for attribute in BROKER.attributes}
    totals: dict[str, object] = {
        name: sum(count(row.get(name)) for row in destinations) for name in SUMMED if name in known
    }
    wild = [row for row in await view_rows_of(SUBSCRIPTIONS, read) if set(str(row["topic"])) & set(WILDCARDS)]
    totals["pending"] = count(totals["pending"]) + sum(count(row.get("pending")) for row in wild)
    status = await read("summary")
    if not isinstance(status, dict):
        raise ControlError("the broker's status has another form than expected; is it of another version?")
    return rows_of(BROKER, {**broker_row(status), **totals, "destinations": len(destinations)})[0]


async def view_rows_of(view: ViewTable, read: Reader) -> list[dict[str, object]]:
    """Return the rows of a view."""
    return rows_of(view, await read("summary" if view.command == "status" else view.command))


def count(value: object) -> int:
    """Return a whole number, 0 for any other value."""
    return value if isinstance(value, int) else 0
