"""Pages of destinations: the list of queues, one queue, one topic, one connection, and one link."""

from __future__ import annotations

from functools import partial
from http import HTTPStatus
from typing import Final

from starlette.responses import Response

from spanwire.management.tables.attributes import ViewTable
from spanwire.management.tables.network_tables import LINKS
from spanwire.management.tables.operation_table import Role
from spanwire.management.tables.view_table import CONNECTIONS, CONSUMERS, PRODUCERS, QUEUES, TOPICS
from spanwire.web.api import details, listed, view_rows
from spanwire.web.calls import Call
from spanwire.web.console.figures.charts import DAY, charts_of, link_charts
from spanwire.web.console.figures.recorder import link_name
from spanwire.web.console.forms import HOME, read_words
from spanwire.web.console.pages.list_pages import (
    CONVERTS,
    Column,
    Filter,
    ListPage,
    Row,
    RowAction,
    label_of,
    show_list,
    shown,
)
from spanwire.web.console.rendering import page
from spanwire.web.problems import ProblemError

QUEUE_PATH: Final = "/admin/queue"
MAX_CLIENTS: Final = 100  # consumers and producers on the page of a queue; the lists have all
FIGURES: Final = ("pending", "in_flight", "consumers", "producers", "enqueued", "dequeued", "expired", "memory_bytes")
NAMED: Final = (("name", "destination"),)


def _is_permanent(row: Row) -> bool:
    return not str(row.get("destination")).startswith("temp-")


QUEUE_LIST: Final = ListPage(
    QUEUES,
    "Queues",
    "/admin/queues",
    (
        Column("destination", "Queue", QUEUE_PATH),
        Column("pending", "Pending"),
        Column("in_flight", "In flight"),
        Column("consumers", "Consumers"),
        Column("producers", "Producers"),
        Column("enqueued", "Sent"),
        Column("dequeued", "Acknowledged"),
        Column("expired", "Expired"),
        Column("memory_bytes", "Memory"),
    ),
    "destination",
    "destination",
    "A queue comes into being when a client sends to it or consumes from it.",
    (
        Filter("with messages", "pending", ">0"),
        Filter("without consumers", "consumers", "0"),
        Filter("paused", "paused", "true"),
        Filter("dead letters", "dead_letters", "true"),
    ),
    actions=(
        RowAction("Browse", "/messages", Role.VIEW, NAMED, _is_permanent, HOME),
        RowAction("Send", "/send", Role.OPERATE, NAMED, _is_permanent, HOME),
        RowAction("Purge", "/queues/purge", Role.OPERATE, NAMED, _is_permanent),
    ),
    create=("Create a queue", "/queues/create"),
    bulk=(
        ("Pause", "/queues/pause"),
        ("Resume", "/queues/resume"),
        ("Purge", "/queues/purge"),
        ("Delete", "/queues/delete"),
    ),
)


async def show_destination(view: ViewTable, call: Call) -> Response:
    """Show a queue or topic with its figures, consumers and producers."""
    name = read_words(call).text("name")
    row = await find_destination(view, name, call)
    call.recorder.open(name)
    is_day = read_words(call).text("span") == DAY
    whole = await details(view, row, call)
    clients = {view.name: await _clients(view, name, call) for view in (CONSUMERS, PRODUCERS)}
    return page(
        call,
        "destination.html",
        name.partition("://")[2],
        name=name,
        views=view.name,
        destination=name,
        charts=charts_of(call.recorder, name, is_day=is_day),
        is_day=is_day,
        began=call.recorder.began * 1_000,
        queue=whole,
        is_queue=view is QUEUES,
        settings=[
            (label_of(one.name), one.meaning, shown(one, whole.get(one.name)))
            for one in view.attributes
            if one.name not in FIGURES and one.name in whole and one.name not in ("destination", "groups")
        ],
        groups=whole.get("groups") or {},
        sent_rate=call.recorder.rate(name, "enqueued"),
        acknowledged_rate=call.recorder.rate(name, "dequeued"),
        most=MAX_CLIENTS,
        converts=CONVERTS,
        **clients,
    )


async def find_destination(view: ViewTable, name: str, call: Call) -> dict[str, object]:
    """Return the row of a destination. Raises `ProblemError` for an unknown name."""
    for row in await listed(view, call):
        if row.get("destination") == name:
            return row
    raise ProblemError(HTTPStatus.NOT_FOUND, f"there is no {name[:200] or 'destination without a name'}")


async def _clients(view: ViewTable, name: str, call: Call) -> list[dict[str, object]]:
    return [row for row in await view_rows(view, call.view) if row.get("destination") == name]


async def show_connection(call: Call) -> Response:
    """Show one connection, by its id or client id, with consumers and producers."""
    name = read_words(call).text("name")
    rows = {view.name: await view_rows(view, call.view) for view in (CONNECTIONS, CONSUMERS, PRODUCERS)}
    found = [row for row in rows[CONNECTIONS.name] if name in (row.get("connection_id"), row.get("client_id"))]
    connection = next((row for row in found if row.get("connection_id") == name), found[0] if found else None)
    if connection is None:
        raise ProblemError(HTTPStatus.NOT_FOUND, f"there is no connection {name[:200]}; it may have ended")
    return page(
        call,
        "connection.html",
        "Connection",
        connection=connection,
        views=CONNECTIONS.name,
        facts=[
            (label_of(one.name), one.meaning, shown(one, connection.get(one.name))) for one in CONNECTIONS.attributes
        ],
        consumers=[row for row in rows[CONSUMERS.name] if row.get("connection_id") == connection["connection_id"]],
        producers=[row for row in rows[PRODUCERS.name] if row.get("connection_id") == connection["connection_id"]],
    )


async def show_link(call: Call) -> Response:
    """Show the links of one network connector with charts.

    A discovery connector has a link to each broker.
    """
    words = read_words(call)
    name, is_day = words.text("name"), words.text("span") == DAY
    links = [row for row in await view_rows(LINKS, call.view) if row.get("name") == name]
    if not links:
        raise ProblemError(HTTPStatus.NOT_FOUND, f"there is no link {name[:200]}")
    return page(
        call,
        "link.html",
        name,
        name=name,
        views=LINKS.name,
        is_stopped=all(row.get("state") == "stopped" for row in links),
        is_own=any(not row.get("accepted") for row in links),
        links=[
            (
                row,
                link_charts(call.recorder, link_name(row), is_day=is_day),
                [(label_of(one.name), one.meaning, shown(one, row.get(one.name))) for one in LINKS.attributes],
            )
            for row in links
        ],
        is_day=is_day,
        began=call.recorder.began * 1_000,
    )


queue_list: Final = partial(show_list, QUEUE_LIST)
show_queue: Final = partial(show_destination, QUEUES)
show_topic: Final = partial(show_destination, TOPICS)
