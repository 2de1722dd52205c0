"""Addresses of ActiveMQ's console: its XML pages for programs, and redirects for bookmarks.

The XML pages are ``xml/queues.jsp``, ``xml/topics.jsp`` and ``xml/subscribers.jsp``, for monitoring scripts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from spanwire.management.tables.attributes import ViewTable
from spanwire.management.tables.view_table import QUEUES, SUBSCRIPTIONS, TOPICS
from spanwire.web.api import view_rows
from spanwire.web.calls import Call, json_refusal
from spanwire.web.console.formats import link, short_name
from spanwire.web.console.forms import read_words
from spanwire.web.console.rendering import HEADERS
from spanwire.web.problems import ProblemError
from spanwire.web.rest.message_xml import attribute

FOLDER: Final = "/admin/xml"
XML_TYPE: Final = "text/xml; charset=utf-8"
TOPIC: Final = "/admin/topic"
CONNECTION: Final = "/admin/connection"
REDIRECTS: Final = {
    "index.jsp": "/admin",
    "queues.jsp": "/admin/queues",
    "topics.jsp": "/admin/topics",
    "subscribers.jsp": "/admin/subscribers",
    "connections.jsp": "/admin/connections",
    "network.jsp": "/admin/network",
    "scheduled.jsp": "/admin/scheduled",
    "send.jsp": "/admin/send",
    "browse.jsp": "/admin/messages",
    "message.jsp": "/admin/message",
    "queueConsumers.jsp": "/admin/queue",
    "queueProducers.jsp": "/admin/queue",
    "queueGraph.jsp": "/admin/queues?sort=-pending",
    "topicSubscribers.jsp": TOPIC,
    "topicProducers.jsp": TOPIC,
    "connection.jsp": CONNECTION,
    "graph.jsp": "/admin/network-map",
    "slave.jsp": "/admin",
    "login.html": "/admin/login",
}
STATISTICS: Final = (
    ("size", "pending"), ("consumerCount", "consumers"), ("enqueueCount", "enqueued"), ("dequeueCount", "dequeued"),
)  # fmt: skip
SUBSCRIBER: Final = (
    ("clientId", "client_id"), ("subscriptionName", "name"), ("destinationName", "topic"), ("selector", "selector"),
)  # fmt: skip
PENDING: Final = (
    ("pendingQueueSize", "pending"), ("dispatchedQueueSize", "in_flight"), ("dispatchedCounter", "dispatched"),
    ("enqueueCounter", "enqueued"), ("dequeueCounter", "dequeued"),
)  # fmt: skip

Row = Mapping[str, object]


def refuse(request: Request, error: ProblemError) -> Response:
    """Return the answer to an error: a problem, and no page, because the reader is a program."""
    return json_refusal(request, error)


async def lead(target: str, call: Call) -> Response:
    """Lead to the page with the same content; ``JMSDestination`` and ``id`` name queue and message."""
    words = read_words(call)
    name, message_id = words.text("JMSDestination"), words.text("id") or words.text("messageId")
    if target == CONNECTION:
        return RedirectResponse(link(target, name=words.text("connectionID")), headers=HEADERS)
    is_topic = target == TOPIC or words.text("JMSDestinationType") == "topic"
    to = link(target, name=f"{'topic' if is_topic else 'queue'}://{name}" if name else "", id=message_id)
    return RedirectResponse(to, headers=HEADERS)


async def show_xml(view: ViewTable, element: str, shape: Callable[[Row], str], call: Call) -> Response:
    """Answer with the rows of a view as XML."""
    rows = [shape(row) for row in await view_rows(view, call.view)]
    return Response(f"<{element}>\n{''.join(rows)}</{element}>\n".encode("utf-8", "replace"), media_type=XML_TYPE)


def _values(row: Row, names: tuple[tuple[str, str], ...]) -> str:
    return "".join(f" {xml}={attribute('' if row.get(name) is None else str(row.get(name)))}" for xml, name in names)


def _queue(row: Row) -> str:
    name = short_name(row.get("destination"))
    path = f"queueBrowse/{quote(name, safe='', errors='replace')}?view=rss&amp;feedType="
    feeds = f"<feed><atom>{path}atom_1.0</atom><rss>{path}rss_2.0</rss></feed>"
    return f"<queue name={attribute(name)}>\n<stats{_values(row, STATISTICS)}/>\n{feeds}\n</queue>\n"


def _topic(row: Row) -> str:
    name = short_name(row.get("destination"))
    return f"<topic name={attribute(name)}>\n<stats{_values(row, STATISTICS)}/>\n</topic>\n"


def _subscriber(row: Row) -> str:
    active = "true" if row.get("active") else "false"
    return f'<subscriber{_values(row, SUBSCRIBER)} active="{active}">\n<stats{_values(row, PENDING)}/>\n</subscriber>\n'


XML_PAGES: Final = (
    (f"{FOLDER}/queues.jsp", partial(show_xml, QUEUES, "queues", _queue)),
    (f"{FOLDER}/topics.jsp", partial(show_xml, TOPICS, "topics", _topic)),
    (f"{FOLDER}/subscribers.jsp", partial(show_xml, SUBSCRIPTIONS, "subscribers", _subscriber)),
)
