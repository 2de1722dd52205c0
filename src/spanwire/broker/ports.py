"""All that the broker core needs from outside, each a small `typing.Protocol`.

Compiled implementers name the port as an explicit base class (a structural call costs many times as much); tests pass
duck-typed fakes. The composition root (``service/service.py``) plugs the real ones in.
"""

from __future__ import annotations

from typing import Final, Protocol

from spanwire.broker.metadata import Fact
from spanwire.broker.persistence.store_unit import StoreUnit
from spanwire.model.destination import Destination
from spanwire.model.errors import JmsError, SpanwireError
from spanwire.model.info import ConnectionInfo
from spanwire.model.message import Message
from spanwire.model.message_view import MessageView, PropertyValue

READ: Final = "read"
WRITE: Final = "write"
ADMIN: Final = "admin"

NO_TOKEN: Final = -1  # the client asked for no answer


class Principal:
    """Who a connection acts for: a user name and the groups that rights are given to."""

    __slots__ = ("groups", "name")

    def __init__(self, name: str, groups: frozenset[str] = frozenset()) -> None:
        self.name: Final[str] = name
        self.groups: Final[frozenset[str]] = groups

    def __repr__(self) -> str:
        return f"Principal({self.name})"


class Authenticator(Protocol):
    """Decides who a connection acts for."""

    def authenticate(self, info: ConnectionInfo) -> Principal:
        """The principal of a new connection; raises `AuthenticationError` when the credentials do not hold."""
        ...


class Authorizer(Protocol):
    """Decides what a principal may do."""

    def check(self, principal: Principal, action: str, destination: Destination) -> None:
        """Raises `AuthorizationError` unless ``principal`` may do ``action`` (`READ`, `WRITE`, `ADMIN`).

        Called at each place of effect with a physical destination (composites are expanded, options cut off), or with
        the wildcard pattern a consumer asks for.
        """
        ...

    def check_all(self, principal: Principal, action: str, destination: Destination) -> None:
        """Raises `AuthorizationError` unless ``principal`` may do ``action`` to every destination that falls under
        ``destination``, a name or a wildcard pattern. `check` passes a pattern when it allows one of them.
        """
        ...


class ClientConnection(Protocol):
    """The protocol's side of one client connection, as the broker calls it back."""

    def completed(self, token: int, error: SpanwireError | None) -> None:
        """The request that carried ``token`` is done: stored and synced, or refused with ``error``.

        Called for requests whose call returned False ("later"), and with `NO_TOKEN` and an error for a send that wanted
        no answer, had to wait and is refused.
        """
        ...

    def close_with(self, error: SpanwireError) -> None:
        """Say ``error`` in the protocol's own words and close this connection."""
        ...


class MessageConsumer(Protocol):
    """The protocol's side of one consumer."""

    def dispatch(self, message: Message, sequence: int, redelivery_count: int) -> None:
        """Encode ``message`` into the connection's out-buffer now. ``sequence`` is the broker's number of this dispatch
        order; it grows in every queue and stays the same when the message is dispatched again.
        """
        ...

    def dispatch_end(self) -> None:
        """No (further) message: the end of a browse, or a pull that found nothing."""
        ...

    def close(self, reason: JmsError) -> None:
        """The broker ended this consumer."""
        ...

    def told_to_pull(self) -> bool:
        """Tell the client to pull its messages one by one; False when its protocol has no way to."""
        ...


class Transfer:
    """Messages with these ``sequences`` of ``source``, each once, become messages of ``target``, in this order."""

    __slots__ = ("sequences", "source", "target")

    def __init__(self, source: Destination, sequences: list[int], target: Destination) -> None:
        self.source: Final[Destination] = source
        self.sequences: Final[list[int]] = sequences
        self.target: Final[Destination] = target


class MessageStore(Protocol):
    """Keeps persistent messages. Calls return at once; reads and sync progress are answered later.

    Sequences are per destination, increase, and are never used twice, also after a crash. Positions are one count over
    the whole store: `Broker.stored` with a position says that all calls up to it survive a power cut.
    """

    def append(self, destination: Destination, message: Message) -> int:
        """Take ``message`` and give its sequence."""
        ...

    def remove(self, destination: Destination, sequence: int) -> None:
        """Forget one message. If it was not written yet, only the use of its sequence and producer sequence is."""
        ...

    def remove_all(self, destination: Destination, sequences: list[int]) -> None:
        """`remove` each of them, in this order: after a crash all up to some of them are forgotten."""
        ...

    def append_shared(self, destinations: list[Destination], message: Message) -> list[int]:
        """Take ``message`` once for several destinations and give its sequence in each, in their order."""
        ...

    def append_unit(
        self,
        additions: list[tuple[Destination, Message]],
        removals: list[tuple[Destination, int]],
        facts: list[Fact],
    ) -> list[int]:
        """Do all of it or, after a crash, nothing of it (a transaction's commit); gives the additions' sequences."""
        ...

    def append_gathered(self, unit: StoreUnit, facts: list[Fact]) -> None:
        """`append_unit` of a unit that may be large: the call takes the same time for many messages as for a few. The
        lines of ``unit`` know the sequences then.
        """
        ...

    def transfer_unit(
        self, transfers: list[Transfer], removals: list[tuple[Destination, int]], facts: list[Fact]
    ) -> list[int]:
        """The same with messages that the store has already, which are not written again; gives for each of
        ``transfers`` the first of its new sequences, that follow one another. What is not there leaves a gap. How often
        a message was delivered is forgotten.
        """
        ...

    def put_fact(self, table: int, key: bytes, value: bytes) -> None:
        """Keep ``value`` under ``key`` of one of the tables in `spanwire.broker.metadata`, instead of what was there.

        Raises `ResourceAllocationError` above `MAX_KEY_BYTES` or `MAX_VALUE_BYTES`.
        """
        ...

    def discard_fact(self, table: int, key: bytes) -> None:
        """Forget what is kept under ``key``, if anything."""
        ...

    def note_redelivery(self, destination: Destination, sequence: int, redelivery_count: int) -> None:
        """Remember how often a message was delivered without being acknowledged."""
        ...

    def fetch(self, request: int, destination: Destination, sequences: list[int]) -> None:
        """Read messages back; answered later by ``Broker.fetched(request, messages)`` in the same order.

        A sequence that no longer exists gives None in its place.
        """
        ...

    def sizes(self, destination: Destination, sequences: list[int]) -> list[int]:
        """About how many bytes each of these messages takes, 0 for one that does not exist. Reads nothing."""
        ...

    def add_destination(self, destination: Destination) -> None:
        """Remember that a queue exists."""
        ...

    def remove_destination(self, destination: Destination) -> None:
        """Forget a queue with all its messages; its sequences stay used."""
        ...

    def position(self) -> int:
        """The position that covers every call made so far. Asking for it means that somebody waits: sync soon."""
        ...

    def used_bytes(self) -> int:
        """Bytes of the store's files on the disk: what ``storeUsage`` limits."""
        ...

    def has_room(self) -> bool:
        """False while the disk has no room for new messages; removals, notes and facts are taken nevertheless."""
        ...


class AuditSource(Protocol):
    """What a store copies into its journal now and then, so that it need not look far back for it."""

    def audit_facts(self) -> list[Fact]:
        """All facts of table PRODUCER_AUDIT as they are after all calls so far; no key is empty. What is kept under
        other keys is discarded.
        """
        ...


class MessageFormat(Protocol):
    """One way to lay out a message in bytes. Instances are stateless but for bounded caches."""

    def index(self, raw: bytes) -> Message:
        """Find the cuts and routing fields of a stored message; raises `RemoteProtocolError` when ``raw`` is none."""
        ...

    def properties(self, message: Message) -> dict[str, PropertyValue]:
        """All properties by name with their JMS types; raises `MessageFormatError` when they cannot be decoded."""
        ...

    def header(self, message: Message, name: str) -> object:
        """A JMS header that `Message` has no attribute for: JMSCorrelationID, JMSReplyTo, JMSType, JMSXGroupSeq,
        JMSXUserID …; None when it is absent or unknown."""
        ...

    def view(self, message: Message) -> MessageView:
        """The whole message in neutral form; raises `MessageFormatError` when its inside cannot be decoded."""
        ...

    def encode_from_view(self, view: MessageView) -> Message:
        """A new message of this format."""
        ...

    def readdressed(self, message: Message, destination: Destination, names_original: bool = True) -> Message:
        """A copy for another destination that shares content and properties; remembers the first original
        destination, and without ``names_original`` only one that it has already.
        """
        ...

    def first_for_consumer(self, message: Message) -> Message:
        """A copy that says that it is the first of its message group for the consumer that gets it; the message itself
        where its format cannot.
        """
        ...

    def restamped(
        self, message: Message, timestamp_ms: int, expiration_ms: int, persistent: bool, user_id: str | None = None
    ) -> Message:
        """A copy with another time, end (0: none), delivery mode and JMSXUserID (None: as it is, empty: none) that
        shares content and properties.
        """
        ...


class AdvisoryFormat(Protocol):
    """Builds advisory messages; only called when somebody listens."""

    def advisory(
        self, destination: Destination, subject: object, properties: dict[str, object], number: int, wall_ms: int
    ) -> Message:
        """The advisory for ``destination`` (a topic ``ActiveMQ.Advisory.…``).

        ``subject`` is a `ConnectionInfo`, `ProducerInfo`, `ConsumerInfo`, `Destination`, `RoutedDestination`,
        `RemovedSubject`, `AdvisedMessage`, `LinkedBroker` or None; ``properties`` are the string, bool, int and
        `LongNumber` properties to set; ``number`` makes the message id unique.
        """
        ...


class StatisticsFormat(Protocol):
    """Builds the answers of the statistics plugin."""

    def statistics(
        self,
        destination: Destination,
        entries: dict[str, PropertyValue],
        correlation_id: str | None,
        number: int,
        wall_ms: int,
    ) -> Message:
        """A map message with ``entries`` for ``destination``; ``number`` makes its id unique."""
        ...


class AdvisedMessage:
    """What an advisory about a message carries: the message, without its body unless it is to be ``whole``."""

    __slots__ = ("message", "whole")

    def __init__(self, message: Message, whole: bool) -> None:
        self.message: Final[Message] = message
        self.whole: Final[bool] = whole


class LongNumber:
    """A number that an advisory tells as a long, however small it is."""

    __slots__ = ("value",)

    def __init__(self, value: int) -> None:
        self.value: Final[int] = value

    def __repr__(self) -> str:
        return str(self.value)


class LinkedBroker:
    """What an advisory about a bridge carries: the broker at its other end, and who opened the link from where."""

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
    """What an advisory about a temporary destination of another broker carries."""

    __slots__ = ("broker_path", "destination")

    def __init__(self, destination: Destination, broker_path: tuple[str, ...]) -> None:
        self.destination: Final[Destination] = destination
        self.broker_path: Final[tuple[str, ...]] = broker_path


class RemovedSubject:
    """What an advisory about a departure carries: the id of the connection, producer or consumer, or the
    destination.
    """

    __slots__ = ("connection_id", "subject")

    def __init__(self, connection_id: str, subject: object) -> None:
        self.connection_id: Final[str] = connection_id
        self.subject: Final[object] = subject
