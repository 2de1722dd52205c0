"""The servlets and demo pages at the configured paths of ActiveMQ's web applications."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from spanwire.service.config.web_mounts import ADMIN, DEMO, WebMount
from spanwire.web.calls import RouteRow
from spanwire.web.rest.demo_pages import demo_rows
from spanwire.web.rest.queue_browse import browse_rows
from spanwire.web.rest.servlet import message_rows

MESSAGE: Final = "/message"
QUEUE_BROWSE: Final = "/queueBrowse"


def mounted_rows(mounts: Iterable[WebMount]) -> list[RouteRow]:
    """Return the routes of applications at further paths; ``/`` has no pages.

    Pages need a path of their own.
    """
    rows: list[RouteRow] = []
    for mount in mounts:
        rows += browse_rows(mount.prefix + QUEUE_BROWSE)
        if mount.application != ADMIN:
            rows += message_rows(mount.prefix + MESSAGE)
        if mount.application == DEMO and mount.prefix:
            rows += demo_rows(mount.prefix)
    return rows


def message_paths(mounts: Iterable[WebMount]) -> tuple[str, ...]:
    """Return the paths of requests with messages as bodies."""
    return tuple(mount.prefix + MESSAGE for mount in mounts if mount.application != ADMIN)
