"""The connection of a kombu transport: one OpenWire connection, shared by the channels."""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import urlencode

from kombu.transport import virtual

from spanwire.adapters.kombu.channel import Channel
from spanwire.client import Message, blocking
from spanwire.model.destination import Destination
from spanwire.model.errors import SpanwireError

DEFAULT_PORT: Final = 61616
DEFAULT_TLS_PORT: Final = 61617
POLLING_INTERVAL_S: Final = 0.05  # between two looks at empty queues; bounds the delay of a message
CLOSE_TIMEOUT_MS: Final = 5_000  # of a connection whose broker is gone


class Subscription:
    """A queue of a fanout exchange: a subscription of the process to the topic of the exchange."""

    def __init__(self, destination: Destination, consumer: blocking.Consumer) -> None:
        self.destination: Final = destination
        self._consumer: Final = consumer

    def receive_no_wait(self) -> Message | None:
        """Return the next message, or None."""
        return self._consumer.receive_no_wait()

    def close(self) -> None:
        """End the subscription."""
        self._consumer.close()


class Transport(virtual.Transport):
    """A kombu transport over OpenWire.

    The broker acknowledges, redelivers and stores messages.

    ``transport_options`` may have ``url``, any URL of `spanwire.client.connect` in place of host and port, ``tls``, a
    `ClientTlsSettings`, and ``polling_interval`` in seconds.
    """

    Channel = Channel
    default_port = DEFAULT_PORT
    polling_interval = POLLING_INTERVAL_S
    driver_type = "spanwire"
    driver_name = "spanwire"
    connection_errors = (*virtual.Transport.connection_errors, SpanwireError, OSError)
    channel_errors = virtual.Transport.channel_errors
    implements = virtual.Transport.implements.extend(
        asynchronous=False, exchange_type=frozenset(["direct", "topic", "fanout"]), heartbeats=False
    )

    def __init__(self, client: Any, **options: Any) -> None:
        self._shared: blocking.Connection | None = None
        self._subscribing: blocking.Session | None = None
        self.subscriptions: dict[str, Subscription] = {}  # of queues that are bound to fanout exchanges
        super().__init__(client, **options)

    @property
    def shared(self) -> blocking.Connection:
        """The connection to the broker, made at a channel's first request. Raises `JmsError`."""
        if self._shared is None:
            client = self.client
            self._shared = blocking.connect(
                self.broker_url(), client.userid, client.password, tls=client.transport_options.get("tls")
            )
        return self._shared

    def subscribe(self, queue: str, topic: Destination) -> None:
        """Bind a queue to a fanout exchange: all channels see the topic's messages from now on."""
        if queue not in self.subscriptions:
            if self._subscribing is None:
                self._subscribing = self.shared.session()
            self.subscriptions[queue] = Subscription(topic, self._subscribing.create_consumer(topic))

    def broker_url(self) -> str:
        """Return the URL for the client, without name and password."""
        client = self.client
        url = client.transport_options.get("url")
        if url:
            return str(url)
        is_tls = client.transport_cls == "spanwires"
        port = client.port or (DEFAULT_TLS_PORT if is_tls else DEFAULT_PORT)
        scheme = "ssl" if is_tls else "tcp"
        return f"{scheme}://{client.hostname or 'localhost'}:{port}?" + urlencode(
            {"jms.closeTimeout": CLOSE_TIMEOUT_MS}
        )

    def driver_version(self) -> str:
        """Return the version of the protocol."""
        return "OpenWire"

    def close_connection(self, connection: Any) -> None:
        """Close the channels, then the connection; the broker gives unacknowledged messages to others."""
        super().close_connection(connection)
        self.subscriptions.clear()
        shared, self._shared, self._subscribing = self._shared, None, None
        if shared is not None:
            shared.close()
