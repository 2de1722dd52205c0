"""The page of pipelines: routes on Spark against this broker, and the broker's cursors and ledgers.

A pipeline publishes its status to the broker every five seconds (`spanwire.pipeline.watch`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from starlette.responses import Response

from spanwire.pipeline.watch.problems import LagLimits, Problem, problems_of
from spanwire.pipeline.watch.status import FAILED, OVER, RETRYING, PipelineStatus, StatusError, decode
from spanwire.web.calls import Call
from spanwire.web.console.rendering import page

PATH: Final = "/admin/pipelines"
NO_LIMITS: Final = LagLimits()
Row = dict[str, object]


@dataclass(frozen=True, slots=True)
class Published:
    """A run of a pipeline with its last status, None for a status of another version."""

    name: str
    run: str
    user: str
    age_s: float
    is_stopping: bool
    has_ended: bool
    status: PipelineStatus | None
    problems: tuple[Problem, ...]


async def show_pipelines(call: Call) -> Response:
    """Show the pipelines, and all cursors and ledgers."""
    answer = await call.view("pipelines")
    parts = answer if isinstance(answer, dict) else {}
    published = sorted((_published(row) for row in _rows(parts.get("pipelines"))), key=lambda one: (one.name, one.run))
    return page(
        call,
        "pipelines.html",
        "Pipelines",
        views="broker",
        pipelines=published,
        cursors=sorted(_rows(parts.get("cursors")), key=lambda row: str(row.get("cursor"))),
        sinks=sorted(_rows(parts.get("sinks")), key=lambda row: str(row.get("query"))),
        held=held,
        class_of=class_of,
    )


def _published(row: Row) -> Published:
    age = row.get("ageMs")
    age_ms = age if isinstance(age, int) else 0
    try:
        status = decode(str(row.get("status")))
    except StatusError:
        status = None
    problems = () if status is None or row.get("ended") else tuple(problems_of(status, age_ms, NO_LIMITS))
    return Published(
        str(row.get("pipeline")), str(row.get("run")), str(row.get("user")), age_ms / 1000,
        row.get("stopping") is True, row.get("ended") is True, status, problems,
    )  # fmt: skip


def held(cursor: Row) -> int:
    """Return the number of messages held by a cursor."""
    first, end = cursor.get("from"), cursor.get("to")
    return max(0, end - first) if isinstance(first, int) and isinstance(end, int) else 0


def class_of(state: str) -> str:
    """Return the class of a route's state."""
    return "bad" if state in (FAILED, RETRYING) else "warning" if state in OVER else "good"


def _rows(value: object) -> list[Row]:
    return [row for row in value if isinstance(row, dict)] if isinstance(value, list) else []
