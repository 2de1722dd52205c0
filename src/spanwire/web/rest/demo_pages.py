"""The demo pages of the Connectivity Guide: a form to send, links to browse and to receive."""

from __future__ import annotations

from functools import partial
from http import HTTPStatus
from importlib.resources import files
from typing import Final

from starlette.responses import RedirectResponse, Response

from spanwire.management.tables.operation_table import Role
from spanwire.web.calls import Call, RouteRow

MOUNT: Final = "/demo"
POLICY: Final = "default-src 'none'; style-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
# Under the policy no-referrer of the other routes a browser sends "null" as the Origin of a form, which is refused.
HEADERS: Final = {"Content-Security-Policy": POLICY, "Referrer-Policy": "same-origin"}
PAGES: Final = {
    "": ("index.html", "text/html"),
    "send.html": ("send.html", "text/html"),
    "style.css": ("style.css", "text/css"),
}


async def page(file: str, content_type: str, call: Call) -> Response:
    """Answer with a page of the package."""
    content = files("spanwire.web.rest").joinpath("demo", file).read_bytes()
    return Response(content, media_type=content_type, headers=HEADERS)


async def welcome(mount: str, call: Call) -> Response:
    """Lead to the welcome page, with links relative to the directory."""
    return RedirectResponse(f"{mount}/", HTTPStatus.MOVED_PERMANENTLY)


def demo_rows(mount: str) -> list[RouteRow]:
    """Return the routes of the pages at a path."""
    return [
        RouteRow("GET", mount, Role.NONE, partial(welcome, mount), "leads to the demo pages", is_messaging=True),
        *(
            RouteRow("GET", f"{mount}/{path}", Role.NONE, partial(page, *row), "a demo page", is_messaging=True)
            for path, row in PAGES.items()
        ),
    ]


DEMO_ROUTES: Final = tuple(demo_rows(MOUNT))
