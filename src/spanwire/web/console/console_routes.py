"""The routes of the console."""

from __future__ import annotations

from typing import Final

from spanwire.management.operation_table import Role
from spanwire.web.calls import Handler, RouteRow
from spanwire.web.console import assets, destinations, login_pages, overview
from spanwire.web.console.rendering import HOME, LOGIN, refusal


def _row(method: str, path: str, role: Role, handler: Handler, summary: str) -> RouteRow:
    return RouteRow(method, path, role, handler, summary, refusal=refusal)


CONSOLE_ROUTES: Final = (
    _row("GET", "/", Role.NONE, overview.lead_home, "leads to the console"),
    _row("GET", HOME, Role.VIEW, overview.overview, "the overview of the console"),
    _row("GET", f"{HOME}/", Role.VIEW, overview.overview, "the overview of the console"),
    _row("GET", LOGIN, Role.NONE, login_pages.show_login, "the login form of the console"),
    _row("POST", LOGIN, Role.NONE, login_pages.log_in, "logs a browser in"),
    _row("POST", "/admin/logout", Role.NONE, login_pages.log_out, "logs a browser out"),
    _row("GET", assets.PATH, Role.NONE, assets.serve_asset, "style sheet and modules of the console"),
    _row("GET", "/admin/queues", Role.VIEW, destinations.queue_list, "queues"),
    _row("GET", destinations.QUEUE_PATH, Role.VIEW, destinations.show_queue, "one queue"),
)
