"""Numbers the commands of a connection, and keeps the requests until the response.

Sessions, producers and consumers send through the `ResponseCorrelator` and the current link. Without a link, requests
are kept, and one-way commands are dropped, because the state tracker repeats the state after a reconnect.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from spanwire.client.protocol.transport.link import Link
from spanwire.model.errors import JmsError
from spanwire.protocols.openwire.codec import _marshallers as wire
from spanwire.protocols.openwire.codec.codec import decode_message
from spanwire.protocols.openwire.codec.schema import DataStructure

LAYOUT_STARTS: Final = (1, 2, 3, 10)  # wire format versions that added fields to messages
MAX_COMMAND_ID: Final = 2**31 - 1  # the ids start again after the largest Java int

ORDINARY: Final = 0
COMMIT: Final = 1
MESSAGE: Final = 2
XA: Final = 3


class Request:
    """A command with a response of the broker.

    ``error`` is the broker's refusal until it is raised; ``done`` is True after the response.
    """

    def __init__(self, number: int, kind: int, owner: int) -> None:
        self.number: Final[int] = number
        self.kind: Final[int] = kind
        self.owner: Final[int] = owner  # number of the session, 0 for none
        self.done = False
        self.is_refused = False
        self.error: JmsError | None = None
        self.command: wire.BaseCommand | None = None
        self.raw = b""
        self.version = 0
        self.in_transaction = False
        self.result = 0  # of an IntegerResponse
        self.structures: list[DataStructure] = []  # of a DataArrayResponse

    def raise_error(self) -> None:
        """Raise the broker's refusal once, if there is one."""
        if self.error is not None:
            try:
                raise self.error
            finally:
                self.error = None  # its traceback refers to this request


class ResponseCorrelator:
    """Sends commands and matches responses to requests (ActiveMQ's ResponseCorrelator).

    Arguments:
        cache_bytes: Bytes of the latest one-way sends to keep for the next broker, because no response confirms them.
        keeps_transactions: Keep the sends of open transactions for the next broker.
        keeps_producers: Keep sends of closed producers, too.
    """

    def __init__(self, cache_bytes: int = 0, keeps_transactions: bool = False, keeps_producers: bool = False) -> None:
        self.keeps_transactions: Final[bool] = keeps_transactions
        self.keeps_producers: Final[bool] = keeps_producers
        self._cache_bytes: Final[int] = cache_bytes
        self._cached: deque[Request] | None = None
        self._cached_bytes = 0
        self.link: Link | None = None
        self.is_online = False
        self.epoch = 0
        self.version = 0
        self.failure: JmsError | None = None
        self.buffered_bytes = 0  # bytes of dispatched messages that are not delivered yet
        self.deleted: Final[dict[str, None]] = {}  # names of deleted temporary destinations
        self.requests: Final[dict[int, Request]] = {}
        self.woken: list[int] = []  # numbers of consumers whose waiting calls are to be woken
        self._completed: list[Request] = []
        self._last_number = 0
        self._transactions = 0

    @property
    def caches(self) -> bool:
        """True if one-way sends are kept."""
        return self._cache_bytes > 0

    def next_number(self) -> int:
        """Return the next command id, without the ids of pending requests."""
        number = self._last_number
        while True:
            number = 1 if number >= MAX_COMMAND_ID else number + 1
            if number not in self.requests:
                break
        self._last_number = number
        return number

    def next_transaction(self) -> int:
        """Return the number of a new transaction."""
        self._transactions += 1
        return self._transactions

    def check_open(self) -> None:
        """Raise the failure of the connection, if there is one."""
        if self.failure is not None:
            raise self.failure

    def send(self, command: DataStructure) -> None:
        """Send a one-way command; dropped without a link."""
        link = self.link
        if self.is_online and link is not None:
            link.send(command)

    def send_frame(self, octets: bytes) -> None:
        """Send an encoded one-way command; dropped without a link."""
        link = self.link
        if self.is_online and link is not None:
            link.send_frame(octets)

    def request(self, command: wire.BaseCommand, kind: int = ORDINARY, owner: int = 0) -> Request:
        """Send a command with a response; kept while there is no link. Raises the failure of the connection."""
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
        """Send a RemoveInfo. Returns None without a link: the broker removed the object with the old link."""
        if not self.is_online:
            return None
        return self.request(command, owner=owner)

    def send_message(self, raw: bytes, number: int, owner: int, in_transaction: bool) -> Request | None:
        """Send an encoded message. Returns a request if ``number``, its command id, is not 0."""
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
        if self._cached is None:  # an empty one takes 640 bytes, of each of two thousand idle connections
            self._cached = deque()
        self._cached.append(cached)
        self._cached_bytes += len(raw)
        while self._cached_bytes > self._cache_bytes:
            self._cached_bytes -= len(self._cached.popleft().raw)

    def resend_cached(self) -> None:
        """Send the cached one-way messages over a new link, and drop unsendable messages."""
        if self._cached is None:
            return
        for cached in self._cached:
            try:
                self.resend(cached)
            except JmsError:
                cached.raw = b""
        if any(not cached.raw for cached in self._cached):
            self._cached = deque([cached for cached in self._cached if cached.raw])
            self._cached_bytes = sum([len(cached.raw) for cached in self._cached])

    def resend(self, request: Request) -> None:
        """Send a request over a new link."""
        link = self.link
        assert link is not None
        if request.command is not None:
            link.send(request.command)
        elif same_layout(request.version, link.wire_format.version):
            link.send_message(request.raw)
        else:
            link.send(decode_message(request.raw, request.version))

    def complete(self, request: Request, error: JmsError | None) -> None:
        """Complete a request, because the response has come or will not come."""
        if request.done:
            return
        self.requests.pop(request.number, None)
        request.done = True
        request.is_refused = error is not None
        request.error = error
        request.command = None
        request.raw = b""
        self._completed.append(request)

    def give_up_sends(self, error: JmsError) -> None:
        """Complete all pending sends with ``error``; no other broker gets them."""
        for request in list(self.requests.values()):
            if request.kind == MESSAGE:
                self.complete(request, error)

    def complete_in_transaction(self, owner: int, error: JmsError | None) -> None:
        """Complete the pending requests in the transaction of session ``owner``."""
        for request in list(self.requests.values()):
            if request.in_transaction and request.owner == owner:
                self.complete(request, error)

    def take_completed(self) -> list[Request]:
        """Return and remove the requests completed since the last call."""
        completed = self._completed
        if completed:
            self._completed = []
        return completed


def same_layout(version: int, other: int) -> bool:
    """Return True if messages of two wire format versions have the same fields."""
    return not any(min(version, other) < start <= max(version, other) for start in LAYOUT_STARTS)
