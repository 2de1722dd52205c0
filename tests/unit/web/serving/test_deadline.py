"""Connections that send the head of a request, or read an answer, slowly or never."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Coroutine
from typing import cast

import h11
import pytest
import uvicorn
from starlette.types import Receive, Scope, Send
from uvicorn.server import ServerState

from spanwire.web.serving.deadline import HEAD_S, MAX_IDLE, STALL_S, DeadlineProtocol
from spanwire.web.serving.quick import QuickProtocol
from tests.support.garbage import cycles

Protocol = DeadlineProtocol | QuickProtocol
HEAD = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"


class Timer:
    def __init__(self, seconds: float, callback: Callable[[], None]) -> None:
        self.seconds = seconds
        self.callback = callback
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class Loop:
    """Duck-typed to the part of an event loop that a connection uses; time passes by hand."""

    def __init__(self) -> None:
        self.timers: list[Timer] = []

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Timer:
        self.timers.append(Timer(seconds, callback))
        return self.timers[-1]

    def create_task(self, work: Coroutine[object, object, object], **_: object) -> asyncio.Future[None]:
        work.close()
        return asyncio.Future(loop=asyncio.new_event_loop())

    def deadlines(self) -> list[Timer]:
        """The deadlines of heads that have not passed."""
        return [timer for timer in self.timers if timer.seconds == HEAD_S and not timer.cancelled]


class Transport:
    def __init__(self) -> None:
        self.closed = False
        self.aborted = False

    def abort(self) -> None:
        self.aborted = True

    def close(self) -> None:
        self.closed = True

    def is_closing(self) -> bool:
        return self.closed

    def get_extra_info(self, name: str) -> object:
        return None

    def write(self, data: bytes) -> None:
        pass


async def application(scope: Scope, receive: Receive, send: Send) -> None:
    raise AssertionError("nothing runs")


@pytest.fixture(params=[DeadlineProtocol, QuickProtocol], ids=["h11", "httptools"])
def kind(request: pytest.FixtureRequest) -> type[Protocol]:
    found: type[Protocol] = request.param
    return found


def connected(kind: type[Protocol], state: ServerState | None = None) -> tuple[Protocol, Loop, Transport]:
    config = uvicorn.Config(application, ws="none", lifespan="off", log_config=None)
    config.load()
    loop, transport = Loop(), Transport()
    protocol = kind(config, state or ServerState(), {}, cast(asyncio.AbstractEventLoop, loop))
    protocol.connection_made(cast(asyncio.Transport, transport))
    return protocol, loop, transport


def test_s24_a_client_that_sends_no_head_is_closed(kind: type[Protocol]) -> None:
    for begun in (b"", HEAD[:-1]):
        protocol, loop, transport = connected(kind)
        if begun:
            protocol.data_received(begun)
        (deadline,) = loop.deadlines()
        deadline.callback()
        assert transport.closed


def test_s24_bytes_of_a_slow_head_do_not_move_its_deadline(kind: type[Protocol]) -> None:
    protocol, loop, _ = connected(kind)
    for index in range(len(HEAD) - 1):
        protocol.data_received(HEAD[index : index + 1])
    assert len(loop.deadlines()) == 1


def test_a_complete_head_ends_the_deadline(kind: type[Protocol]) -> None:
    protocol, loop, transport = connected(kind)
    protocol.data_received(HEAD)
    assert loop.deadlines() == []
    assert not transport.closed


def test_the_next_head_of_a_connection_has_a_deadline_too(kind: type[Protocol]) -> None:
    protocol, loop, _ = connected(kind)
    protocol.data_received(HEAD)
    assert protocol.cycle is not None
    protocol.cycle.response_complete = True
    if isinstance(protocol, DeadlineProtocol):
        protocol.conn = h11.Connection(h11.SERVER)  # as after the answer
    protocol.data_received(HEAD[:5])
    assert len(loop.deadlines()) == 1
    protocol.connection_lost(None)
    assert loop.deadlines() == []


def test_s24_a_connection_without_a_request_makes_room_for_a_new_one(kind: type[Protocol]) -> None:
    state = ServerState()
    busy, _, busy_transport = connected(kind, state)
    busy.data_received(HEAD)
    idle = [connected(kind, state) for _ in range(MAX_IDLE + 2)]
    assert [transport.closed for _, _, transport in idle] == [True] * 2 + [False] * MAX_IDLE
    assert not busy_transport.closed


def test_s24_a_body_that_does_not_end_is_no_request_and_makes_room(kind: type[Protocol]) -> None:
    state = ServerState()
    slow, _, slow_transport = connected(kind, state)
    slow.data_received(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n")
    whole, _, whole_transport = connected(kind, state)
    whole.data_received(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n123456789")
    whole.data_received(b"0")
    for _ in range(MAX_IDLE):
        slow.data_received(b"")
        connected(kind, state)
    assert (slow_transport.closed, whole_transport.closed) == (True, False)


def test_s24_a_connection_that_was_answered_or_has_ended_counts_as_what_it_is(kind: type[Protocol]) -> None:
    state = ServerState()
    answered, _, answered_transport = connected(kind, state)
    answered.data_received(HEAD)
    assert answered.cycle is not None
    answered.cycle.response_complete = True
    if isinstance(answered, DeadlineProtocol):
        answered.conn = h11.Connection(h11.SERVER)  # as after the answer
    ended, _, _ = connected(kind, state)
    answered.on_response_complete()
    ended.connection_lost(None)
    for _ in range(MAX_IDLE - 1):
        connected(kind, state)
    assert not answered_transport.closed
    connected(kind, state)
    assert answered_transport.closed


def test_s24_a_client_that_stops_reading_an_answer_is_closed(kind: type[Protocol]) -> None:
    protocol, loop, transport = connected(kind)
    protocol.pause_writing()
    protocol.pause_writing()
    (stall,) = [timer for timer in loop.timers if timer.seconds == STALL_S and not timer.cancelled]
    stall.callback()
    assert transport.aborted


def test_a_client_that_reads_on_is_not_closed(kind: type[Protocol]) -> None:
    protocol, loop, transport = connected(kind)
    protocol.pause_writing()
    protocol.resume_writing()
    protocol.pause_writing()
    protocol.connection_lost(None)
    assert all(timer.cancelled for timer in loop.timers if timer.seconds == STALL_S)
    assert not transport.aborted


def test_the_parser_of_a_closed_connection_is_freed_without_a_collection() -> None:
    for _ in range(2):
        gc.collect()
        protocol, _, _ = connected(QuickProtocol)
        protocol.data_received(HEAD[:-1])
        protocol.connection_lost(None)
        del protocol
    assert not {"QuickParser", "HttpRequestParser"} & cycles()
