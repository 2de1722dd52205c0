"""The pipeline's way to a broker: a consumer, a browser or a producer of the blocking client.

Leaves everything about batches, rows and files to the other modules, which see the ports `MessageSource` and
`MessageSink` only.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Final

from spanwire.client import blocking
from spanwire.client.messages.message import Message
from spanwire.client.messages.message_encoder import Outgoing
from spanwire.model.errors import JmsError
from spanwire.pipeline.link.batch_receiver import MessageSource
from spanwire.pipeline.link.batch_sender import MessageSink
from spanwire.pipeline.link.connections import connect
from spanwire.pipeline.options import ReadOptions, WriteOptions


def consume(options: ReadOptions) -> MessageSource:
    """A consumer of the queue that the options name. Raises `JmsError` or `ConfigurationError`."""
    return QueueSource(connect(options.login), options)


def browse(options: ReadOptions) -> Iterator[list[Message]]:
    """One look at the queue that the options name. Raises `JmsError` or `ConfigurationError`."""
    with connect(options.login) as connection, connection.session() as session:
        yield from session.create_browser(options.destination, selector=options.selector).portions()


def produce(options: WriteOptions) -> MessageSink:
    """A producer in a transaction. Raises `JmsError` or `ConfigurationError`."""
    return QueueSink(connect(options.login), options)


class QueueSource(MessageSource):
    """A consumer under client acknowledgement, with a session and a connection of its own."""

    def __init__(self, connection: blocking.Connection, options: ReadOptions) -> None:
        self._connection: Final = connection
        self._epoch: int | None = None  # of the first of those that are not acknowledged
        try:
            self._session: Final = connection.session(acknowledge="client")
            self._consumer: Final = self._create_consumer(options)
            self._consumer.core.keep_nothing()  # what is not acknowledged comes again from the broker alone
        except BaseException:
            self.close()
            raise

    def _create_consumer(self, options: ReadOptions) -> blocking.Consumer:
        if options.subscription is None:
            return self._session.create_consumer(options.destination, selector=options.selector)
        return self._session.create_durable_subscriber(
            options.destination, options.subscription, selector=options.selector
        )

    def receive(self, max_count: int, timeout_s: float) -> list[Message]:
        """What is there, at most ``max_count``."""
        messages = self._consumer.receive_many(max_count, timeout_s)
        if messages and self._epoch is None:
            self._epoch = messages[0].epoch
        return messages

    def acknowledge(self) -> None:
        """Everything received. The broker answers when it has that on its disk: killed behind the answer it delivers
        nothing of it again, when whoever has noted that the batch is settled is killed, too.

        With a ``failover:`` URL the connection may have become another one meanwhile, or becomes it before the answer,
        and the broker delivers again what it was to hear of. Raises `JmsError` then.
        """
        epoch, self._epoch = self._epoch, None
        if epoch is None:
            return
        if not self._is_same_connection(epoch) or not self._consumer.acknowledge_stored():
            raise JmsError("the connection was lost before the acknowledgement")

    def _is_same_connection(self, epoch: int) -> bool:
        core = self._connection.shared.core
        return core.is_online and core.line.epoch == epoch

    def is_connected(self) -> bool:
        """False while a ``failover:`` URL looks for a broker."""
        return self._connection.shared.core.is_online

    def close(self) -> None:
        """Leave; what is not acknowledged goes back."""
        with contextlib.suppress(JmsError):
            self._connection.close()


class QueueSink(MessageSink):
    """A producer for any queue in a transacted session, with a connection of its own."""

    def __init__(self, connection: blocking.Connection, options: WriteOptions) -> None:
        self._connection: Final = connection
        try:
            self._session: Final = connection.session(acknowledge="transacted")
            self._producer: Final = create_producer(self._session, options)
        except BaseException:
            self.close()
            raise

    def send(self, messages: list[Outgoing]) -> None:
        """Into the transaction."""
        self._producer.send_all(messages)

    def commit(self) -> None:
        """All that was sent, at once."""
        self._session.commit()

    def close(self) -> None:
        """Leave; what is not committed is forgotten."""
        with contextlib.suppress(JmsError):
            self._connection.close()


def create_producer(session: blocking.Session, options: WriteOptions) -> blocking.Producer:
    """A producer for any destination, with the defaults of the options. Raises `JmsError`."""
    return session.create_producer(
        None, persistent=options.persistent, priority=options.priority, time_to_live_ms=options.time_to_live_ms
    )
