"""The way to the message servlet past the other routes."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import Message

from spanwire.web.servlet_router import ServletRouter
from tests.support.web_application import Web, running

MOUNTS = ("/api/message", "/demo/message", "/message", "/api/message/below/message")


async def answer(request: Request) -> Response:
    return PlainTextResponse(f"{request.method} {request.path_params.get('name')!r}")


async def fail(request: Request) -> Response:
    raise RuntimeError("a fault")


async def nothing() -> Message:
    return {"type": "http.request", "body": b"", "more_body": False}


def routed(app: Any, method: str, path: str) -> tuple[object, object]:
    """Status and body of a request."""
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    scope = {"type": "http", "method": method, "path": path, "headers": [], "query_string": b"", "root_path": ""}
    asyncio.run(app(scope, nothing, send))
    return sent[0]["status"], sent[1].get("body")


def starlette() -> Starlette:
    """Routes of each mount, of all methods, as the application has them."""
    paths = [path for mount in MOUNTS for path in (mount, f"{mount}/{{name:path}}")]
    return Starlette(routes=[Route(path, answer, methods=[method]) for path in paths for method in ("POST", "GET")])


@given(
    st.sampled_from(["POST", "GET", "PUT", "DELETE"]),
    st.lists(st.sampled_from(["api", "demo", "message", "below", "", "é", "\n", "{name}", "messages"]), max_size=6),
)
def test_a_request_reaches_what_the_search_through_all_routes_would_find(method: str, names: list[str]) -> None:
    whole = starlette()
    path = "/" + "/".join(names)
    app = ServletRouter(whole, [(mount, {"POST": answer, "GET": answer}) for mount in MOUNTS])
    assert routed(app, method, path) == routed(whole, method, path)


def test_a_fault_is_a_problem_and_goes_on_to_the_log() -> None:
    app = ServletRouter(starlette(), [("/api/message", {"GET": fail})])
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "GET", "path": "/api/message/A", "headers": []}
    with pytest.raises(RuntimeError, match="a fault"):
        asyncio.run(app(scope, nothing, send))
    assert (sent[0]["status"], b"its log says why" in sent[1]["body"]) == (500, True)


@pytest.mark.parametrize("path", ["/api/message/A", "/demo/message/A", "/api/message"])
def test_other_methods_of_the_servlet_are_answered_as_before(monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    with running(monkeypatch, f"methods-{path.count('/')}-{path[1]}") as web:
        check(web, path)


def check(web: Web, path: str) -> None:
    assert web.client.put(path).status_code == 405
    assert web.client.head(path).status_code == 405
    answered = web.client.request("PATCH", path)
    assert (answered.status_code, answered.headers["allow"]) == (405, "DELETE, GET, HEAD, POST, PUT")
