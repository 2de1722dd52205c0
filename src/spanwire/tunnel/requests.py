"""One HTTP socket of a client, without the socket: requests sent ahead, and answers in order.

h11 knows one request at a time. So the requests are written here, and h11 is told of each request when the answer is
due.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any, Final

import h11

from spanwire.model.errors import RemoteProtocolError
from spanwire.protocols.detect import OPENWIRE, detect

MAX_HEAD: Final = 64 * 1024  # bytes of the head of an answer
MAX_ERROR_TEXT: Final = 300  # characters of an answer's text in an error
OK: Final = 200


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to one request."""

    method: str
    status: int
    body: bytes

    def refusal(self) -> str:
        """Return the reason of an answer that is no success, in one line."""
        text = self.body[:MAX_ERROR_TEXT].decode("utf-8", "replace").split("\n")[0].strip()
        printable = "".join(character for character in text if character.isprintable())
        return f"HTTP {self.status} to {self.method}" + (f": {printable}" if printable and "<" not in printable else "")


class RequestSocket:
    """Writes requests and reads answers.

    ``authority`` is the host and port of the broker, ``client_id`` the name of the session.
    """

    def __init__(self, authority: str, client_id: str, max_body: int) -> None:
        self._head: Final[str] = f" / HTTP/1.1\r\nHost: {authority}\r\nclientID: {client_id}\r\n"
        self._max_body: Final[int] = max_body
        self._due: Final[deque[str]] = deque()
        self._http: Any = h11.Connection(h11.CLIENT, max_incomplete_event_size=MAX_HEAD)
        self._is_awaiting = False
        self._status = 0
        self._body: list[bytes] = []
        self._body_size = 0

    @property
    def unanswered(self) -> int:
        """The number of requests without an answer."""
        return len(self._due)

    def request(self, method: str, body: bytes = b"") -> bytes:
        """Return the bytes of a request, to be sent now."""
        self._due.append(method)
        length = f"Content-Length: {len(body)}\r\n" if method == "POST" else ""
        return f"{method}{self._head}{length}\r\n".encode("ascii") + body

    def receive(self, data: bytes) -> list[Answer]:
        """Return the answers that are complete; empty ``data`` is the end of the socket.

        Raises:
            RemoteProtocolError: the bytes are no answers of HTTP to the requests.
        """
        answers: list[Answer] = []
        try:
            self._http.receive_data(data)
            while self._due:
                if not self._is_awaiting:
                    self._await_next()
                event = self._http.next_event()
                if event is h11.NEED_DATA:
                    break
                if isinstance(event, h11.Response):
                    self._status = event.status_code
                elif isinstance(event, h11.Data):
                    self._add(bytes(event.data))
                elif isinstance(event, h11.EndOfMessage):
                    answers.append(Answer(self._due.popleft(), self._status, b"".join(self._body)))
                    self._end()
                elif not isinstance(event, h11.InformationalResponse):
                    raise RemoteProtocolError("the broker closed the socket before its answer")
        except h11.RemoteProtocolError as error:
            if detect(data) == OPENWIRE:
                raise RemoteProtocolError("it is a port of OpenWire; write tcp:// before the host") from None
            raise RemoteProtocolError(f"no answer of HTTP came: {error}") from None
        return answers

    def _await_next(self) -> None:
        """Tell h11 of the request whose answer is due."""
        self._http.send(h11.Request(method=self._due[0], target="/", headers=[("Host", "broker")]))
        self._http.send(h11.EndOfMessage())
        self._is_awaiting = True

    def _add(self, data: bytes) -> None:
        self._body_size += len(data)
        if self._body_size > self._max_body:
            raise RemoteProtocolError(f"an answer is longer than {self._max_body} bytes")
        self._body.append(data)

    def _end(self) -> None:
        self._is_awaiting = False
        self._body = []
        self._body_size = 0
        if self._http.their_state is h11.DONE and self._http.our_state is h11.DONE:
            self._http.start_next_cycle()
        elif self._due:
            raise RemoteProtocolError("the broker closes the socket after one answer")
