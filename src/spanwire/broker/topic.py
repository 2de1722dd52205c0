"""A topic: each message goes to every subscription that is there when it arrives.

To many subscriptions it goes in slices. Messages go one behind the other: each has reached all its subscriptions before
the next begins, so that every subscriber gets them in order. Who comes meanwhile gets what is sent from then on.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from spanwire.broker.context import BrokerContext
from spanwire.broker.durable_subscription import DurableSubscription
from spanwire.broker.policy import PolicyEntry
from spanwire.broker.reference import BrokerDestination, MessageReference
from spanwire.broker.subscription import Subscription
from spanwire.broker.usage import MemoryUsage
from spanwire.model.destination import Destination
from spanwire.model.message import Message

FAN_OUT_STEPS: Final = 500  # subscriptions that get a message in one slice
MAX_FAN_OUTS: Final = 16  # messages of one topic that wait for their slices; sends wait then, and take no more memory
PER_STEP: Final = 16  # subscriptions that get a message at once and count as one step of the request


class FanOut:
    """One message on its way to the subscriptions that its topic had when it came."""

    __slots__ = ("next", "recipients", "reference")

    def __init__(self, reference: MessageReference, recipients: list[Subscription]) -> None:
        self.reference: Final[MessageReference] = reference
        self.recipients: Final[list[Subscription]] = recipients
        self.next = 0  # of the recipients

    @property
    def is_over(self) -> bool:
        """Return True if all of them have it."""
        return self.next == len(self.recipients)


class Topic(BrokerDestination):
    """One topic and its subscriptions. What a subscriber cannot take yet waits in the subscription; what a durable one
    has not acknowledged is in its own line (`spanwire.broker.durable_subscription`), which `Sending` fills.
    """

    def __init__(
        self, destination: Destination, policy: PolicyEntry, usage: MemoryUsage, context: BrokerContext
    ) -> None:
        super().__init__(destination, policy, usage)
        self._context: Final[BrokerContext] = context
        self.subscriptions: Final[list[Subscription]] = []
        self.durables: Final[list[DurableSubscription]] = []
        self._fan_outs: Final[deque[FanOut]] = deque()
        self._is_handing_on = False  # there are some
        self._snapshot: list[Subscription] | None = None  # of ``subscriptions``, shared by messages under way

    @property
    def consumer_count(self) -> int:
        """How many consumers are attached, those of durable subscriptions among them."""
        count = len(self.subscriptions)
        for durable in self.durables:
            count += durable.line.consumer_count
        return count

    def serve(self, durable: DurableSubscription) -> None:
        """A durable subscription gets its messages from now on."""
        self.durables.append(durable)
        durable.topics[self] = None
        self.fans_out = True

    def serve_no_more(self, durable: DurableSubscription) -> None:
        """A durable subscription gets no further messages of it."""
        self.durables.remove(durable)
        del durable.topics[self]
        self.fans_out = self.route is not None or len(self.durables) > 0

    def accept(self, message: Message, sequence: int = 0) -> None:
        """Hand ``message`` to every subscription whose selector lets it through."""
        if self._context.joins:
            self._context.complete_joins(self)
        count = len(self.subscriptions)
        if count > PER_STEP or self._is_handing_on:
            if count > FAN_OUT_STEPS or self._is_handing_on:
                fan_out = self.begin(message)
                if fan_out is not None:
                    self._hand_on(fan_out)
                return
            self._context.steps += count // PER_STEP
        self.enqueued += 1
        if count == 0:
            return
        reference = MessageReference(self, message, 0, self._context.next_order(), 0)
        self.hold(message)
        for subscription in self.subscriptions:
            if not subscription.accepts(reference):
                continue
            message.holders += 1
            if subscription.can_take() and not subscription.pending:
                self.dispatched += 1
                subscription.dispatch(reference)
            elif subscription.discarding:
                self.release(message)
            else:
                subscription.pending.append(reference)
        self.release(message)

    def accept_for_bridges(self, message: Message) -> None:
        """Hand a copy of a message that was taken before to bridges alone."""
        bridges = [subscription for subscription in self.subscriptions if subscription.network_filter is not None]
        self._hand_on(self._begun(message, bridges))

    def begin(self, message: Message) -> FanOut | None:
        """Take ``message`` and give its way to the subscriptions, for who goes on with it in slices of his own; None
        when there are none.
        """
        self.enqueued += 1
        if self._context.joins:
            self._context.complete_joins(self)
        return self._begun(message, self._as_they_are(self.subscriptions)) if self.subscriptions else None

    def go_on(self, fan_out: FanOut, at_most: int) -> int:
        """Hand a message to ``at_most`` more subscriptions, those that are still here; how many steps it took."""
        recipients = fan_out.recipients
        begin = fan_out.next
        end = min(begin + at_most, len(recipients))
        for place in range(begin, end):
            fan_out.next = place + 1
            if self in recipients[place].homes:
                self._offer(recipients[place], fan_out.reference)
        if fan_out.is_over:
            self.release(fan_out.reference.message)
        return end - begin

    def work(self) -> bool:
        """Hand on what waits for its slices, one slice of it; True while there is more."""
        left = FAN_OUT_STEPS
        while self._fan_outs and left > 0:
            fan_out = self._fan_outs[0]
            left -= 1 + self.go_on(fan_out, left)
            if fan_out.is_over:
                self._fan_outs.popleft()
        self._is_handing_on = len(self._fan_outs) > 0
        self.is_behind = len(self._fan_outs) >= MAX_FAN_OUTS
        return self._is_handing_on

    def _begun(self, message: Message, recipients: list[Subscription]) -> FanOut:
        self.hold(message)
        return FanOut(MessageReference(self, message, 0, self._context.next_order(), 0), recipients)

    def _as_they_are(self, recipients: list[Subscription]) -> list[Subscription]:
        """``recipients``, or a copy where that is the list that changes as subscriptions come and go."""
        if recipients is not self.subscriptions:
            return recipients
        if self._snapshot is None:
            self._snapshot = recipients.copy()
        return self._snapshot

    def _hand_on(self, fan_out: FanOut) -> None:
        """Hand a message on now, as far as a slice goes and nothing is before it; the rest is for later turns."""
        self._context.steps += len(fan_out.recipients) // PER_STEP
        if not self._is_handing_on:
            self.go_on(fan_out, FAN_OUT_STEPS)
            if fan_out.is_over:
                return
        self._fan_outs.append(fan_out)
        self._is_handing_on = True
        self.is_behind = len(self._fan_outs) >= MAX_FAN_OUTS
        self._context.schedule(self)

    def _offer(self, subscription: Subscription, reference: MessageReference) -> None:
        """Dispatch a message to one subscription, if its selector lets it through, or let it wait there."""
        if not subscription.accepts(reference):
            return
        reference.message.holders += 1
        if subscription.can_take() and not subscription.pending:
            self.dispatched += 1
            subscription.dispatch(reference)
        else:
            self._let_wait(subscription, reference)

    def _let_wait(self, subscription: Subscription, reference: MessageReference) -> None:
        """Keep a message until ``subscription`` can take it."""
        if subscription.discarding:
            self.release(reference.message)
        else:
            subscription.pending.append(reference)

    def make_room(self, size: int) -> bool:
        """Whether something that waits could be given up, so that memory takes ``size`` bytes; here nothing can."""
        return False

    def kept_messages(self) -> list[Message]:
        """Copies of what is kept for consumers to come: here nothing."""
        return []

    def drop(self) -> None:
        """The topic is gone."""

    def attach(self, subscription: Subscription) -> None:
        """Add a subscription; it gets what is sent from now on."""
        self.visits += 1
        self._snapshot = None
        self.subscriptions.append(subscription)
        subscription.homes[self] = None

    def detach(self, subscription: Subscription) -> None:
        """Remove a subscription that leaves; what waits in it is released with it."""
        self._snapshot = None
        self.subscriptions.remove(subscription)

    def detach_left(self) -> list[Subscription]:
        """Remove the subscriptions that have left, and give them."""
        gone = [subscription for subscription in self.subscriptions if subscription.left]
        if gone:
            self._snapshot = None
            self.subscriptions[:] = [subscription for subscription in self.subscriptions if not subscription.left]
        return gone

    def detach_all(self) -> None:
        """Remove all subscriptions; they stay at their other destinations."""
        for subscription in self.subscriptions:
            del subscription.homes[self]
        self._snapshot = None
        self.subscriptions.clear()

    def settled(self, reference: MessageReference) -> None:
        """One subscriber is done with the message."""
        self.dequeued += 1
        self.release(reference.message)

    def forgotten(self, reference: MessageReference) -> None:
        """The same; the store has no part in what subscribers get that are not durable."""
        self.settled(reference)

    def given_back(self, references: list[MessageReference]) -> None:
        """A subscriber left: what it did not acknowledge is not kept for it."""
        for reference in references:
            self.release(reference.message)

    def waiting(self) -> int:
        """Messages that wait in slow subscriptions."""
        return sum(len(subscription.pending) for subscription in self.subscriptions)
