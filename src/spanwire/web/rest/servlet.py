"""The message servlet: POST sends a message, GET and DELETE consume a message.

Source: Connectivity Guide, "Using REST".
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from http import HTTPStatus
from typing import Final
from urllib.parse import parse_qsl

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import Receive, Scope, Send

from spanwire.client.messages.message import Message
from spanwire.management.tables.operation_table import Role
from spanwire.model.errors import (
    AuthenticationError,
    AuthorizationError,
    InvalidDestinationError,
    InvalidSelectorError,
    JmsError,
    MessageFormatError,
    MessageTooLargeError,
)
from spanwire.web.access import read_credentials
from spanwire.web.calls import Call, RouteRow
from spanwire.web.login.cookies import credentials
from spanwire.web.problems import ProblemError, problem
from spanwire.web.rest import reader_cookies
from spanwire.web.rest.answers import Answer, answer_of
from spanwire.web.rest.leases import FullLeasesError, NoLeaseError
from spanwire.web.rest.logins import Login, TooManyError
from spanwire.web.rest.reads import Reader
from spanwire.web.rest.requests import (
    BadRequestError,
    Parameters,
    destination_of,
    form_fields,
    posted_message,
    wait_ms,
)
from spanwire.web.rest.sessions import MAX_CLIENT_ID, BusyReaderError, FullSessionsError

MOUNTS: Final = ("/api/message", "/demo/message")  # of Classic's distribution, and of the Connectivity Guide
UNSUBSCRIBE: Final = "unsubscribe"
SENT: Final = b"Message sent"
SENT_HEADERS: Final = ((b"content-length", b"%d" % len(SENT)), (b"content-type", b"text/plain; charset=utf-8"))
SUBJECT: Final = "{name:path}"
CONSUMED: Final = "consumes a message of a queue or topic"
STATUS_OF_ERROR: Final = (
    (BadRequestError, HTTPStatus.BAD_REQUEST),
    (MessageFormatError, HTTPStatus.BAD_REQUEST),
    (MessageTooLargeError, HTTPStatus.REQUEST_ENTITY_TOO_LARGE),
    (InvalidDestinationError, HTTPStatus.BAD_REQUEST),
    (InvalidSelectorError, HTTPStatus.BAD_REQUEST),
    (AuthenticationError, HTTPStatus.UNAUTHORIZED),
    (AuthorizationError, HTTPStatus.FORBIDDEN),
    (BusyReaderError, HTTPStatus.CONFLICT),
    (FullSessionsError, HTTPStatus.TOO_MANY_REQUESTS),
    (TooManyError, HTTPStatus.TOO_MANY_REQUESTS),
    (FullLeasesError, HTTPStatus.TOO_MANY_REQUESTS),
    (NoLeaseError, HTTPStatus.NOT_FOUND),
    (JmsError, HTTPStatus.SERVICE_UNAVAILABLE),
)
ERRORS: Final = tuple(kind for kind, _ in STATUS_OF_ERROR)


def problem_of_error(error: Exception) -> ProblemError:
    """Return the problem of a failed request."""
    status = next(status for kind, status in STATUS_OF_ERROR if isinstance(error, kind))
    return ProblemError(status, str(error))


async def with_login(call: Call, run: Callable[[Login], Awaitable[Response]]) -> Response:
    """Run a request with the caller's login at the broker. Raises `ProblemError`."""
    request = call.request
    user, password = read_credentials(credentials(request, call.sessions))
    host = request.client.host if request.client is not None else ""
    try:
        login = await call.logins.login(user, password, host)
        login.requests += 1
        try:
            return await run(login)
        finally:
            login.requests -= 1
            login.touch()
    except ERRORS as error:
        raise problem_of_error(error) from error


async def post(call: Call) -> Response:
    """Send a message, or end a session with ``action=unsubscribe``."""
    request = call.request
    body: bytes = (await request.receive())["body"]  # the guard gives it as a whole
    content_type = request.headers.get("content-type", "")
    path = str(request.path_params.get("name", ""))
    try:
        fields = form_fields(content_type, body)
        parameters = Parameters([*query_fields(request), *(fields or ())])
        if (parameters.text("action") or "").lower() == UNSUBSCRIBE:
            return await with_login(call, partial(_unsubscribe, request, path, parameters))
        posted = posted_message(
            path, parameters, content_type, body, is_form=fields is not None, now_ms=int(time.time() * 1000)
        )
    except BadRequestError as error:
        raise problem_of_error(error) from error

    async def send(login: Login) -> Response:
        return SentResponse(await login.send(posted))

    return await with_login(call, send)


class SentResponse(Response):
    """The answer to a POST, without Starlette's tables of headers."""

    def __init__(self, message_id: str) -> None:
        self.status_code = HTTPStatus.OK
        self.background = None
        self.body = SENT
        self.raw_headers = [(b"messageid", message_id.encode("latin-1")), *SENT_HEADERS]


def query_fields(request: Request) -> list[tuple[str, str]]:
    """Return the parameters of the URL, without Starlette's tables."""
    return parse_qsl(request.scope["query_string"].decode("latin-1"), keep_blank_values=True)


async def _unsubscribe(request: Request, path: str, parameters: Parameters, login: Login) -> Response:
    destination = destination_of(path, parameters)
    client_id = _client_id(parameters)
    token = reader_cookies.token_of(request)
    if client_id is None and token is not None:
        client_id = reader_cookies.reader_name(token)
    if client_id is None:
        raise BadRequestError("action=unsubscribe needs the clientId of the session, or its cookie")
    if not await login.sessions.end(client_id, destination):
        raise ProblemError(HTTPStatus.NOT_FOUND, f"no session {client_id[:60]} reads from {destination}")
    return PlainTextResponse("Unsubscribed")


async def consume(call: Call) -> Response:
    """Consume one message and answer with its body, or with 204 after the time-out."""
    request = call.request
    if request.method == "HEAD":
        return not_allowed("HEAD would consume a message; GET does")
    await request.body()
    return await with_login(call, partial(_consumed, request))


async def _consumed(request: Request, login: Login) -> Response:
    parameters = Parameters(query_fields(request))
    destination = destination_of(str(request.path_params.get("name", "")), parameters)
    selector = parameters.text("selector") or request.headers.get("selector")
    client_id = _client_id(parameters)
    new_token: str | None = None
    if client_id is None and not destination.is_queue:
        token = reader_cookies.token_of(request)
        if token is None and not login.sessions.is_full and not parameters.flag("oneShot"):
            token = new_token = reader_cookies.new_token()
        client_id = None if token is None else reader_cookies.reader_name(token)
    if client_id is None:
        reader = await login.reader(destination, selector)
        give_back = partial(login.give_back, reader, is_queue=destination.is_queue)
    else:
        is_new = new_token is not None
        reader = await login.sessions.reader(client_id, destination, selector, is_unconfirmed=is_new)
        give_back = partial(login.sessions.give_back, client_id, destination, reader, ends=parameters.flag("oneShot"))
    message: Message | None = None
    answer: Answer | None = None
    try:
        message = await reader.read(wait_ms(parameters) / 1000, request.receive)
        if message is None:
            return _with_cookie(request, Response(status_code=HTTPStatus.NO_CONTENT), new_token)
        answer = answer_of(message, as_json=parameters.flag("json"), as_xml=parameters.flag("xml"))
    except MessageFormatError as error:
        await reader.put_back()
        raise ProblemError(
            HTTPStatus.INTERNAL_SERVER_ERROR, f"the next message cannot be decoded, and stays: {error}"
        ) from error
    finally:
        if answer is None:
            await give_back()

    return _with_cookie(request, Delivery(answer, reader, message, give_back), new_token)


def _with_cookie(request: Request, response: Response, new_token: str | None) -> Response:
    """Return a response, with the cookie of a new session."""
    if new_token is not None:
        reader_cookies.set_token(request, response, new_token)
    return response


class Delivery(Response):
    """The answer with a message, acknowledged after the write of the answer."""

    def __init__(
        self, answer: Answer, reader: Reader, message: Message, give_back: Callable[[], Awaitable[None]]
    ) -> None:
        super().__init__(answer.body, HTTPStatus.OK, answer.headers, answer.content_type)
        self._reader: Final = reader
        self._message: Final = message
        self._give_back: Final = give_back

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Write the answer. Without an answer the message goes back, for another read."""
        is_written = False
        try:
            await super().__call__(scope, receive, send)
            is_written = True
        finally:
            with suppress(JmsError):  # without a connection the broker delivers the message again
                if is_written:
                    self._reader.accept(self._message)
                else:
                    await self._reader.put_back()
            await self._give_back()


def _client_id(parameters: Parameters) -> str | None:
    client_id = parameters.text("clientId")
    if client_id is not None and not 0 < len(client_id) <= MAX_CLIENT_ID:
        raise BadRequestError(f"clientId has 1 to {MAX_CLIENT_ID} characters")
    return client_id


def not_allowed(detail: str, allowed: str = "GET, POST, DELETE") -> Response:
    """Return a refusal of a method."""
    response = problem(HTTPStatus.METHOD_NOT_ALLOWED, detail)
    response.headers["Allow"] = allowed
    return response


async def put(call: Call) -> Response:
    """Refuse PUT, as Classic's servlet does."""
    return not_allowed("PUT is not supported: POST sends, GET and DELETE consume")


def message_rows(mount: str) -> list[RouteRow]:
    """Return the routes of the servlet at a path."""
    rows = []
    for path in (mount, f"{mount}/{SUBJECT}"):
        rows += [
            RouteRow("POST", path, Role.NONE, post, "sends a message to a queue or topic", is_messaging=True),
            RouteRow("GET", path, Role.NONE, consume, CONSUMED, is_messaging=True),
            RouteRow("DELETE", path, Role.NONE, consume, CONSUMED, is_messaging=True),
            RouteRow("PUT", path, Role.NONE, put, "is refused", is_messaging=True),
        ]
    return rows


MESSAGE_ROUTES: Final = tuple(row for mount in MOUNTS for row in message_rows(mount))
