"""The routes of the console."""

from __future__ import annotations

from functools import partial
from typing import Final

from spanwire.management.tables.operation_table import Role
from spanwire.web.calls import Handler, RouteRow
from spanwire.web.console import assets
from spanwire.web.console.forms import HOME
from spanwire.web.console.network import lint_page, map_page
from spanwire.web.console.operations import actions, sending
from spanwire.web.console.pages import (
    bridge_page,
    classic_addresses,
    dead_letters,
    destinations,
    login_pages,
    message_pages,
    other_lists,
    overview,
    pipelines,
    trace_page,
    why_page,
)
from spanwire.web.console.pages.list_pages import show_list
from spanwire.web.console.rendering import LOGIN, refusal


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
    _row("GET", other_lists.TOPIC_PATH, Role.VIEW, destinations.show_topic, "one topic"),
    _row("GET", other_lists.LINK_PATH, Role.VIEW, destinations.show_link, "the links of one network connector"),
    _row("GET", other_lists.BRIDGE_PATH, Role.VIEW, bridge_page.show_bridge, "one bridge with its parameters"),
    _row("POST", other_lists.BRIDGE_PATH, bridge_page.CHANGE.role, bridge_page.change_bridge, "sets its parameters"),
    _row("GET", map_page.PATH, Role.VIEW, map_page.show_map, "the map of the network"),
    _row("GET", lint_page.PATH, Role.VIEW, lint_page.show_findings, "findings about the configurations of the network"),
    _row("GET", lint_page.LINES_PATH, Role.ADMIN, lint_page.show_lines, "lines of a configuration file"),
    _row("GET", pipelines.PATH, Role.VIEW, pipelines.show_pipelines, "pipelines that publish their status here"),
    _row("GET", "/admin/connection", Role.VIEW, destinations.show_connection, "one connection"),
    *(
        _row("GET", listed.path, Role.VIEW, partial(show_list, listed), listed.view.meaning)
        for listed in other_lists.OTHER_LISTS
    ),
    _row("GET", message_pages.BROWSE_PATH, Role.VIEW, message_pages.browse, "messages of a queue"),
    _row("GET", message_pages.MESSAGE_PATH, Role.VIEW, message_pages.show_message, "one message"),
    _row("GET", why_page.WHY_PATH, Role.VIEW, why_page.show_why, "why a message or an object does not move"),
    _row("GET", trace_page.PATH, Role.VIEW, trace_page.show_trace, "a trace of messages, or a dry run"),
    _row("POST", trace_page.PATH, Role.OPERATE, trace_page.start_trace, "starts a trace"),
    _row("POST", trace_page.END_PATH, Role.OPERATE, trace_page.end_trace, "ends a trace"),
    _row("GET", dead_letters.PATH, Role.OPERATE, dead_letters.show_dead_letters, "dead letters by cause"),
    _row("GET", sending.SEND_PATH, Role.OPERATE, sending.show_form, "the form of a message"),
    _row("POST", sending.SEND_PATH, Role.OPERATE, sending.send, "sends messages"),
    *(_row(*one) for one in actions.ACTIONS),
    *(
        RouteRow("GET", path, Role.VIEW, handler, "a view as XML, as of ActiveMQ", refusal=classic_addresses.refuse)
        for path, handler in classic_addresses.XML_PAGES
    ),
    *(
        _row("GET", f"{HOME}/{name}", Role.VIEW, partial(classic_addresses.lead, target), "leads from an old address")
        for name, target in classic_addresses.REDIRECTS.items()
    ),
)
