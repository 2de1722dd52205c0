"""Requests with offers of another protocol: httptools and h11 read the same requests and bodies from the same bytes."""

from __future__ import annotations

import asyncio

import pytest
import uvicorn
from hypothesis import example, given, settings
from hypothesis import strategies as st
from starlette.types import Receive, Scope, Send
from uvicorn.server import ServerState

from spanwire.transports.http.quick_reader import QuickReader
from spanwire.transports.http.requests import END, H11Reader, Head, NeedsData, RefusedRequest, RequestReader
from spanwire.web.serving.deadline import DeadlineProtocol
from spanwire.web.serving.quick import QuickProtocol
from tests.fuzz.fuzz_requests import Connection
from tests.support.seeds import share

HIDDEN = b"POST /hidden HTTP/1.1\r\nHost: h\r\nclientID: victim\r\nContent-Length: 2\r\n\r\nxx"
CONNECTIONS = ("Upgrade", "upgrade, HTTP2-Settings", "close", "close, Upgrade", "keep-alive", "keep-alive, upgrade")
OFFERS = ("h2c", "websocket", "TLS/1.0")
TURNS = 60  # of the loop, in which some requests are answered

Requests = list[tuple[str, bytes]]  # methods with paths, and bodies


def head(method: str, *headers: str, version: str = "1.1") -> bytes:
    return "\r\n".join([f"{method} /{method} HTTP/{version}", "Host: h", *headers, "", ""]).encode()


@st.composite
def requests(draw: st.DrawFn) -> bytes:
    """A request whose body is announced as most clients do it, or not quite."""
    method = draw(st.sampled_from(["POST", "GET", "OPTIONS", "HEAD", "PUT", "CONNECT"]))
    body = draw(st.sampled_from([b"", b"hello", HIDDEN, b"\r\n", b"0\r\n\r\n"]))
    framing = draw(st.sampled_from(["none", "length", "length", "chunked", "chunked", "both", "gzip", "short", "long"]))
    headers = [f"Connection: {value}" for value in draw(st.lists(st.sampled_from(CONNECTIONS), max_size=2))]
    headers += [f"Upgrade: {value}" for value in draw(st.lists(st.sampled_from(OFFERS), max_size=2))]
    headers += draw(st.sampled_from([[], [], ["Expect: 100-continue"], ["X:", "Y: z "]]))
    if framing in ("length", "both", "short", "long"):
        headers.append(f"Content-Length: {max(0, len(body) + {'short': -1, 'long': 3}.get(framing, 0))}")
    if framing in ("chunked", "both"):
        headers.append(f"{draw(st.sampled_from(['Transfer-Encoding', 'transfer-encoding']))}: chunked")
        trailer = draw(st.sampled_from([b"", b"Upgrade: h2c\r\n", b"Content-Length: 9\r\n"]))
        cut = draw(st.integers(0, len(body)))
        parts = [part for part in (body[:cut], body[cut:]) if part]
        body = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts) + b"0\r\n" + trailer + b"\r\n"
    if framing == "gzip":
        headers.append("Transfer-Encoding: gzip")
    version = draw(st.sampled_from(["1.1", "1.1", "1.1", "1.0"]))
    return head(method, *draw(st.permutations(headers)), version=version) + body


@st.composite
def connections(draw: st.DrawFn) -> list[bytes]:
    """The bytes of some requests, in the pieces in which they arrive."""
    data = b"".join(draw(st.lists(requests(), min_size=1, max_size=4)))
    cuts = sorted(draw(st.sets(st.integers(1, len(data) - 1), max_size=6)))
    return [data[start:end] for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True)]


def read(reader: RequestReader, pieces: list[bytes]) -> tuple[Requests, bool]:
    """The complete requests that a reader of the tunnel gives; and True if it has refused what follows."""
    found: Requests = []
    method, body = "", b""
    for piece in pieces:
        reader.receive(piece)
        try:
            while True:
                event = reader.next_event()
                if isinstance(event, Head):
                    method, body = event.method.decode(), b""
                    if reader.awaits_continue:
                        reader.begin_body()
                elif event is not END:
                    body += event
                else:
                    found.append((method, body))
                    reader.answer(200, [], b"")
                    if not reader.keeps_open:
                        return found, False
        except NeedsData:
            pass
        except RefusedRequest:
            return found, True
    return found, False


def serve(kind: type[DeadlineProtocol | QuickProtocol], pieces: list[bytes]) -> tuple[Requests, bool]:
    """The requests that the application of a web server answers; and True if the server has refused what follows.

    A malformed body of a request that waits for its turn ends the connection without a text.
    """
    found: Requests = []

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        body = b""
        while True:
            message = await receive()
            if message["type"] != "http.request":
                return
            body += message["body"]
            if not message["more_body"]:
                break
        found.append((scope["method"], body))
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body", "body": b""})

    async def converse() -> bool:
        config = uvicorn.Config(application, ws="none", lifespan="off", log_config=None)
        config.load()
        state, connection = ServerState(), Connection()
        protocol = kind(config=config, server_state=state, app_state={})
        protocol.connection_made(connection)
        for piece in pieces:
            if connection.is_closing():
                break
            protocol.data_received(piece)
            await asyncio.sleep(0)
        for _ in range(TURNS):
            if not state.tasks:
                break
            await asyncio.sleep(0)
        protocol.connection_lost(None)
        if state.tasks:
            await asyncio.wait(state.tasks)
        return b"HTTP/1.1 400 " in connection.written or getattr(protocol, "_is_refused", False)

    is_refused = asyncio.run(converse())
    return found, is_refused


def check(one: tuple[Requests, bool], other: tuple[Requests, bool]) -> None:
    """The same requests, up to one that a reader refuses."""
    (shorter, is_refused), (longer, _) = sorted((one, other), key=lambda found: len(found[0]))
    assert longer[: len(shorter)] == shorter
    assert is_refused or len(shorter) == len(longer)


OFFER = head("POST", "Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", f"Content-Length: {len(HIDDEN)}") + HIDDEN
BEHIND_ANOTHER = (
    head("POST") + head("POST", "Transfer-Encoding: chunked") + b"0\r\nContent-Length: 9\r\n\r\n"  # a trailer
)
TUNNEL = head("CONNECT", f"Content-Length: {len(HIDDEN)}") + HIDDEN


@pytest.mark.large
@settings(max_examples=share(400))
@given(connections())
@example([OFFER, OFFER])
@example([TUNNEL])
def test_s24_both_readers_of_the_tunnel_read_the_same_requests(pieces: list[bytes]) -> None:
    check(read(QuickReader(), pieces), read(H11Reader(), pieces))


@settings(max_examples=share(100))
@given(connections())
@example([OFFER, OFFER])
@example([TUNNEL])
@example([BEHIND_ANOTHER])
def test_s24_both_readers_of_the_web_server_read_the_same_requests(pieces: list[bytes]) -> None:
    check(serve(QuickProtocol, pieces), serve(DeadlineProtocol, pieces))
