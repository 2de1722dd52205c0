"""A request to the control destination, and the requests that wait for the disk."""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from typing import Final

from mypy_extensions import trait

from spanwire.broker.connections.connection_state import ConnectionState
from spanwire.broker.dispatch.broker_context import BrokerContext
from spanwire.broker.dispatch.jobs import Alarm
from spanwire.broker.exactly_once.cursor import is_name
from spanwire.broker.exactly_once.request_values import number_of, text_of
from spanwire.broker.persistence.unsynced_bytes import UnsyncedBytes
from spanwire.broker.request_errors import LIMIT, MALFORMED, refusal
from spanwire.model.destination import MAX_NAME_BYTES, Destination, check_name
from spanwire.model.errors import InvalidDestinationError
from spanwire.model.message_view import MessageView

MAX_POSTPONED: Final = 64  # waiting requests of one connection, while the disk is behind
POLL_SECONDS: Final = 0.05  # seconds between two checks whether the disk has caught up


class Request:
    """A decoded request."""

    def __init__(self, state: ConnectionState, view: MessageView, format_id: int, reply_to: Destination) -> None:
        self.state: Final[ConnectionState] = state
        self.view: Final[MessageView] = view
        self.format_id: Final[int] = format_id
        self.reply_to: Final[Destination] = reply_to
        self.body: bytes | None = None  # body of the answer

    def text(self, name: str) -> str:
        """Return a property, empty if absent."""
        return text_of(self.view.properties, name)

    def name(self, name: str) -> str:
        """Return a property with the name of a cursor, sink or run."""
        text = self.text(name)
        if not is_name(text):
            raise refusal(
                MALFORMED, f"{name} is {text[:40]!r}, not 1 to 200 letters, digits and marks out of . _ - : / @ # +"
            )
        return text

    def name_or_none(self, name: str) -> str:
        """Return a property with such a name, empty if absent."""
        return self.name(name) if self.text(name) else ""

    def parameter(self, name: str) -> str:
        """Return a part of a subscription's name: one line, valid in the name of a destination."""
        text = self.text(name)
        if text:
            try:
                check_name(text)
            except InvalidDestinationError:
                raise refusal(
                    MALFORMED,
                    f"{name} is {text[:40]!r}, not 1 to {MAX_NAME_BYTES} bytes without control characters",
                ) from None
        return text

    def number(self, name: str) -> int:
        """Return a property as a number of at least 0."""
        return number_of(self.view.properties, name)

    def number_or(self, name: str, default: int) -> int:
        """Return a property as a number of at least 0, ``default`` if absent."""
        return self.number(name) if name in self.view.properties else default

    def flag(self, name: str) -> bool:
        """Return a property as a bool; False if absent."""
        text = self.text(name).lower()
        if text not in ("", "true", "false"):
            raise refusal(MALFORMED, f"{name} is {text[:40]!r}, not true or false")
        return text == "true"


@trait
class PostponedTaker:
    """Carries out requests after their wait for the disk."""

    @abstractmethod
    def go_on(self, request: Request) -> None:
        """Carry out a request after its wait."""


class Postponed(Alarm):
    """Requests that wait until the disk has caught up."""

    def __init__(self, context: BrokerContext, unsynced: UnsyncedBytes) -> None:
        self._context: Final[BrokerContext] = context
        self._unsynced: Final[UnsyncedBytes] = unsynced
        self._postponed: Final[deque[Request]] = deque()
        self.taker: PostponedTaker | None = None

    def waits(self) -> bool:
        """Return True if writing requests must wait."""
        return self._unsynced.is_full() or len(self._postponed) > 0

    def add(self, request: Request) -> None:
        """Let a request wait.

        Raises:
            ControlRefusal: too many requests of the connection wait.
        """
        if sum([1 for waiting in self._postponed if waiting.state is request.state]) >= MAX_POSTPONED:
            raise refusal(LIMIT, f"the disk is behind, and {MAX_POSTPONED} requests wait for it: try again later")
        if not self._postponed:
            self._context.wake_at(self, self._context.monotonic + POLL_SECONDS)
        self._postponed.append(request)

    def wake(self) -> None:
        """Carry out waiting requests as long as the disk has room."""
        while self._postponed and not self._unsynced.is_full():
            request = self._postponed.popleft()
            if self.taker is not None:
                self.taker.go_on(request)
        if self._postponed:
            self._context.wake_at(self, self._context.monotonic + POLL_SECONDS)
