"""Renders pages from templates, with the headers that keep strange content from running."""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import cache
from http import HTTPStatus
from typing import Final
from urllib.parse import urlsplit

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from spanwire import __version__
from spanwire.management.tables.operation_table import Role
from spanwire.web.access import NOBODY
from spanwire.web.calls import Call
from spanwire.web.console import formats
from spanwire.web.console.assets import asset
from spanwire.web.console.forms import HOME, read_words, safe_target
from spanwire.web.console.operations.prompts import result_text
from spanwire.web.problems import ProblemError

LOGIN: Final = "/admin/login"
NAVIGATION: Final = (
    ("Overview", HOME, (HOME, "/admin/do/broker", "/admin/do/log")),
    ("Queues", "/admin/queues", ("/admin/queue", "/admin/message", "/admin/do/queues")),
    ("Dead letters", "/admin/dead-letters", ("/admin/dead-letters",)),
    ("Topics", "/admin/topics", ("/admin/topic", "/admin/do/topics")),
    ("Subscribers", "/admin/subscribers", ("/admin/subscribers", "/admin/do/subscriptions")),
    ("Connections", "/admin/connections", ("/admin/connection", "/admin/do/connect")),
    ("Consumers", "/admin/consumers", ("/admin/consumers", "/admin/do/consumers", "/admin/do/slow_consumer")),
    ("Producers", "/admin/producers", ("/admin/producers", "/admin/do/producers")),
    (
        "Network",
        "/admin/network-map",
        (
            "/admin/network",
            "/admin/link",
            "/admin/bridge",
            "/admin/do/links",
            "/admin/do/network",
            "/admin/do/bridges",
        ),
    ),
    ("Pipelines", "/admin/pipelines", ("/admin/pipelines",)),
    ("Ledger", "/admin/ledger", ("/admin/ledger",)),
    ("Why", "/admin/why", ("/admin/why",)),
    ("Trace", "/admin/trace", ("/admin/trace",)),
    ("Scheduled", "/admin/scheduled", ("/admin/scheduled", "/admin/do/jobs")),
    ("Send", "/admin/send", ("/admin/send",)),
    ("Tasks", "/admin/tasks", ("/admin/tasks", "/admin/do/tasks", "/admin/branches")),
)
# A form's Origin would be "null" under the policy no-referrer of the other routes.
HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'; "
        "require-trusted-types-for 'script'; trusted-types 'none'"
    ),
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}


@cache
def environment() -> Environment:
    """Return the environment of all templates: each value is escaped, and a missing value is an error."""
    made = Environment(
        loader=PackageLoader("spanwire.web.console"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,  # templates of an installation that replaces this one do not fit the running code
    )
    made.filters.update(
        number=formats.number,
        counted=formats.counted,
        size=formats.size,
        duration=formats.duration,
        moment=formats.moment,
        yes_or_no=formats.yes_or_no,
        short_name=formats.short_name,
        whole_addresses=formats.whole_addresses,
    )
    made.globals.update(
        link=formats.link, destination_link=formats.destination_link, asset=asset, version=__version__, Role=Role
    )
    return made


def page(call: Call, template: str, title: str, **values: object) -> Response:
    """Return the response of a page for the caller.

    ``values`` are the variables of the template. A page with ``views``, and with ``destination`` if about a single
    destination, follows the changes of the views.
    """
    return page_with(HTTPStatus.OK, call, template, title, values)


def page_with(code: HTTPStatus, call: Call, template: str, title: str, values: Mapping[str, object]) -> Response:
    """Return the response of a page with another status, such as that of a refused form."""
    words = read_words(call)
    count = words.text("count")
    notice = result_text(words.text("did"), int(count) if count.isascii() and count.isdigit() else 0)
    return _response(call.request, template, title, code, {"caller": call.caller, "notice": notice, **values})


def refusal(request: Request, error: ProblemError) -> Response:
    """Return the page of an error; the login page where the caller has to log in."""
    if error.status is HTTPStatus.UNAUTHORIZED:
        if request.method != "GET":
            return login_page(request, HOME, "The session has ended. Nothing was done.", error.status)
        if request.headers.get("sec-fetch-site") == "cross-site":
            return _response(request, "again.html", "Spanwire", HTTPStatus.OK, {"caller": NOBODY})
        here = request.url.path + (f"?{request.url.query}" if request.url.query else "")
        return RedirectResponse(formats.link(LOGIN, next=here), HTTPStatus.SEE_OTHER, HEADERS)
    caller = getattr(request.state, "caller", NOBODY)
    values = {"caller": caller, "status": int(error.status), "detail": error.detail, "back": _previous(request)}
    return _response(request, "error.html", error.status.phrase, error.status, values)


def login_page(request: Request, target: str, fault: str = "", status: int = HTTPStatus.OK) -> Response:
    """Return the login page, which leads to ``target``; ``fault`` says why the last attempt failed."""
    return _response(request, "login.html", "Log in", status, {"caller": NOBODY, "target": target, "fault": fault})


def standby_page(
    request: Request, *, name: str, waits_for: str, directory: str, since_ms: int, waited_s: float
) -> Response:
    """Return the page of a broker in wait for the lock of a store; ``directory`` "" shows no place."""
    values = {"name": name, "waits_for": waits_for, "directory": directory, "since_ms": since_ms, "waited_s": waited_s}
    return _response(request, "standby.html", f"Standby {name}", HTTPStatus.OK, {"caller": NOBODY, **values})


def _response(request: Request, name: str, title: str, status: int, values: dict[str, object]) -> Response:
    values = {"notice": "", "views": "", "destination": "", "now": time.time() * 1_000, **values}
    template = environment().get_template(name)
    text = template.render(title=title, navigation=NAVIGATION, active=_active(request.url.path), **values)
    # A name of the wire may have one half of a surrogate pair, which UTF-8 cannot write.
    return Response(text.encode("utf-8", "replace"), int(status), HEADERS, "text/html; charset=utf-8")


def _previous(request: Request) -> str:
    """Return the path of the page that led to a request."""
    try:
        address = urlsplit(request.headers.get("referer", ""))
    except ValueError:
        return HOME
    return safe_target(address._replace(scheme="", netloc="").geturl())


def _active(path: str) -> str:
    """Return the label of the navigation to which a page belongs."""
    here = path.rstrip("/")
    return next(
        (
            label
            for label, _, starts in NAVIGATION
            for start in starts
            if here == start or (start != HOME and here.startswith(start))
        ),
        "",
    )
