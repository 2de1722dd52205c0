"""What a connection sends, over however many links: commands with their numbers, and who waits for an answer.

Sessions, producers and consumers talk to the `ResponseCorrelator`, which knows whether there is a link just now. While
there is none, what is one-way and can be told again from the client's state is dropped, and what waits for an answer is
kept.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from spanwire.client.protocol.link import Link
from spanwire.model.errors import JmsError
from spanwire.protocols.openwire.codec import _marshallers as wire
from spanwire.protocols.openwire.codec.codec import decode_message
from spanwire.protocols.openwire.codec.schema import DataStructure

LAYOUT_STARTS: Final = (1, 2, 3, 10)  # versions since which a message looks different
MAX_COMMAND_ID: Final = 2**31 - 1  # then the numbers start again

ORDINARY: Final = 0
COMMIT: Final = 1
MESSAGE: Final = 2
XA: Final = 3


class Request:
    """A command that the broker answers. ``error`` says what it refused; everything else happens in the core."""

    def __init__(self, number: int, kind: int, owner: int) -> None:
        self.number: Final[int] = number
        self.kind: Final[int] = kind
        self.owner: Final[int] = owner  # the session it belongs to, 0 for none
        self.done = False
        self.error: JmsError | None = None
        self.command: wire.BaseCommand | None = None
        self.raw = b""
        self.version = 0
        self.in_transaction = False
        self.result = 0  # of an IntegerResponse
        self.structures: list[DataStructure] = []  # of a DataArrayResponse

    def raise_error(self) -> None:
        """Raise what the broker refused, if it did."""
        if self.error is not None:
            raise self.error


class ResponseCorrelator:
    """The connection's way out. With ``cache_bytes`` it keeps that much of the last one-way sends, for the next broker:
    nobody says which of them this one has stored. ``keeps_transactions``: what is sent in open ones is kept, too, and
    with ``keeps_producers`` also that of producers that are closed before.
    """

    def __init__(self, cache_bytes: int = 0, keeps_transactions: bool = False, keeps_producers: bool = False) -> None:
        self.keeps_transactions: Final[bool] = keeps_transactions
        self.keeps_producers: Final[bool] = keeps_producers
        self._cache_bytes: Final[int] = cache_bytes
        self._cached: deque[Request] = deque()
        self._cached_bytes = 0
        self.link: Link | None = None
        self.is_online = False
        self.epoch = 0
        self.version = 0
        self.failure: JmsError | None = None
        self.buffered_bytes = 0  # of messages that were dispatched and the application has not taken
        self.deleted: Final[dict[str, None]] = {}  # temporary destinations that are known to be gone
        self.requests: Final[dict[int, Request]] = {}
        self.woken: list[int] = []  # consumers that have something for whoever waits
        self._completed: list[Request] = []
        self._last_number = 0
        self._transactions = 0

    @property
    def caches(self) -> bool:
        """Whether one-way sends are kept."""
        return self._cache_bytes > 0

    def next_number(self) -> int:
        """The next command id; never one that still waits for its answer."""
        number = self._last_number
        while True:
            number = 1 if number >= MAX_COMMAND_ID else number + 1
            if number not in self.requests:
                break
        self._last_number = number
        return number

    def next_transaction(self) -> int:
        """The number of the next transaction."""
        self._transactions += 1
        return self._transactions

    def check_open(self) -> None:
        """Raises the connection's failure, if there is one."""
        if self.failure is not None:
            raise self.failure

    def send(self, command: DataStructure) -> None:
        """A one-way command; forgotten when there is no link."""
        link = self.link
        if self.is_online and link is not None:
            link.send(command)

    def send_frame(self, octets: bytes) -> None:
        """A one-way command as octets; forgotten when there is no link."""
        link = self.link
        if self.is_online and link is not None:
            link.send_frame(octets)

    def request(self, command: wire.BaseCommand, kind: int = ORDINARY, owner: int = 0) -> Request:
        """A command with an answer; it waits for a link while there is none. Raises the connection's failure."""
        self.check_open()
        request = Request(self.next_number(), kind, owner)
        command.command_id = request.number
        command.response_required = True
        request.command = command
        link = self.link
        if self.is_online and link is not None:
            link.send(command)
        self.requests[request.number] = request
        return request

    def remove(self, command: wire.RemoveInfo, owner: int) -> Request | None:
        """Something leaves. None without a link: the broker has removed it with that, and is not told of it again."""
        if not self.is_online:
            return None
        return self.request(command, owner=owner)

    def send_message(self, raw: bytes, number: int, owner: int, in_transaction: bool) -> Request | None:
        """A message of this line's version; with its command id ``number`` if it is answered, else 0."""
        self.check_open()
        link = self.link
        if number == 0:
            if self._cache_bytes > 0 and not in_transaction:
                self._cache_send(raw)
            if link is not None and self.is_online:
                link.send_message(raw)
            return None
        request = Request(number, MESSAGE, owner)
        request.raw = raw
        request.version = self.version
        request.in_transaction = in_transaction
        if self.is_online and link is not None:
            link.send_message(raw)
        self.requests[number] = request
        return request

    def _cache_send(self, raw: bytes) -> None:
        cached = Request(0, MESSAGE, 0)
        cached.raw = raw
        cached.version = self.version
        self._cached.append(cached)
        self._cached_bytes += len(raw)
        while self._cached_bytes > self._cache_bytes:
            self._cached_bytes -= len(self._cached.popleft().raw)

    def resend_cached(self) -> None:
        """The one-way sends that are kept, once more, over a new link. What this broker cannot take is forgotten."""
        for cached in self._cached:
            try:
                self.resend(cached)
            except JmsError:
                cached.raw = b""
        if any(not cached.raw for cached in self._cached):
            self._cached = deque([cached for cached in self._cached if cached.raw])
            self._cached_bytes = sum([len(cached.raw) for cached in self._cached])

    def resend(self, request: Request) -> None:
        """A request once more, over a new link."""
        link = self.link
        assert link is not None
        if request.command is not None:
            link.send(request.command)
        elif same_layout(request.version, link.wire_format.version):
            link.send_message(request.raw)
        else:
            link.send(decode_message(request.raw, request.version))

    def complete(self, request: Request, error: JmsError | None) -> None:
        """The answer is there, or will not come."""
        if request.done:
            return
        self.requests.pop(request.number, None)
        request.done = True
        request.error = error
        request.command = None
        request.raw = b""
        self._completed.append(request)

    def give_up_sends(self, error: JmsError) -> None:
        """Whoever waits for the answer to a message waits no longer, and no other broker is sent it."""
        for request in list(self.requests.values()):
            if request.kind == MESSAGE:
                self.complete(request, error)

    def complete_in_transaction(self, owner: int, error: JmsError | None) -> None:
        """Whoever waits for the answer to something sent in the transaction of session ``owner`` waits no longer."""
        for request in list(self.requests.values()):
            if request.in_transaction and request.owner == owner:
                self.complete(request, error)

    def take_completed(self) -> list[Request]:
        """The requests that were completed since the last call."""
        completed = self._completed
        if completed:
            self._completed = []
        return completed


def same_layout(version: int, other: int) -> bool:
    """Whether messages of two wire format versions have the same fields."""
    return not any(min(version, other) < start <= max(version, other) for start in LAYOUT_STARTS)
