"""Requests of a blocking connection, and the replies to them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from spanwire.client.blocking.connection import CoreConnection
from spanwire.client.blocking.consumer import Consumer
from spanwire.client.blocking.producer import Producer
from spanwire.client.messages.content_types import Body, Properties
from spanwire.client.messages.message import Message
from spanwire.client.messages.requestor import Replies
from spanwire.client.protocol.consumer import ClientConsumer
from spanwire.model.destination import Destination


class ReplySession(Protocol):
    """What a session does for requests."""

    def create_temporary_queue(self) -> Destination:
        """Where the replies arrive."""
        ...

    def create_producer(self, destination: None) -> Producer:
        """Who asks."""
        ...

    def create_consumer(self, destination: Destination) -> Consumer:
        """Who takes the replies."""
        ...


@dataclass(frozen=True)
class _Ends:
    queue: Destination
    producer: Producer
    consumer: Consumer


class Requestor:
    """One temporary queue for the replies to all requests of a connection."""

    def __init__(self, shared: CoreConnection, open_session: Callable[[], ReplySession]) -> None:
        self._shared: Final = shared
        self._open_session: Final = open_session
        self._replies: Final = Replies(shared.core.connection_id)
        self._starting: Final = threading.Lock()
        self._ends: _Ends | None = None

    @property
    def queue(self) -> Destination:
        """Where the replies arrive."""
        return self._started().queue

    def _started(self) -> _Ends:
        with self._starting:
            if self._ends is None:
                session = self._open_session()
                queue = session.create_temporary_queue()
                self._ends = _Ends(queue, session.create_producer(None), session.create_consumer(queue))
            return self._ends

    def request(
        self,
        destination: Destination | str,
        body: Body,
        properties: Properties | None,
        timeout: float | None,
    ) -> Message | None:
        """Send, and wait for the reply; None when the time is over."""
        clock = self._shared.machine
        end = None if timeout is None else clock.now().monotonic + timeout
        ends = self._started()
        number = self._replies.expect()
        try:
            ends.producer.send(body, properties, destination, correlation_id=number, reply_to=ends.queue, wait=False)
            with self._shared.lock:
                while not self._replies.has(number):
                    if not self._take_reply(ends.consumer.core, number, end):
                        return None
            return self._replies.pop(number)
        finally:
            self._replies.forget(number)

    def _take_reply(self, consumer: ClientConsumer, number: str, end: float | None) -> bool:
        """Take one message, whosever reply it is, or wait for one; False when the time is over."""
        shared = self._shared
        message = consumer.next_message(shared.machine.now())
        if message is not None:
            if self._replies.take(message):
                shared.changed()
            shared.wrote()
            return True
        consumer.waiting = True
        return shared.wait(lambda: self._replies.has(number) or not consumer.waiting, end)
