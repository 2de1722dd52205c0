"""Announcements of a client: connections, sessions, producers, consumers.

The classes are neutral forms of OpenWire's commands.

Each protocol creates them from its own frames; the broker knows no other form. All are frozen: a changed prefetch
arrives by a separate call.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from spanwire.model.destination import Destination
from spanwire.model.ids import ConsumerId, ProducerId
from spanwire.model.routing import NO_PATH, NetworkFilter

MAX_CONSUMERS_PER_CONNECTION: Final = 1_000  # consumers; default of a connector's setting
MAX_PRODUCERS_PER_CONNECTION: Final = 1_000  # producers; default of a connector's setting


@dataclass(frozen=True)
class ConnectionInfo:
    """The announcement of a connection; the repr leaves the password out.

    ``reconnected`` is True if the client already had a connection of this id: the client may send unanswered messages
    again under their ids. ``is_bridge`` is True if the client announces itself as another broker. ``unnamed_broker_id``
    is the id of a broker with the default name, and makes the client id of such a broker unique.

    The connector sets the following attributes, not the client:

    - ``certificate_subject``: the distinguished name in the verified TLS certificate, as Java prints it
      (``CN=orders, O=Example, C=DE``)
    - ``max_consumers`` and ``max_producers``
    - ``encrypted``: True if the connection is inside TLS
    - ``audit_makers``: True if duplicates of a bridge of another kind of broker are detected by original producer
    - ``connector``: the name of the connector, "" for connections inside of the process
    - ``steals_links``: True if the connection takes over the client id of an older connection (``allowLinkStealing``)
    """

    connection_id: str
    client_id: str | None = None
    user_name: str | None = None
    password: str | None = field(default=None, repr=False)
    remote_address: str = ""
    protocol: str = ""
    fault_tolerant: bool = False
    reconnected: bool = False
    certificate_subject: str | None = None
    max_consumers: int = MAX_CONSUMERS_PER_CONNECTION
    max_producers: int = MAX_PRODUCERS_PER_CONNECTION
    encrypted: bool = False
    audit_makers: bool = False
    steals_links: bool = False
    is_bridge: bool = False
    unnamed_broker_id: str = ""
    connector: str = ""


class ProducerCounts:
    """Counts of one producer: ``sent`` messages, ``blocked`` messages after a wait for room, and the wait."""

    __slots__ = ("blocked", "blocked_seconds", "sent")

    def __init__(self) -> None:
        self.sent = 0
        self.blocked = 0
        self.blocked_seconds = 0.0


@dataclass(frozen=True)
class ProducerInfo:
    """The announcement of a producer.

    If ``destination`` is None, each message names its destination. ``window_size`` is in bytes; 0 means no window.
    """

    producer_id: ProducerId
    destination: Destination | None = None
    window_size: int = 0
    counts: ProducerCounts = field(default_factory=ProducerCounts, compare=False)


@dataclass(frozen=True)
class ConsumerInfo:
    """The announcement of a consumer.

    A consumer with ``prefetch_size`` 0 pulls messages. A ``subscription_name`` asks for a durable subscription.

    A consumer with ``network_subscription`` belongs to a bridge and represents consumers beyond the brokers of
    ``broker_path``. The ids of the consumers are in ``network_consumer_path``; ``network_filter`` decides about each
    message.
    """

    consumer_id: ConsumerId
    destination: Destination
    prefetch_size: int = 1000
    selector: str | None = None
    subscription_name: str | None = None
    client_id: str | None = None
    browser: bool = False
    no_local: bool = False
    exclusive: bool = False
    retroactive: bool = False
    priority: int = 0
    maximum_pending_messages: int = 0
    network_subscription: bool = False
    broker_path: tuple[str, ...] = NO_PATH
    network_consumer_path: tuple[ConsumerId, ...] = ()
    network_filter: NetworkFilter | None = None
