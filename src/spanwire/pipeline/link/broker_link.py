"""A consumer, a browser and a producer of the blocking client, for the pipeline.

The other modules know only the ports `MessageSource` and `MessageSink`.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from typing import Final

from spanwire.client import blocking
from spanwire.client.addressing.consumer_options import ConsumerOptions
from spanwire.client.messages.message import Message
from spanwire.client.messages.message_encoder import Outgoing
from spanwire.model.destination import QUEUE
from spanwire.model.errors import JmsError
from spanwire.pipeline.link.batch_receiver import MessageSource
from spanwire.pipeline.link.batch_sender import MessageSink
from spanwire.pipeline.link.connections import connect
from spanwire.pipeline.options import ReadOptions, WriteOptions

BROWSE_S: Final = 10.0  # seconds; a broker ends its answer to a browser even for an empty queue

logger = logging.getLogger(__name__)


def consume(options: ReadOptions) -> MessageSource:
    """Connect and return a consumer of the destination of the options.

    Raises:
        JmsError: the broker is lost or refuses the consumer.
        ConfigurationError: the URL is invalid.
    """
    return QueueSource(connect(options.login), options)


def browse(options: ReadOptions) -> Iterator[list[Message]]:
    """Yield the messages of the queue of the options, without removing them.

    Raises:
        JmsError: the broker is lost or refuses the browser.
        ConfigurationError: the URL is invalid.
    """
    with connect(options.login) as connection, connection.session() as session:
        yield from session.create_browser(options.destination, selector=options.selector).portions()


def produce(options: WriteOptions) -> MessageSink:
    """Connect and return a producer in a transacted session.

    Raises:
        JmsError: the broker is lost or refuses the producer.
        ConfigurationError: the URL is invalid.
    """
    return QueueSink(connect(options.login), options)


class QueueSource(MessageSource):
    """A consumer under client acknowledgement, with its own session and connection."""

    def __init__(self, connection: blocking.Connection, options: ReadOptions) -> None:
        self._connection: Final = connection
        self._options: Final = options
        self._epoch: int | None = None  # connection of the first unacknowledged message
        try:
            self._session: Final = connection.session(acknowledge="client")
            self._consumer: Final = self._create_consumer(options)
            self._consumer.core.discard_delivered()  # only the broker redelivers unacknowledged messages
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
        """Return at most ``max_count`` messages."""
        messages = self._consumer.receive_many(max_count, timeout_s)
        if messages and self._epoch is None:
            self._epoch = messages[0].epoch
        return messages

    def acknowledge(self) -> None:
        """Acknowledge all received messages and wait until the broker has stored the acknowledgement.

        The broker then delivers no such message again, even if this process ends before recording the confirmation.
        With a ``failover:`` URL the connection may have changed meanwhile; the broker then delivers the messages again.

        Raises:
            JmsError: the connection was lost or replaced.
        """
        epoch, self._epoch = self._epoch, None
        if epoch is None:
            return
        if not self._is_same_connection(epoch) or not self._consumer.acknowledge_stored():
            raise JmsError("the connection was lost before the acknowledgement")

    def _is_same_connection(self, epoch: int) -> bool:
        core = self._connection.shared.core
        return core.is_online and core.correlator.epoch == epoch

    def is_connected(self) -> bool:
        """Return False while a ``failover:`` URL looks for a broker."""
        return self._connection.shared.core.is_online

    def has_messages(self) -> bool:
        """Return True if the broker shows a message to a browser, perhaps one in flight to another consumer.

        Spanwire shows no pattern and no list of queues, and Artemis needs a right of its own.

        Raises:
            JmsError: the connection is lost.
        """
        options = self._options
        if options.destination.kind != QUEUE:
            return False
        browser = ConsumerOptions(options.selector, prefetch=1, browser=True)
        try:
            with self._connection.session() as session:
                return session.subscribe(options.destination, browser, BROWSE_S).receive(BROWSE_S) is not None
        except JmsError as error:
            if not self.is_connected():
                raise
            logger.info("%s: it is unknown whether the queue is empty: %s", options.destination, error)
            return False

    def close(self) -> None:
        """Close the connection; unacknowledged messages return to the broker."""
        with contextlib.suppress(JmsError):
            self._connection.close()


class QueueSink(MessageSink):
    """A producer for any destination in a transacted session, with its own connection."""

    def __init__(self, connection: blocking.Connection, options: WriteOptions) -> None:
        self._connection: Final = connection
        try:
            self._session: Final = connection.session(acknowledge="transacted")
            self._producer: Final = create_producer(self._session, options)
        except BaseException:
            self.close()
            raise

    def send(self, messages: list[Outgoing]) -> None:
        """Send messages in the transaction."""
        self._producer.send_all(messages)

    def commit(self) -> None:
        """Commit all sent messages."""
        self._session.commit()

    def close(self) -> None:
        """Close the connection and roll back uncommitted messages."""
        with contextlib.suppress(JmsError):
            self._connection.close()


def create_producer(session: blocking.Session, options: WriteOptions) -> blocking.Producer:
    """Return a producer for any destination, with the defaults of the options.

    Raises:
        JmsError: the broker refuses the producer.
    """
    return session.create_producer(
        None, persistent=options.persistent, priority=options.priority, time_to_live_ms=options.time_to_live_ms
    )
