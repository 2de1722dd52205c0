"""Local transactions: sends and acknowledgements of one connection that take effect together."""

from __future__ import annotations

from typing import Final

from spanwire.broker.reference import BrokerDestination, MessageReference
from spanwire.broker.subscription import Subscription
from spanwire.model.errors import ResourceAllocationError
from spanwire.model.ids import TransactionId
from spanwire.model.message import Message

MAX_UNCOMMITTED: Final = 100_000  # sends and acknowledged messages of one transaction


class TransactedSend:
    """A message for a destination that was resolved and authorised when it was sent."""

    __slots__ = ("home", "message")

    def __init__(self, home: BrokerDestination, message: Message) -> None:
        self.home: Final[BrokerDestination] = home
        self.message: Final[Message] = message


class TransactedAck:
    """References that a consumer acknowledged; still its own until the commit."""

    __slots__ = ("ack_type", "references", "subscription")

    def __init__(self, subscription: Subscription, references: list[MessageReference], ack_type: int) -> None:
        self.subscription: Final[Subscription] = subscription
        self.references: Final[list[MessageReference]] = references
        self.ack_type: Final[int] = ack_type


class LocalTransaction:
    """What one open transaction has gathered. Carrying it out is the broker's."""

    __slots__ = ("acks", "count", "rollback_only", "sends", "transaction_id")

    def __init__(self, transaction_id: TransactionId) -> None:
        self.transaction_id: Final[TransactionId] = transaction_id
        self.sends: Final[list[TransactedSend]] = []
        self.acks: Final[list[TransactedAck]] = []
        self.count = 0
        self.rollback_only = False

    def add_send(self, send: TransactedSend) -> None:
        """One more message; raises `ResourceAllocationError` over `MAX_UNCOMMITTED`."""
        self._grow(1)
        self.sends.append(send)

    def add_ack(self, ack: TransactedAck) -> None:
        """Some more acknowledged messages; raises `ResourceAllocationError` over `MAX_UNCOMMITTED`."""
        self._grow(len(ack.references))
        self.acks.append(ack)

    def _grow(self, count: int) -> None:
        if self.count + count > MAX_UNCOMMITTED:
            raise ResourceAllocationError(
                f"transaction {self.transaction_id} holds {self.count} uncommitted messages; "
                f"at most {MAX_UNCOMMITTED} are allowed: commit more often"
            )
        self.count += count
