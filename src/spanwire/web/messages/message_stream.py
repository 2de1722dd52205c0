"""The messages of a queue or topic as server-sent events, one event for each message.

A message of a queue is acknowledged after its event was written to the connection.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from http import HTTPStatus
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from spanwire.client.messages.message import Message
from spanwire.model.errors import JmsError
from spanwire.web.calls import Call
from spanwire.web.messages.handlers import named_destination
from spanwire.web.messages.message_json import message_json
from spanwire.web.problems import ProblemError
from spanwire.web.rest.logins import Login
from spanwire.web.rest.reads import Reader
from spanwire.web.rest.requests import Parameters
from spanwire.web.rest.servlet import with_login

MEDIA_TYPE: Final = "text/event-stream"
HEARTBEAT_S: Final = 15.0  # seconds without a message after which a comment is sent; proxies wait 30 to 60 s
STREAM_S: Final = 3_600.0  # seconds of one stream; the client connects again, and its rights are checked again
STREAM_PREFETCH: Final = 10  # messages that the broker gives ahead; they go back when the client goes
HEARTBEAT: Final = b":\n\n"
END: Final = b'event: end\ndata: {"detail":"the stream has lasted an hour; connect again"}\n\n'


async def stream(call: Call) -> Response:
    """Answer with the messages of a queue or topic as events."""
    request = call.request
    accepted = request.headers.get("accept", "")
    if MEDIA_TYPE not in accepted.lower():  # a link or an image of a page, which would consume, does not ask for it
        raise ProblemError(HTTPStatus.NOT_ACCEPTABLE, f"the request needs the header Accept: {MEDIA_TYPE}")
    if request.method != "GET":
        raise ProblemError(HTTPStatus.METHOD_NOT_ALLOWED, "GET follows the messages")
    await request.body()  # the next event of the connection is its end
    return await with_login(call, partial(_stream, request))


async def _stream(request: Request, login: Login) -> Response:
    selector = Parameters(request.query_params.multi_items()).text("selector") or None
    return MessageStream(login, await login.follow(named_destination(request), selector, STREAM_PREFETCH))


class MessageStream(Response):
    """Sends each message of a consumer, and acknowledges the message after the write."""

    media_type = MEDIA_TYPE

    def __init__(self, login: Login, reader: Reader, now: Callable[[], float] = time.monotonic) -> None:
        super().__init__(headers={"X-Accel-Buffering": "no"})  # nginx passes events on at once
        self._login: Final = login
        self._reader: Final = reader
        self._now: Final = now

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send events until the client goes, the broker ends the consumer, or `STREAM_S` are over."""
        self._login.requests += 1
        try:
            headers = [header for header in self.raw_headers if header[0] != b"content-length"]
            await send({"type": "http.response.start", "status": int(HTTPStatus.OK), "headers": headers})
            await send({"type": "http.response.body", "body": HEARTBEAT, "more_body": True})
            last = await self._send(receive, send)
            await send({"type": "http.response.body", "body": last, "more_body": False})
        finally:
            self._login.requests -= 1
            self._login.touch()
            with suppress(JmsError):  # without a connection the broker has the messages back
                await self._reader.close()

    async def _send(self, receive: Receive, send: Send) -> bytes:
        """Send messages. Returns the last event."""
        end = self._now() + STREAM_S
        try:
            while self._now() < end:
                message = await self._reader.read(HEARTBEAT_S, receive)
                if self._reader.is_left:
                    return b""
                event = HEARTBEAT if message is None else event_of(message)
                await send({"type": "http.response.body", "body": event, "more_body": True})
                if message is not None:
                    self._reader.accept(message)
        except JmsError as error:
            return f"event: end\ndata: {json.dumps({'detail': str(error)})}\n\n".encode()
        return END


def event_of(message: Message) -> bytes:
    """Return the event of a message."""
    return f"event: message\ndata: {json.dumps(message_json(message), separators=(',', ':'))}\n\n".encode()
