"""The pipeline's way to a broker: a consumer, a browser or a producer of the blocking client.

Leaves everything about batches, rows and files to the other modules, which see the ports `MessageSource` and
`MessageSink` only.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Final

from spanwire.client import blocking
from spanwire.client.message import Message
from spanwire.model.errors import JmsError
from spanwire.pipeline.options import Login, ReadOptions, WriteOptions
from spanwire.pipeline.receiving import MessageSource
from spanwire.pipeline.rows import MessageSink, OutgoingRow


def consume(options: ReadOptions) -> MessageSource:
    """A consumer of the queue that the options name. Raises `JmsError` or `ConfigurationError`."""
    return QueueSource(_connect(options.login), options)


def browse(options: ReadOptions) -> Iterator[Message]:
    """One look at the queue that the options name. Raises `JmsError` or `ConfigurationError`."""
    with _connect(options.login) as connection, connection.session() as session:
        yield from session.create_browser(options.destination, selector=options.selector)


def produce(options: WriteOptions) -> MessageSink:
    """A producer in a transaction. Raises `JmsError` or `ConfigurationError`."""
    return QueueSink(_connect(options.login), options)


def _connect(login: Login) -> blocking.Connection:
    password = None if login.password is None else login.password.reveal()
    return blocking.connect(login.url, user_name=login.user, password=password, client_id=login.client_id)


class QueueSource(MessageSource):
    """A consumer under client acknowledgement, with a session and a connection of its own."""

    def __init__(self, connection: blocking.Connection, options: ReadOptions) -> None:
        self._connection: Final = connection
        self._first: Message | None = None  # of those that are not acknowledged
        self._last: Message | None = None
        try:
            self._session: Final = connection.session(acknowledge="client")
            self._consumer: Final = self._consumer_of(options)
        except BaseException:
            self.close()
            raise

    def _consumer_of(self, options: ReadOptions) -> blocking.Consumer:
        if options.subscription is None:
            return self._session.create_consumer(options.destination, selector=options.selector)
        return self._session.create_durable_subscriber(
            options.destination, options.subscription, selector=options.selector
        )

    def receive(self, max_count: int, timeout_s: float) -> list[Message]:
        """What is there, at most ``max_count``: one wait, one lock and one look at the socket for many messages."""
        first = self._consumer.receive(timeout=timeout_s)
        if first is None:
            return []
        found = [first]
        shared, core = self._connection.shared, self._consumer.core
        with shared.lock:
            now = shared.machine.now()
            while len(found) < max_count:
                message = core.next_message(now)
                if message is None:
                    shared.look()
                    message = core.next_message(now)
                    if message is None:
                        break
                found.append(message)
            shared.wrote()
        if self._first is None:
            self._first = first
        self._last = found[-1]
        return found

    def acknowledge(self) -> None:
        """Everything received. An answered command behind it tells that the broker has seen it.

        With a ``failover:`` URL the connection may have become another one meanwhile, or becomes it before the answer,
        and the broker delivers again what it was to hear of. Raises `JmsError` then.
        """
        first, last = self._first, self._last
        self._first = self._last = None
        if first is None or last is None:
            return
        if not self._is_still(first.epoch):
            raise JmsError("the connection was lost before the acknowledgement")
        last.acknowledge()
        self._session.create_producer(None).close()
        if not self._is_still(first.epoch):  # another connection has answered: of the acknowledgement it knows nothing
            raise JmsError("the connection was lost before the broker had confirmed the acknowledgement")

    def _is_still(self, epoch: int) -> bool:
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
            self._producer: Final = producer_of(self._session, options)
        except BaseException:
            self.close()
            raise

    def send(self, row: OutgoingRow) -> None:
        """One message into the transaction."""
        send_row(self._producer, row)

    def commit(self) -> None:
        """All that was sent, at once."""
        self._session.commit()

    def close(self) -> None:
        """Leave; what is not committed is forgotten."""
        with contextlib.suppress(JmsError):
            self._connection.close()


def producer_of(session: blocking.Session, options: WriteOptions) -> blocking.Producer:
    """A producer for any destination, with the defaults of the options. Raises `JmsError`."""
    return session.create_producer(
        None, persistent=options.persistent, priority=options.priority, time_to_live_ms=options.time_to_live_ms
    )


def send_row(producer: blocking.Producer, row: OutgoingRow) -> None:
    """One row as a message. Raises `JmsError`."""
    producer.send(
        row.body,
        properties=row.properties,
        destination=row.destination,
        message_type=row.message_type,
        correlation_id=row.correlation_id,
        reply_to=row.reply_to,
        persistent=row.persistent,
        priority=row.priority,
        time_to_live_ms=row.time_to_live_ms,
        group_id=row.group_id,
        group_sequence=row.group_sequence,
    )
