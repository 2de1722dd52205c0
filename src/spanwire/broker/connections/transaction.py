"""Transactions: sends and acknowledgements that take effect together."""

from __future__ import annotations

from typing import Final, Protocol

from spanwire.broker.dispatch.memory_usage import MemoryUsage
from spanwire.broker.dispatch.message_reference import BrokerDestination, MessageReference
from spanwire.broker.dispatch.subscription import Subscription
from spanwire.broker.metadata import Fact
from spanwire.broker.ports import Principal
from spanwire.model.destination import Destination
from spanwire.model.errors import JmsError, ResourceAllocationError
from spanwire.model.ids import TransactionId
from spanwire.model.message import Message

MAX_UNCOMMITTED: Final = (
    100_000  # sends and acknowledged messages of all open transactions of one connection; maxUncommittedCount
)


class Uncommitted:
    """How many messages the open transactions of one connection hold, and how many they may."""

    __slots__ = ("count", "limit")

    def __init__(self, limit: int) -> None:
        self.limit: Final[int] = limit
        self.count = 0


class TransactedSend:
    """A message for a destination that was resolved and authorised when it was sent, and where it counts until the
    transaction ends.
    """

    __slots__ = ("home", "message", "usage")

    def __init__(self, home: BrokerDestination, message: Message, usage: MemoryUsage) -> None:
        self.home: Final[BrokerDestination] = home
        self.message: Final[Message] = message
        self.usage: Final[MemoryUsage] = usage


class TransactedAck:
    """References that a consumer acknowledged; still its own until the commit. They went out to it under numbers in a
    row from ``place`` on, or under those of ``apart``. ``cause`` is why it gave up on poisoned ones, ``kept`` those of
    them that become dead letters. ``subscription`` is None where the broker was started anew meanwhile.
    """

    __slots__ = ("ack_type", "apart", "cause", "kept", "place", "references", "subscription")

    def __init__(
        self,
        subscription: Subscription | None,
        references: list[MessageReference],
        ack_type: int,
        place: int,
        apart: list[int] | None,
        cause: str,
    ) -> None:
        self.subscription: Final[Subscription | None] = subscription
        self.place: Final[int] = place
        self.apart: Final[list[int] | None] = apart
        self.references: Final[list[MessageReference]] = references
        self.ack_type: Final[int] = ack_type
        self.cause: Final[str] = cause
        self.kept: Final[dict[MessageReference, None]] = {}

    def numbers(self) -> list[int]:
        """The number under which each reference went out to its consumer."""
        apart = self.apart
        return list(range(self.place, self.place + len(self.references))) if apart is None else apart


class Stager(Protocol):
    """Who keeps what a transaction sends instead of having it delivered."""

    def keep(self, transaction: Transaction, facts: list[Fact]) -> None:
        """Have the store take it, and ``facts``, in one unit. Raises `JmsError`: then nothing of it was done."""
        ...


class Transaction:
    """What one open transaction has gathered. Carrying it out is left to `Committing`.

    The messages it sends count in memory until it ends. One that ``is_repeated`` took effect before, on a connection
    of the client that broke before the answer came: it gathers nothing. ``messages`` counts each message that was sent
    in it once; ``sends`` has an entry for each copy. ``removals`` and ``facts`` are what the store must do beside, in
    the same unit; ``lettered`` is how many of ``acks`` have their dead letters among ``sends``; one that is
    ``prepared`` is never rolled back by the broker. With a ``stager`` its commit delivers nothing.
    """

    def __init__(self, name: str, uncommitted: Uncommitted, is_repeated: bool) -> None:
        self.name: Final[str] = name
        self.is_repeated: Final[bool] = is_repeated
        self._uncommitted = uncommitted
        self._counted = 0  # of its sends, from the first
        self.sends: Final[list[TransactedSend]] = []
        self.acks: Final[list[TransactedAck]] = []
        self.count = 0
        self.refusal: JmsError | None = None  # of a message or acknowledgement: it can only be rolled back then
        self._full: JmsError | None = None
        self.prepared = False
        self.messages = 0
        self.lettered = 0
        self.removals: list[tuple[Destination, int]] = []
        self.facts: list[Fact] = []
        self.sender: Principal | None = None  # whose rights its scheduled messages are delivered with
        self.stager: Stager | None = None

    def add_send(self, send: TransactedSend) -> None:
        """One more message; raises `ResourceAllocationError` over the limit."""
        self._grow(1)
        self.sends.append(send)
        send.usage.add(send.message.size)
        self._counted += 1

    def add_ack(self, ack: TransactedAck) -> None:
        """Some more acknowledged messages; raises `ResourceAllocationError` over the limit."""
        try:
            self._grow(len(ack.references))
        except ResourceAllocationError as error:
            self._full = error
            raise
        self.acks.append(ack)

    def check_full(self) -> None:
        """Raises `ResourceAllocationError` once an acknowledgement was over the limit: it takes no others then, each of
        which would have to be found and put back.
        """
        if self._full is not None:
            raise ResourceAllocationError(str(self._full))

    def spoil(self, error: JmsError) -> None:
        """Something of it was refused. Kept without its traceback, which would keep the message alive."""
        if self.refusal is None:
            self.refusal = type(error)(str(error))

    def count_with(self, uncommitted: Uncommitted) -> None:
        """Count among others from now on; raises `ResourceAllocationError` when they are too many."""
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
        """How many of the sends, from the first, count in memory."""
        return self._counted

    @property
    def size(self) -> int:
        """How much there is to carry out."""
        return self.count + len(self.removals)

    def forget(self, at_most: int) -> bool:
        """Forget so many sends, the last ones first, which count in memory no longer, and then as many
        acknowledgements; True while there are more.
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
        """It is committed or rolled back: the number of its messages counts no longer."""
        self._uncommitted.count -= self.count
        self._counted = 0
        self.count = 0

    def _grow(self, count: int) -> None:
        if self._uncommitted.count + count > self._uncommitted.limit:
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
