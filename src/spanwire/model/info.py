"""What a client announces: connections, sessions, producers, consumers. Neutral twins of the OpenWire commands of these
names.

Each protocol fills them from its own frames; the broker knows no other form. All are frozen: a changed prefetch travels
as a call of its own.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from spanwire.model.destination import Destination
from spanwire.model.ids import ConsumerId, ProducerId
from spanwire.model.routing import NO_PATH, NetworkFilter

MAX_CONSUMERS_PER_CONNECTION: Final = 1_000  # unless the connector grants another number
MAX_PRODUCERS_PER_CONNECTION: Final = 1_000


@dataclass(frozen=True)
class ConnectionInfo:
    """A client's announcement of itself. The password is kept out of every repr.

    ``reconnected`` says that the client had a connection of this id before: it may send again, under the same ids, what
    was not answered there.

    Six of the last eight are the connector's word, not the client's: the distinguished name in its verified TLS
    certificate (as Java prints it: ``CN=orders, O=Example, C=DE``), how many consumers and producers it may have,
    whether the connection is inside TLS, whether what a bridge of another kind of broker repeats is known by its
    makers, and whether it takes its client id over from an older connection (``allowLinkStealing``). ``is_bridge`` says
    that the client calls itself another broker. ``unnamed_broker_id`` is the id of a broker with the default name, and
    is part of what tells its client id from others.
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


@dataclass(frozen=True)
class ProducerInfo:
    """A producer; ``destination`` None means that each message names its own. ``window_size`` in bytes, 0 for none."""

    producer_id: ProducerId
    destination: Destination | None = None
    window_size: int = 0


@dataclass(frozen=True)
class ConsumerInfo:
    """A consumer. ``prefetch_size`` 0 means that it pulls; a set ``subscription_name`` asks for a durable
    subscription.

    A ``network_subscription`` is a bridge's: it stands for consumers beyond the brokers of ``broker_path``, whose ids
    are in ``network_consumer_path``, and takes what its ``network_filter`` lets pass.
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
