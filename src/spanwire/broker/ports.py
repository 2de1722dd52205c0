"""Interfaces between the broker core and its environment, each a small `typing.Protocol`.

Compiled implementations name the port as an explicit base class, because a structural call costs many times as much.
Tests pass duck-typed fakes. The composition root (``service/service.py``) connects the real implementations.
"""

from __future__ import annotations

from typing import Final, Protocol

from spanwire.broker.metadata import MetadataRecord
from spanwire.broker.persistence.store_unit import StoreUnit, Transfer
from spanwire.broker.persistence.stored_sums import StoreLedger
from spanwire.model.destination import Destination
from spanwire.model.errors import JmsError, SpanwireError
from spanwire.model.info import ConnectionInfo
from spanwire.model.ledger import ACKNOWLEDGED
from spanwire.model.message import Message
from spanwire.model.message_view import MessageView, PropertyValue

READ: Final = "read"
WRITE: Final = "write"
ADMIN: Final = "admin"

NO_TOKEN: Final = -1  # the client wants no answer


class Principal:
    """The identity of a connection: a user name and the groups with access rights."""

    __slots__ = ("groups", "name")

    def __init__(self, name: str, groups: frozenset[str] = frozenset()) -> None:
        self.name: Final[str] = name
        self.groups: Final[frozenset[str]] = groups

    def __repr__(self) -> str:
        return f"Principal({self.name})"


class Authenticator(Protocol):
    """Determines the principal of a connection."""

    def authenticate(self, info: ConnectionInfo) -> Principal:
        """Return the principal of a new connection.

        Raises:
            AuthenticationError: the credentials are not valid.
        """
        ...


class DirectoryAsker(Protocol):
    """The login behind a question to a directory."""

    @property
    def is_dropped(self) -> bool:
        """True if no connection waits for the answer any more."""
        ...

    def on_answer(self, principal: Principal | None, is_available: bool) -> None:
        """Go on with the login; ``principal`` is None if the directory refuses the user or is not available."""
        ...


class Directory(Protocol):
    """Checks credentials outside of the process, such as an LDAP directory."""

    def ask(self, info: ConnectionInfo, asker: DirectoryAsker) -> None:
        """Ask about the user of ``info``, whose name and password are not empty, and return at once.

        `DirectoryAsker.on_answer` is called exactly once, in the broker's thread.
        """
        ...


class LoginObserver(Protocol):
    """Learns of the decision about a login after the wait for a directory."""

    def on_login_decided(self) -> None:
        """Fetch the outcome of the login soon."""
        ...


class Authorizer(Protocol):
    """Decides about the rights of a principal."""

    def check(self, principal: Principal, action: str, destination: Destination) -> None:
        """Check that ``principal`` may do ``action`` (`READ`, `WRITE`, `ADMIN`).

        Called at each place of effect with a physical destination (composites expanded, options removed), or with the
        wildcard pattern of a consumer.

        Raises:
            AuthorizationError: the right is missing.
        """
        ...

    def check_all(self, principal: Principal, action: str, destination: Destination) -> None:
        """Check that ``principal`` may do ``action`` to every destination under ``destination``.

        ``destination`` is a name or wildcard pattern.

        `check` accepts a pattern as soon as the right exists for a single match.

        Raises:
            AuthorizationError: the right is missing for a match.
        """
        ...


class ClientConnection(Protocol):
    """The protocol's side of one client connection. The broker calls these methods."""

    def on_completed(self, token: int, error: SpanwireError | None) -> None:
        """Finish the request with ``token``: stored and synced, or refused with ``error``.

        Called for requests whose call returned False ("later"). Also called with `NO_TOKEN` and an error for a blocked
        send without answer that is refused.
        """
        ...

    def close_with(self, error: SpanwireError) -> None:
        """Send ``error`` in the form of the protocol and close this connection."""
        ...


class MessageConsumer(Protocol):
    """The protocol's side of one consumer."""

    def dispatch(self, message: Message, sequence: int, redelivery_count: int) -> None:
        """Encode ``message`` into the connection's output buffer now.

        ``sequence`` is the broker's dispatch order. The number grows within every queue and stays the same in
        redeliveries.
        """
        ...

    def dispatch_end(self) -> None:
        """Report that no further message follows: the end of a browse, or a pull without result."""
        ...

    def close(self, reason: JmsError) -> None:
        """End the consumer for the broker's ``reason``."""
        ...

    def switch_to_pull(self) -> bool:
        """Ask the client to pull its messages one by one.

        Returns:
            False if the protocol has no such request.
        """
        ...


class MessageStore(Protocol):
    """Keeps persistent messages. Calls return at once; results of reads and sync progress follow later.

    Sequences are per destination, increase, and are never used twice, even after a crash. Positions are a single count
    over the whole store: after `Broker.stored` with a position, all calls up to the position survive a power failure.
    """

    def append(self, destination: Destination, message: Message) -> int:
        """Store ``message`` and return its sequence."""
        ...

    def remove(self, destination: Destination, sequence: int, way: int = ACKNOWLEDGED) -> None:
        """Remove one message, by a way out of the ledger.

        Of an unwritten message only both sequence numbers stay used.
        """
        ...

    def remove_all(self, destination: Destination, sequences: list[int], way: int = ACKNOWLEDGED) -> None:
        """Remove each message in this order. After a crash a leading part of the list may be removed."""
        ...

    def fetch(self, request: int, destination: Destination, sequences: list[int]) -> None:
        """Read messages.

        ``Broker.on_fetched(request, messages)`` delivers the result later, in the same order.

        The result has None in place of a removed message.
        """
        ...

    def note_redelivery(self, destination: Destination, sequence: int, redelivery_count: int) -> None:
        """Store the number of deliveries of a message without acknowledgement."""
        ...

    def add_destination(self, destination: Destination) -> None:
        """Record the existence of a queue."""
        ...

    def remove_destination(self, destination: Destination) -> None:
        """Remove a queue with all messages. The sequences stay used."""
        ...

    def position(self) -> int:
        """Return the position of all calls so far.

        The caller waits for the position, so the store must sync soon.

        The store reports the position by `Broker.stored` also if all calls so far are stored already.
        """
        ...


class UnitStore(Protocol):
    """Applies several changes of a `MessageStore` atomically, even across a crash."""

    def next_sequence(self, destination: Destination) -> int:
        """Return the sequence of the next stored message of ``destination``, for use in a record."""
        ...

    def append_shared(self, destinations: list[Destination], message: Message) -> list[int]:
        """Store ``message`` once for several destinations and return the sequence in each, in their order."""
        ...

    def append_unit(
        self,
        additions: list[tuple[Destination, Message]],
        removals: list[tuple[Destination, int]],
        metadata: list[MetadataRecord],
        way: int = ACKNOWLEDGED,
    ) -> list[int]:
        """Apply all changes atomically, even across a crash, and return the sequences of the additions."""
        ...

    def append_gathered(self, unit: StoreUnit, metadata: list[MetadataRecord]) -> None:
        """Apply a unit like `append_unit`, or `transfer_unit`.

        The time of the call does not depend on the number of messages.

        Afterwards the additions of ``unit`` have their sequences. Messages of its transfers exist, and nobody reads or
        changes them before the unit is stored.
        """
        ...

    def transfer_unit(
        self, transfers: list[Transfer], removals: list[tuple[Destination, int]], metadata: list[MetadataRecord]
    ) -> list[int]:
        """Apply a unit like `append_unit` whose additions are stored messages of other destinations.

        The messages are not written again. Their redelivery counts are lost.

        Returns:
            The first new sequence of each transfer. The sequences of a transfer are consecutive, with a gap for each
                missing message.
        """
        ...


class MetadataStore(Protocol):
    """Keeps values by key, in the tables of `spanwire.broker.metadata`."""

    def put_metadata(self, table: int, key: bytes, value: bytes) -> None:
        """Store ``value`` under ``key`` of a table in `spanwire.broker.metadata`, and replace an older value.

        Raises:
            ResourceAllocationError: longer than `MAX_KEY_BYTES` or `MAX_VALUE_BYTES`.
        """
        ...

    def discard_metadata(self, table: int, key: bytes) -> None:
        """Remove the value under ``key``, if any."""
        ...


class StoreUsage(Protocol):
    """Knows the disk space of a `MessageStore`. Reads no file."""

    def sizes(self, destination: Destination, sequences: list[int]) -> list[int]:
        """Return the approximate size of each message in bytes, 0 for a missing message. Reads no file."""
        ...

    def used_bytes(self) -> int:
        """Return the bytes of the store's files on the disk, limited by ``storeUsage``."""
        ...

    def has_room(self) -> bool:
        """Return False while the disk is full for new messages. Other changes are still accepted."""
        ...


class Store(MessageStore, UnitStore, MetadataStore, StoreUsage, StoreLedger, Protocol):
    """All ports of a store, for the assembly of the broker.

    Other code asks for single ports.
    """


class AuditSource(Protocol):
    """State that a store copies into its journal from time to time.

    So recovery need not read old files.
    """

    def audit_metadata(self) -> list[MetadataRecord]:
        """Return all metadata records of table PRODUCER_AUDIT as of all calls so far. No key is empty.

        The store discards all other keys of the table.
        """
        ...


class MessageFormat(Protocol):
    """A layout of messages in bytes. Instances are stateless apart from bounded caches."""

    def index(self, raw: bytes) -> Message:
        """Return the message with offsets and routing fields found in ``raw``.

        Raises:
            RemoteProtocolError: ``raw`` is no message of the format.
        """
        ...

    def properties(self, message: Message) -> dict[str, PropertyValue]:
        """Return all properties by name with their JMS types.

        Raises:
            MessageFormatError: the properties cannot be decoded.
        """
        ...

    def header(self, message: Message, name: str) -> object:
        """Return a JMS header without attribute in `Message`, or None if absent or unknown.

        Such headers are JMSCorrelationID, JMSReplyTo, JMSType, JMSXGroupSeq and JMSXUserID.
        """
        ...

    def view(self, message: Message) -> MessageView:
        """Return the whole message in neutral form.

        Raises:
            MessageFormatError: the message cannot be decoded.
        """
        ...

    def encode_from_view(self, view: MessageView) -> Message:
        """Return a new message of this format."""
        ...

    def readdressed(self, message: Message, destination: Destination, names_original: bool = True) -> Message:
        """Return a copy for another destination, with shared content and properties.

        The copy keeps the first original destination; without ``names_original`` only an original destination already
        set.
        """
        ...

    def first_for_consumer(self, message: Message) -> Message:
        """Return a copy marked as the first of its group for the consumer.

        If the format has no mark, the message itself is returned.
        """
        ...

    def restamped(
        self, message: Message, timestamp_ms: int, expiration_ms: int, persistent: bool, user_id: str | None = None
    ) -> Message:
        """Return a copy with another timestamp, expiration, delivery mode and JMSXUserID.

        Content and properties are shared.

        ``expiration_ms`` 0 means no expiration. ``user_id`` None keeps the user id, an empty text removes the user id.
        """
        ...


class AdvisoryFormat(Protocol):
    """Builds advisory messages. Only called if an advisory has listeners."""

    def advisory(
        self, destination: Destination, subject: object, properties: dict[str, object], number: int, wall_ms: int
    ) -> Message:
        """Return the advisory for ``destination`` (a topic ``ActiveMQ.Advisory.…``).

        ``subject`` is a `ConnectionInfo`, `ProducerInfo`, `ConsumerInfo`, `Destination`, `RoutedDestination`,
        `RemovedSubject`, `AdvisedMessage`, `LinkedBroker` or None. ``properties`` are string, bool, int and
        `LongNumber` properties. ``number`` makes the message id unique.
        """
        ...


class StatisticsFormat(Protocol):
    """Builds the replies of the statistics plugin."""

    def statistics(
        self,
        destination: Destination,
        entries: dict[str, PropertyValue],
        correlation_id: str | None,
        number: int,
        wall_ms: int,
    ) -> Message:
        """Return a map message with ``entries`` for ``destination``. ``number`` makes the message id unique."""
        ...


class AdvisedMessage:
    """Content of an advisory about a message. Only with ``whole`` the body is included."""

    __slots__ = ("message", "whole")

    def __init__(self, message: Message, whole: bool) -> None:
        self.message: Final[Message] = message
        self.whole: Final[bool] = whole


class LongNumber:
    """A number that an advisory always encodes as a long."""

    __slots__ = ("value",)

    def __init__(self, value: int) -> None:
        self.value: Final[int] = value

    def __repr__(self) -> str:
        return str(self.value)


class LinkedBroker:
    """Content of an advisory about a bridge.

    Parts are the remote broker, the direction of the link and the remote address.
    """

    __slots__ = ("broker_id", "by_duplex", "name", "remote_address", "url")

    def __init__(self, broker_id: str, name: str, url: str, by_duplex: bool, remote_address: str) -> None:
        self.broker_id: Final[str] = broker_id
        self.name: Final[str] = name
        self.url: Final[str] = url
        self.by_duplex: Final[bool] = by_duplex
        self.remote_address: Final[str] = remote_address

    def __repr__(self) -> str:
        return f"{self.name} ({self.broker_id})"


class RoutedDestination:
    """Content of an advisory about a temporary destination of another broker."""

    __slots__ = ("broker_path", "destination")

    def __init__(self, destination: Destination, broker_path: tuple[str, ...]) -> None:
        self.destination: Final[Destination] = destination
        self.broker_path: Final[tuple[str, ...]] = broker_path


class RemovedSubject:
    """Content of an advisory about a removal.

    Parts are the id of the connection, producer or consumer, or the destination.
    """

    __slots__ = ("connection_id", "subject")

    def __init__(self, connection_id: str, subject: object) -> None:
        self.connection_id: Final[str] = connection_id
        self.subject: Final[object] = subject
