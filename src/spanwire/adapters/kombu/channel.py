"""A channel of a kombu transport: a session of the client, and kombu's exchanges.

The exchanges stand in front of the broker's queues and topics.

| kombu | broker |
|---|---|
| queue | the queue of the same name |
| direct or topic exchange | bindings declared by each process, and ``KOMBU.BINDINGS``, a queue with all bindings |
| fanout exchange | a topic ``KOMBU.FANOUT.<exchange>``; a bound queue is a subscription of the process |
| acknowledgement | acknowledgement of the single message: after a kill the broker redelivers the rest |
| reject with requeue | a copy at the end of the queue, then the acknowledgement of the message |
"""

from __future__ import annotations

import re
from itertools import islice
from queue import Empty
from typing import TYPE_CHECKING, Any, Final

from kombu.exceptions import ChannelError
from kombu.transport import virtual
from kombu.utils.json import dumps, loads

from spanwire.model.destination import QUEUE, TOPIC, Destination

if TYPE_CHECKING:
    from spanwire.client import Message, blocking

PULL_S: Final = 0.02  # how long a pull waits for the broker's answer; the next look finds a message that came later
FANOUT: Final = "KOMBU.FANOUT."
BINDINGS: Final = "KOMBU.BINDINGS"
TEMPORARY_BINDING_MS: Final = 24 * 3600 * 1000  # of a queue for replies, whose process may end without a word
MAX_COUNTED: Final = 1_000  # messages that a declaration counts
AMBIGUOUS: Final = re.compile(r"[,*>?\x00-\x1f]")  # has a meaning of its own in names of the broker
HIGHEST_PRIORITY: Final = 9


class QoS(virtual.QoS):
    """Acknowledges at the broker; unacknowledged messages are the broker's to redeliver."""

    restore_at_shutdown = False

    def ack(self, delivery_tag: str) -> None:
        """Acknowledge one message."""
        self.channel.acknowledge(delivery_tag)
        super().ack(delivery_tag)

    def reject(self, delivery_tag: str, requeue: bool = False) -> None:
        """Acknowledge one message, with ``requeue`` after a copy was sent to the queue."""
        if requeue:
            self.channel.send_again(delivery_tag)
        self.channel.acknowledge(delivery_tag)
        self._quick_ack(delivery_tag)

    def restore_unacked(self) -> list[Any]:
        """Send all unacknowledged messages again, as ``basic_recover`` asks."""
        self._flush()
        for delivery_tag in list(self._delivered):
            self.reject(delivery_tag, requeue=True)
        self._flush()
        return []


class Channel(virtual.Channel):
    """A session with singly acknowledged messages and pulling consumers.

    A pulling consumer holds no message for another process.
    """

    QoS = QoS
    supports_fanout = True
    do_restore = False

    def __init__(self, connection: Any, **options: Any) -> None:
        self._consumers_by_queue: dict[str, blocking.Consumer] = {}
        self._unacknowledged: dict[str, tuple[str, Message]] = {}
        self._without_ack: set[str] = set()
        self._cancelled: set[str] = set()  # queues without a consumer of kombu, with unacknowledged messages
        self._temporary: set[str] = set()
        super().__init__(connection, **options)
        self._session: blocking.Session = connection.shared.session("individual")
        self._producer: blocking.Producer = self._session.create_producer()

    # kombu calls what follows

    def basic_consume(self, queue: str, no_ack: bool, *arguments: Any, **options: Any) -> Any:
        """Consume from a queue; with ``no_ack`` messages are acknowledged on arrival."""
        (self._without_ack.add if no_ack else self._without_ack.discard)(queue)
        self._cancelled.discard(queue)
        return super().basic_consume(queue, no_ack, *arguments, **options)

    def basic_get(self, queue: str, no_ack: bool = False, **options: Any) -> Any:
        """Return one message, or None."""
        message = super().basic_get(queue, no_ack=no_ack, **options)
        if no_ack and message is not None:
            self.acknowledge(message.delivery_tag)
        return message

    def basic_cancel(self, consumer_tag: str) -> Any:
        """End a consumer. Its unacknowledged messages stay with the channel, as in AMQP.

        A worker that stops in order cancels its consumers first, and acknowledges the tasks under way when they end.
        """
        queue = self._tag_to_queue.get(consumer_tag)
        result = super().basic_cancel(consumer_tag)
        if queue is not None and queue not in self._active_queues:
            self._cancelled.add(queue)
            self._close_unused(queue)
        return result

    def queue_declare(self, queue: str | None = None, passive: bool = False, **options: Any) -> Any:
        """Declare a queue. The broker creates the queue with the first message or consumer."""
        if queue and (options.get("auto_delete") or options.get("exclusive")):
            self._temporary.add(queue)
        return super().queue_declare(queue, passive, **options)

    def close(self) -> None:
        """Close the session; the broker redelivers unacknowledged messages."""
        if not self.closed:
            super().close()
            self._session.close()

    def _new_queue(self, queue: str, **options: Any) -> None:
        self._queue_named(queue)

    def _has_queue(self, queue: str, **options: Any) -> bool:
        return True  # the broker creates queues by first use

    def _get(self, queue: str, timeout: float | None = None) -> dict[str, Any]:
        subscription = self.connection.subscriptions.get(queue)
        message = self._consumer(queue).receive(PULL_S) if subscription is None else subscription.receive_no_wait()
        if message is None:
            raise Empty
        payload: dict[str, Any] = loads(message.text)
        tag = message.message_id
        payload["properties"]["delivery_tag"] = tag  # a copy in another queue has one of its own
        if message.redelivered:
            payload["redelivered"] = True
        if queue in self._without_ack:
            message.acknowledge()
        elif subscription is None:
            self._unacknowledged[tag] = queue, message
        return payload

    def _put(self, queue: str, message: dict[str, Any], **options: Any) -> None:
        subscription = self.connection.subscriptions.get(queue)
        self._send(self._queue_named(queue) if subscription is None else subscription.destination, message)

    def _put_fanout(self, exchange: str, message: dict[str, Any], routing_key: str, **options: Any) -> None:
        self._send(self._topic_of(exchange), message)

    def _size(self, queue: str) -> int:
        if queue in self.connection.subscriptions:
            return 0
        return sum(1 for _ in islice(self._session.create_browser(self._queue_named(queue)), MAX_COUNTED))

    def _purge(self, queue: str) -> int:
        count = 0
        try:
            while True:
                self.acknowledge(self._get(queue)["properties"]["delivery_tag"])
                count += 1
        except Empty:
            return count

    def _delete(self, queue: str, *arguments: Any, **options: Any) -> None:
        subscription = self.connection.subscriptions.pop(queue, None)
        if subscription is not None:
            subscription.close()
            return
        self._purge(queue)
        self._remove_bindings(queue)
        self._close_consumer(queue)

    def _queue_bind(self, exchange: str, routing_key: str, pattern: str | None, queue: str) -> None:
        if self.typeof(exchange).type == "fanout":
            self.connection.subscribe(queue, self._topic_of(exchange))
            return
        binding = [routing_key, pattern, queue]
        if binding not in self._remote_bindings(exchange):
            self._producer.send(
                dumps(binding),
                {"exchange": exchange, "queue": queue},
                Destination(QUEUE, BINDINGS),
                time_to_live_ms=TEMPORARY_BINDING_MS if queue in self._temporary else 0,
            )

    def _lookup(self, exchange: str, routing_key: str, default: str | None = None) -> list[str]:
        if exchange:
            entry = self.state.exchanges.setdefault(exchange, {"type": "direct", "table": []})
            table = entry.setdefault("table", [])
            if not self.typeof(exchange).lookup(table, exchange, routing_key, default):
                table += [tuple(binding) for binding in self._remote_bindings(exchange) if tuple(binding) not in table]
        found: list[str] = super()._lookup(exchange, routing_key, default)
        return found

    # `QoS` calls what follows

    def acknowledge(self, delivery_tag: str) -> None:
        """Acknowledge a message at the broker; a message of a lost connection comes again there."""
        queue, message = self._unacknowledged.pop(delivery_tag, ("", None))
        if message is not None:
            message.acknowledge()
        if queue in self._cancelled:
            self._close_unused(queue)

    def send_again(self, delivery_tag: str) -> None:
        """Send a copy of a message to the end of the queue."""
        queue, message = self._unacknowledged[delivery_tag]
        self._send(self._queue_named(queue), {**loads(message.text), "redelivered": True})

    # The rest is for this class

    def _send(self, destination: Destination, message: dict[str, Any]) -> None:
        properties = message["properties"]
        expiration = properties.get("expiration")
        self._producer.send(
            dumps(message),
            destination=destination,
            persistent=properties.get("delivery_mode", 2) == 2,
            priority=max(0, min(int(properties.get("priority") or 0), HIGHEST_PRIORITY)),
            time_to_live_ms=int(float(expiration)) if expiration else 0,
        )

    def _consumer(self, queue: str) -> blocking.Consumer:
        consumer = self._consumers_by_queue.get(queue)
        if consumer is None:
            consumer = self._session.create_consumer(self._queue_named(queue), prefetch=0)
            self._consumers_by_queue[queue] = consumer
        return consumer

    def _close_unused(self, queue: str) -> None:
        """Close the pulling consumer of a cancelled queue, but not before the last acknowledgement.

        The broker gives what a closed consumer has not acknowledged to others.
        """
        if not any(holding == queue for holding, _ in self._unacknowledged.values()):
            self._cancelled.discard(queue)
            self._close_consumer(queue)

    def _close_consumer(self, queue: str) -> None:
        consumer = self._consumers_by_queue.pop(queue, None)
        if consumer is not None:
            consumer.close()

    def _remote_bindings(self, exchange: str) -> list[list[Any]]:
        selector = "exchange = '" + exchange.replace("'", "''") + "'"
        return [loads(message.text) for message in self._session.create_browser(Destination(QUEUE, BINDINGS), selector)]

    def _remove_bindings(self, queue: str) -> None:
        selector = "queue = '" + queue.replace("'", "''") + "'"
        with self._session.create_consumer(Destination(QUEUE, BINDINGS), selector, prefetch=0) as consumer:
            while (message := consumer.receive(PULL_S)) is not None:
                message.acknowledge()

    def _queue_named(self, name: str) -> Destination:
        return Destination(QUEUE, self._checked(name))

    def _topic_of(self, exchange: str) -> Destination:
        return Destination(TOPIC, FANOUT + self._checked(exchange))

    def _checked(self, name: str) -> str:
        if AMBIGUOUS.search(name):
            raise ChannelError(f"the name {name!r} has a character with a meaning of its own in Spanwire: , * > ?")
        return name
