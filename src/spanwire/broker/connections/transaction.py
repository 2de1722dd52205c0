"""Transactions: sends and acknowledgements that take effect together."""

from __future__ import annotations

from typing import Final, Protocol

from spanwire.broker.dispatch.destination import BrokerDestination
from spanwire.broker.dispatch.memory_usage import MemoryUsage
from spanwire.broker.dispatch.message_reference import MessageReference
from spanwire.broker.dispatch.subscription import Subscription
from spanwire.broker.metadata import MetadataRecord
from spanwire.broker.persistence.duplicate_ids import SendIdentity
from spanwire.broker.policy.fan_out import STEPS_OF_REQUEST
from spanwire.broker.ports import Principal
from spanwire.model.destination import Destination
from spanwire.model.errors import JmsError, ResourceAllocationError, xa_error
from spanwire.model.ids import TransactionId
from spanwire.model.message import Message

MOVED_IN_STEP: Final = 10_000  # sends in the list; moving so many takes the time of one step
COPIED_AT_ONCE: Final = 100  # messages that get copies before the list is moved; steps, if they are more
MAX_UNCOMMITTED: Final = 100_000  # sends and acknowledged messages in open transactions of a connection
MAX_LATE_COPIES: Final = 1_000_000  # as many as ten full connections; half a kilobyte each, with shared bodies
XA_RETRY: Final = 4  # XAException's code: the branch stays prepared


class UncommittedLimit:
    """The limit of `Uncommitted`, for all connections of a broker; ``exceeded`` counts refusals."""

    __slots__ = ("exceeded", "messages")

    def __init__(self, messages: int = MAX_UNCOMMITTED) -> None:
        self.messages = messages
        self.exceeded = 0


class Uncommitted:
    """Number and limit of the messages in the open transactions of one connection."""

    __slots__ = ("_limit", "count")

    def __init__(self, limit: UncommittedLimit) -> None:
        self._limit: Final[UncommittedLimit] = limit
        self.count = 0

    @property
    def limit(self) -> int:
        """The greatest number."""
        return self._limit.messages

    def note_exceeded(self) -> None:
        """Count a refusal."""
        self._limit.exceeded += 1


class LateCopies:
    """Number and limit of the copies for durable subscriptions that were made after the sends.

    They count apart from `Uncommitted`: the sender can do nothing about the subscriptions of others.

    All copies of a message share its bytes. Each counts them in memory like other copies, but is never refused there.
    """

    __slots__ = ("count", "limit")

    def __init__(self) -> None:
        self.count = 0
        self.limit = MAX_LATE_COPIES


class TransactedSend:
    """A message for a resolved and authorised destination.

    ``usage`` counts the message until the transaction ends. ``identity`` is the duplicate id, if the message has one;
    all copies of one send share it. ``staged`` is the number of a prepared message in its `Staging`, 0 for none.
    ``served`` is the highest number of a durable subscription that the destination had had at the send: those made
    later get copies at the prepare and the commit.
    """

    __slots__ = ("destination", "identity", "message", "served", "staged", "usage")

    def __init__(self, destination: BrokerDestination, message: Message, usage: MemoryUsage) -> None:
        self.destination: Final[BrokerDestination] = destination
        self.message: Final[Message] = message
        self.usage: Final[MemoryUsage] = usage
        self.identity: SendIdentity | None = None
        self.staged = 0
        self.served = destination.served


class Staging:
    """The stored sends of a prepared branch, which its commit can move from ``destination`` to their destinations.

    The send with number ``n`` has the sequence ``before + n`` there. The commit removes ``removals`` instead.
    """

    __slots__ = ("before", "destination", "removals")

    def __init__(self, destination: Destination, before: int, removals: list[tuple[Destination, int]]) -> None:
        self.destination: Final[Destination] = destination
        self.before: Final[int] = before
        self.removals: Final[list[tuple[Destination, int]]] = removals


class TransactedAck:
    """References acknowledged in a transaction. Until the commit the references belong to the consumer.

    The dispatch numbers are consecutive from ``first`` on, or listed in ``apart``. ``cause`` is the reason of a poison
    acknowledgement; ``dead_lettered`` holds the references that become dead letters. ``subscription`` is None after a
    restart of the broker.
    """

    __slots__ = ("ack_type", "apart", "cause", "dead_lettered", "first", "references", "subscription")

    def __init__(
        self,
        subscription: Subscription | None,
        references: list[MessageReference],
        ack_type: int,
        first: int,
        apart: list[int] | None,
        cause: str,
    ) -> None:
        self.subscription: Final[Subscription | None] = subscription
        self.first: Final[int] = first
        self.apart: Final[list[int] | None] = apart
        self.references: Final[list[MessageReference]] = references
        self.ack_type: Final[int] = ack_type
        self.cause: Final[str] = cause
        self.dead_lettered: Final[dict[MessageReference, None]] = {}

    def numbers(self) -> list[int]:
        """Return the dispatch number of each reference."""
        apart = self.apart
        return list(range(self.first, self.first + len(self.references))) if apart is None else apart


class Stager(Protocol):
    """Stores the sends of a transaction instead of a delivery."""

    def gather(self, transaction: Transaction, at_most: int) -> int:
        """Check and gather up to ``at_most`` further messages, without any effect yet.

        Returns:
            The number of these messages, 0 if none is left.

        Raises:
            JmsError: a message is refused.
        """
        ...

    def keep(self, transaction: Transaction, metadata: list[MetadataRecord]) -> None:
        """Store the gathered messages and ``metadata`` in one unit.

        Raises:
            JmsError: no change was stored.
        """
        ...

    def drop(self) -> None:
        """Forget what was gathered, after a refusal."""
        ...


class Transaction:
    """Content of one open transaction. `LocalTransactions` carries out the transaction.

    The transaction's messages count in memory until its end. With ``is_repeated`` the transaction took effect earlier,
    on a connection that broke before the answer, and collects nothing. ``messages`` counts sent messages, ``sends`` has
    an entry per copy. ``late`` of the entries count in ``late_copies`` instead of ``count``. ``removals`` and
    ``metadata`` are further changes of the store in the same unit. With ``staging`` a commit moves the sends there, in
    place of ``removals``, unless the transaction has changed since. ``lettered`` is the number of ``acks`` whose dead
    letters are among ``sends``. The broker never rolls back a ``prepared`` transaction. With a ``stager`` the commit
    delivers no message.
    """

    def __init__(self, name: str, uncommitted: Uncommitted, is_repeated: bool) -> None:
        self.name: Final[str] = name
        self.began_ms = 0  # wall milliseconds; 0 for a branch of before the start of the broker
        self.is_repeated: Final[bool] = is_repeated
        self._uncommitted = uncommitted
        self._counted = 0  # sends that count in memory, from the first
        self.sends: Final[list[TransactedSend]] = []
        self.acks: Final[list[TransactedAck]] = []
        self.count = 0
        self.late = 0
        self.late_copies: LateCopies | None = None
        self.refusal: JmsError | None = None  # of a message or acknowledgement; allows only rollback
        self._full: JmsError | None = None
        self.prepared = False
        self.messages = 0
        self.has_identities = False  # one of the sends has a duplicate id
        self.lettered = 0
        self.removals: list[tuple[Destination, int]] = []
        self.staging: Staging | None = None
        self.metadata: list[MetadataRecord] = []
        self.sender: Principal | None = None  # scheduled messages are delivered with this user's rights
        self.stager: Stager | None = None
        self.identity: SendIdentity | None = None  # of the message that is being gathered
        self.began_at = 0.0  # monotonic seconds of the first message; 0 before it, and after a restart of the broker

    def note_begin(self, monotonic: float) -> None:
        """Note the time of the first message in monotonic seconds."""
        if self.began_at == 0.0:
            self.began_at = monotonic

    def add_send(self, send: TransactedSend) -> None:
        """Add a message.

        Raises:
            ResourceAllocationError: the limit is exceeded.
        """
        try:
            self._grow(1)
        except ResourceAllocationError:
            send.destination.refused_uncommitted += 1
            raise
        self.sends.append(send)
        self.has_identities = self.has_identities or send.identity is not None
        send.usage.add(send.message.size)
        self._counted += 1

    def add_late_copies(self, index: int, topic: BrokerDestination, until: int, room: LateCopies) -> int:
        """Add copies of messages, from this ``index`` on, for durable subscriptions that came after the send.

        Subscriptions with numbers above ``until`` get none. The copies of a message stand in front of it, in the order
        of the sends. ``topic`` is the destination of the messages, or its successor of the same name.

        Returns:
            The number of steps.

        Raises:
            ResourceAllocationError: the limit is exceeded.
            XaError: the same for a prepared branch, which stays prepared.
        """
        sends = self.sends
        destination = sends[index].destination
        end = self._counted if index < self._counted else len(sends)
        queues: list[list[BrokerDestination]] = []
        steps = 0
        for send in sends[index : min(end, index + COPIED_AT_ONCE)]:
            if send.destination is not destination or steps >= COPIED_AT_ONCE:
                break
            found = topic.durable_queues(send.message, send.served, until)
            queues.append(found)
            steps += 1 + len(found) + topic.load // STEPS_OF_REQUEST
        count = sum([len(found) for found in queues])
        self._grow_late(count, room)
        spliced: list[TransactedSend] = []
        for send, found in zip(sends[index : index + len(queues)], queues, strict=True):
            send.served = max(send.served, until)
            for queue in found:
                copy = TransactedSend(queue, send.message.twin(), send.usage)
                copy.identity = send.identity
                if index < self._counted:
                    copy.usage.add(copy.message.size)
                spliced.append(copy)
            spliced.append(send)
        sends[index : index + len(queues)] = spliced
        if index < self._counted:
            self._counted += count
        return steps + len(sends) // MOVED_IN_STEP

    def _grow_late(self, count: int, room: LateCopies) -> None:
        if room.count + count > room.limit:
            text = (
                f"commits and prepared transactions hold {room.count} copies for durable subscriptions that were made "
                f"after the sends; at most {room.limit} are allowed: end others before {self.name}, or remove "
                f"subscriptions"
            )
            raise xa_error(text, XA_RETRY) if self.prepared else ResourceAllocationError(text)
        room.count += count
        self.late += count
        self.late_copies = room

    def add_ack(self, ack: TransactedAck) -> None:
        """Add acknowledged messages.

        Raises:
            ResourceAllocationError: the limit is exceeded.
        """
        try:
            self._grow(len(ack.references))
        except ResourceAllocationError as error:
            self._full = error
            for holder in {reference.destination for reference in ack.references}:
                if isinstance(holder, BrokerDestination):
                    holder.refused_uncommitted += 1
            raise
        self.acks.append(ack)

    def check_full(self) -> None:
        """Check that no acknowledgement has exceeded the limit before.

        Without this check each further acknowledgement would search for its messages and put them back.

        Raises:
            ResourceAllocationError: an acknowledgement has exceeded the limit.
        """
        if self._full is not None:
            raise ResourceAllocationError(str(self._full))

    def spoil(self, error: JmsError) -> None:
        """Mark the transaction as rollback-only. A copy of ``error`` without traceback keeps no message alive."""
        if self.refusal is None:
            self.refusal = type(error)(str(error))

    def count_with(self, uncommitted: Uncommitted) -> None:
        """Count the messages in ``uncommitted`` from now on.

        Raises:
            ResourceAllocationError: the limit is exceeded.
        """
        if uncommitted.count + self.count > uncommitted.limit:
            raise ResourceAllocationError(
                f"prepared transactions hold {uncommitted.count} messages, at most {uncommitted.limit} are allowed: "
                f"transaction {self.name} is not prepared; commit or roll back those in doubt"
            )
        self._uncommitted.count -= self.count
        uncommitted.count += self.count
        self._uncommitted = uncommitted

    @property
    def counted(self) -> int:
        """The number of sends, from the first, that count in memory."""
        return self._counted

    @property
    def size(self) -> int:
        """The number of changes to carry out, unless a commit moves the sends."""
        return self.count + self.late + len(self.removals)

    def forget(self, at_most: int) -> bool:
        """Drop up to ``at_most`` sends from the end, or acknowledgements if no sends are left.

        Dropped sends no longer count in memory.

        Returns:
            True if sends or acknowledgements are left.
        """
        sends = self.sends
        if sends:
            for _ in range(min(at_most, len(sends))):
                send = sends.pop()
                if len(sends) < self._counted:
                    send.usage.add(-send.message.size)
        else:
            del self.acks[-at_most:]
        return len(sends) + len(self.acks) > 0

    def end_count(self) -> None:
        """Stop counting the transaction's messages after commit or rollback."""
        self._uncommitted.count -= self.count
        self._counted = 0
        self.count = 0
        if self.late_copies is not None:
            self.late_copies.count -= self.late
        self.late = 0

    def _grow(self, count: int) -> None:
        if self._uncommitted.count + count > self._uncommitted.limit:
            self._uncommitted.note_exceeded()
            raise ResourceAllocationError(
                f"the connection of transaction {self.name} holds {self._uncommitted.count} uncommitted "
                f"messages; at most {self._uncommitted.limit} are allowed: commit more often"
            )
        self._uncommitted.count += count
        self.count += count


class LocalTransaction(Transaction):
    """A transaction of one connection."""

    def __init__(self, transaction_id: TransactionId, uncommitted: Uncommitted, is_repeated: bool) -> None:
        super().__init__(str(transaction_id), uncommitted, is_repeated)
        self.transaction_id: Final[TransactionId] = transaction_id
