"""A message in one holder: store sequence, dispatch order, redelivery count."""

from __future__ import annotations

from typing import Final, Protocol

from spanwire.broker.dispatch.memory_usage import MemoryUsage
from spanwire.broker.policy.policy_entry import PolicyEntry
from spanwire.model.destination import Destination
from spanwire.model.ledger import ACKNOWLEDGED
from spanwire.model.message import Message


class MessageHolder:
    """Holds messages for consumers: name, policy, memory usage, and the end of each delivery.

    Through this class, a message reference reaches the holder, and a subscription reaches all attached holders. The
    base class implements only the accounting.
    """

    def __init__(self, destination: Destination, policy: PolicyEntry, usage: MemoryUsage) -> None:
        self.name: Final[Destination] = destination
        self.policy: PolicyEntry = policy
        self.usage: Final[MemoryUsage] = MemoryUsage(policy.memory_limit_bytes, usage)
        self.dispatched = 0
        self.dequeued = 0
        self.expired = 0

    def hold(self, message: Message) -> None:
        """Count one more holder of ``message``."""
        if message.holders == 0:
            self.usage.add(message.size)
        message.holders += 1

    def release(self, message: Message) -> None:
        """Count one holder less of ``message``. The last holder releases the memory."""
        message.holders -= 1
        if message.holders == 0:
            self.usage.add(-message.size - message.forms_counted)
            message.forms_counted = 0

    def release_all(self, references: list[MessageReference]) -> None:
        """Release the messages of all ``references``, as `release` does."""
        size = 0
        for reference in references:
            message = reference.message
            message.holders -= 1
            if message.holders == 0:
                size += message.size + message.forms_counted
                message.forms_counted = 0
        self.usage.add(-size)

    def count_forms(self, message: Message) -> None:
        """Charge the memory of converted forms and decoded properties while ``message`` is held."""
        size = message.forms_size()
        if message.holders > 0 and size != message.forms_counted:
            self.usage.add(size - message.forms_counted)
            message.forms_counted = size

    def drop_expired(self, message: Message) -> None:
        """Count and release a message that expired before its consumer could take it."""
        self.expired += 1
        self.release(message)

    def settle(self, reference: MessageReference, way: int = ACKNOWLEDGED) -> None:
        """Remove ``reference`` after the end of its delivery, also from the store, by a way out of the ledger."""

    def settle_all(self, references: list[MessageReference], way: int = ACKNOWLEDGED) -> None:
        """Settle all ``references`` in order."""
        for reference in references:
            self.settle(reference, way)

    def forget(self, reference: MessageReference, way: int = ACKNOWLEDGED) -> None:
        """Remove ``reference`` from memory. The store already has the transaction that settled the message."""

    def take_back(self, references: list[MessageReference]) -> None:
        """Take back ``references``, unacknowledged by a former consumer."""

    def note_departure(self, reference: MessageReference) -> None:
        """Count a delivery to a former consumer, if the holder counts deliveries."""

    def note_reported(self, reference: MessageReference) -> None:
        """Count a reported redelivery inside the client, if the holder counts deliveries."""

    def note_redelivery(self, reference: MessageReference) -> None:
        """Count one more delivery without success, if the holder counts deliveries."""

    @property
    def leaves_dead_letters(self) -> bool:
        """True if a refused message becomes a dead letter."""
        return False

    def fill(self) -> None:
        """Dispatch pending messages after a consumer's window has reopened."""

    def confirms_idle(self) -> bool:
        """Return True if no message waits for a consumer that is attached to other destinations as well."""
        return True

    def is_searching(self) -> bool:
        """Return True if a message may be found without a new send.

        Either a page is being read, or the scan is unfinished.
        """
        return False


class MessageReference:
    """One message held by one destination or browser.

    Attributes:
        destination: the holder of the message.
        message: the message.
        sequence: the store's sequence, 0 for a message not stored.
        order: the broker's number for the dispatch order; clients see ``order`` as the broker sequence.
        redelivery_count: the number of earlier deliveries without success.
        is_reported: True if the consumer has reported a redelivery. ActiveMQ's newer clients report each, older ones
            all but the one after a first delivery.
        dispatched_at: the time of the last dispatch in monotonic seconds, 0 before the first one.
    """

    __slots__ = ("destination", "dispatched_at", "is_reported", "message", "order", "redelivery_count", "sequence")

    def __init__(
        self, destination: MessageHolder, message: Message, sequence: int, order: int, redelivery_count: int
    ) -> None:
        self.destination: Final[MessageHolder] = destination
        self.message: Final[Message] = message
        self.sequence: Final[int] = sequence
        self.order: Final[int] = order
        self.redelivery_count = redelivery_count
        self.is_reported = False
        self.dispatched_at = 0.0


def settle_all(references: list[MessageReference], way: int = ACKNOWLEDGED) -> None:
    """Settle ``references`` in order, together if all are of one destination, by a way out of the ledger."""
    first = references[0].destination if references else None
    for reference in references:
        if reference.destination is not first:
            first = None
            break
    if first is not None and len(references) > 1:
        first.settle_all(references, way)
        return
    for reference in references:
        reference.destination.settle(reference, way)


class MessageCondition(Protocol):
    """A condition of a subscription in addition to selector and filter.

    Examples are a bridge's condition (`spanwire.broker.queue.bridge_filter`) and the read rights of a user
    (`spanwire.broker.topic.durable_subscription`).
    """

    def lets_through(self, reference: MessageReference) -> bool:
        """Return True if the subscription may have the message now."""
        ...
