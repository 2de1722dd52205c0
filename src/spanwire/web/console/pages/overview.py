"""The overview: facts, figures and rates of the broker, and notes for an operator."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from starlette.responses import RedirectResponse, Response

from spanwire.management.beans.totals import broker_with_totals
from spanwire.management.health import Level, broker_checks
from spanwire.management.tables.network_tables import LINKS
from spanwire.management.tables.view_table import CONNECTORS, QUEUES, TOPICS, rows_of
from spanwire.management.tables.work_tables import TASKS
from spanwire.web.api import listed, view_rows
from spanwire.web.calls import Call
from spanwire.web.console.figures.charts import DAY, charts_of
from spanwire.web.console.figures.history import BROKER
from spanwire.web.console.forms import HOME, read_words
from spanwire.web.console.rendering import HEADERS, page

DEEPEST: Final = 8  # queues shown, the longest ones
LEVELS: Final = {Level.WARNING: "warning", Level.CRITICAL: "critical"}


async def lead_home(call: Call) -> Response:
    """Lead from the root of the port to the console."""
    return RedirectResponse(HOME, headers=HEADERS)


async def overview(call: Call) -> Response:
    """Show the broker."""
    is_day = read_words(call).text("span") == DAY
    status = await call.status()
    queues, topics = await listed(QUEUES, call), await listed(TOPICS, call)
    deepest = sorted((row for row in queues if _pending(row) > 0), key=_pending, reverse=True)[:DEEPEST]
    return page(
        call,
        "overview.html",
        "Overview",
        views="broker,links,connectors,tasks",
        charts=charts_of(call.recorder, BROKER, is_day=is_day),
        is_day=is_day,
        began=call.recorder.began * 1_000,
        broker=await broker_with_totals(call.view),
        checks=[(LEVELS[one.level], one.name, one.text) for one in broker_checks(status) if one.level in LEVELS],
        sent_rate=call.recorder.rate(BROKER, "enqueued"),
        acknowledged_rate=call.recorder.rate(BROKER, "dequeued"),
        queue_count=len(queues),
        topic_count=len(topics),
        consumer_count=sum(_count(row, "consumers") for row in (*queues, *topics)),
        deepest=deepest,
        connectors=rows_of(CONNECTORS, status),
        links=rows_of(LINKS, status),
        tasks=[row for row in await view_rows(TASKS, call.view) if row.get("state") == "running"],
    )


def _pending(row: Mapping[str, object]) -> int:
    return _count(row, "pending")


def _count(row: Mapping[str, object], name: str) -> int:
    value = row.get(name)
    return value if isinstance(value, int) else 0
