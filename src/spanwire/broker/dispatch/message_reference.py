"""A message in its place: which destination holds it, under which sequence, how often it was delivered."""

from __future__ import annotations

from typing import Final, Protocol

from spanwire.broker.dispatch.memory_usage import MemoryUsage
from spanwire.broker.dispatch.virtual_route import VirtualRoute
from spanwire.broker.policy.policy_entry import PolicyEntry
from spanwire.model.destination import Destination
from spanwire.model.message import Message

# what the consumer that has a message told of deliveries of its own
UNTOLD: Final = 0
TOLD_BUT_FIRST: Final = 1  # clients do not tell of the first rollback of a message that comes for the first time
TOLD: Final = 2

SETTLED_TOGETHER: Final = 8  # references from which on it pays to ask whether they have one home


class BrokerDestination:
    """What queues and topics have in common: a name, a policy, a share of memory and counters.

    Base of `Queue` and `Topic`, so that a reference can find its way home; holds no behaviour of its own but the
    accounting.
    """

    def __init__(self, destination: Destination, policy: PolicyEntry, usage: MemoryUsage) -> None:
        self.destination: Final[Destination] = destination
        self.policy: PolicyEntry = policy
        self.usage: Final[MemoryUsage] = MemoryUsage(policy.memory_limit_bytes, usage)
        self.enqueued = 0
        self.dispatched = 0
        self.dequeued = 0
        self.expired = 0
        self.producers = 0
        self.visits = 0  # how many consumers and producers have come
        self.visitors = 0  # browsers that are there
        self.withheld = 0  # messages that wait for the disk before they are dispatched: nothing may overtake them
        self.removed = False
        self.route: VirtualRoute | None = None  # its messages go on to other destinations
        self.fans_out = False  # they do, or they go to durable subscriptions as well
        self.load = 0  # steps that the consumers of a topic add to each message (`spanwire.broker.dispatch.fan_out`)

    @property
    def consumer_count(self) -> int:
        """How many consumers are attached."""
        return 0

    def hold(self, message: Message) -> None:
        """One more place keeps ``message`` in memory."""
        if message.holders == 0:
            self.usage.add(message.size)
        message.holders += 1

    def release(self, message: Message) -> None:
        """One place fewer keeps ``message`` in memory."""
        message.holders -= 1
        if message.holders == 0:
            self.usage.add(-message.size - message.forms_counted)
            message.forms_counted = 0

    def release_all(self, references: list[MessageReference]) -> None:
        """One place fewer keeps the message of each in memory."""
        size = 0
        for reference in references:
            message = reference.message
            message.holders -= 1
            if message.holders == 0:
                size += message.size + message.forms_counted
                message.forms_counted = 0
        self.usage.add(-size)

    def count_forms(self, message: Message) -> None:
        """``message`` may have been converted, or its properties decoded: that takes memory, too, while it is held."""
        size = message.forms_size()
        if message.holders > 0 and size != message.forms_counted:
            self.usage.add(size - message.forms_counted)
            message.forms_counted = size

    def accept(self, message: Message, sequence: int) -> None:
        """Take ``message``, which the store has under ``sequence`` (0: not at all), and dispatch it to who waits."""

    def settled(self, reference: MessageReference) -> None:
        """A consumer is done with ``reference``: forget it, in the store too."""

    def settled_all(self, references: list[MessageReference]) -> None:
        """A consumer is done with all these, in this order."""
        for reference in references:
            self.settled(reference)

    def forgotten(self, reference: MessageReference) -> None:
        """A transaction that settled ``reference`` is in the store already: forget it in memory."""

    def given_back(self, references: list[MessageReference]) -> None:
        """A consumer left without acknowledging ``references``."""

    def fill(self) -> None:
        """A consumer can take messages again: dispatch what waits."""

    def note_dispatched(self) -> None:
        """One more message is out."""

    def expire(self, reference: MessageReference) -> None:
        """A message that waited is over its time."""

    def discard(self, reference: MessageReference) -> None:
        """A message that waited is not wanted any more."""

    def fetched(self, request: int, messages: list[Message | None]) -> None:
        """The store answers a read."""

    def abandon(self) -> None:
        """The one consumer that this was made for is gone."""

    def wake(self) -> None:
        """A time that was asked for has come."""

    def work(self) -> bool:
        """One slice of a long job; True while there is more to do."""
        return False

    def waiting(self) -> int:
        """How many messages wait for a consumer."""
        return 0

    def confirms_idle(self) -> bool:
        """Whether nothing waits here for a consumer that has other homes besides."""
        return True

    def is_searching(self) -> bool:
        """Whether a message may turn up without anything being sent: a page is being read, or the line has not been
        looked through yet.
        """
        return False


class MessageReference:
    """One message held by one destination.

    ``sequence`` is the store's, 0 when the store does not have it; ``order`` is the broker's own number, by which a
    queue keeps its messages in line and which clients see as the broker sequence. ``told`` says whether its consumer
    counts the deliveries itself.
    """

    __slots__ = ("home", "message", "order", "redelivery_count", "sequence", "told")

    def __init__(
        self, home: BrokerDestination, message: Message, sequence: int, order: int, redelivery_count: int
    ) -> None:
        self.home: Final[BrokerDestination] = home
        self.message: Final[Message] = message
        self.sequence: Final[int] = sequence
        self.order: Final[int] = order
        self.redelivery_count = redelivery_count
        self.told = UNTOLD


def settle_all(references: list[MessageReference]) -> None:
    """A consumer is done with these, in this order; many of one destination are settled together."""
    if len(references) >= SETTLED_TOGETHER:
        home = references[0].home
        if all(reference.home is home for reference in references):
            home.settled_all(references)
            return
    for reference in references:
        reference.home.settled(reference)


class MessageCondition(Protocol):
    """A condition of a subscription besides its selector and filter: a bridge's
    (`spanwire.broker.queue.bridge_filter`), or what its user may read (`spanwire.broker.topic.durable_subscription`).
    """

    def lets_through(self, reference: MessageReference) -> bool:
        """Return True if the subscription may have this message now."""
        ...
