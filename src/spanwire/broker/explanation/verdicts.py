"""Verdicts on the consumers of a queue for one message.

A verdict counts, wakes and dispatches no message.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from spanwire.broker.dispatch.evaluation_context import MessageEvaluationContext
from spanwire.broker.dispatch.message_reference import MessageReference
from spanwire.broker.dispatch.subscription import Subscription
from spanwire.broker.explanation.explanation import (
    DISPATCHING,
    EXCLUSIVE,
    GROUP_OWNER,
    NO_LOCAL,
    NOT_PULLING,
    NOT_READABLE,
    NOT_READING,
    NOT_STARTED,
    PATH,
    REPLAY,
    SELECTOR,
    TTL,
    WINDOW_FULL,
    counted,
    since_text,
)
from spanwire.broker.explanation.nearness import nearness
from spanwire.broker.queue.inspection import QueueInspection
from spanwire.broker.queue.queue import Queue
from spanwire.model.destination import SUBSCRIPTION
from spanwire.model.environment import Time
from spanwire.model.routing import within

# A verdict of an earlier cause is nearer to the message: it may have it, but for this.
NEAREST_FIRST: Final = (
    DISPATCHING, WINDOW_FULL, NOT_READING, NOT_PULLING, NOT_STARTED, GROUP_OWNER, EXCLUSIVE, REPLAY, SELECTOR, NO_LOCAL,
    NOT_READABLE, TTL, PATH,
)  # fmt: skip


@dataclass(frozen=True)
class Verdict:
    """The cause, in words too, why ``subscription`` does not get a message."""

    subscription: Subscription
    cause: str
    text: str

    @property
    def rank(self) -> int:
        """The location of the cause in `NEAREST_FIRST`."""
        return NEAREST_FIRST.index(self.cause)


class Verdicts:
    """Judges the consumers of one queue for one message at one time."""

    def __init__(self, queue: Queue, values: MessageEvaluationContext, now: Time) -> None:
        self._queue: Final[Queue] = queue
        self._values: Final[MessageEvaluationContext] = values
        self._now: Final[Time] = now
        self._inspection: Final[QueueInspection] = queue.inspect()

    def of(self, subscription: Subscription, reference: MessageReference) -> Verdict:
        """Return why ``subscription`` does not get the message of ``reference``."""
        cause, text = self._rule(subscription, reference)
        if not cause:
            cause, text = self._room(subscription)
        return Verdict(subscription, cause, text)

    def room(self, subscription: Subscription) -> Verdict:
        """Return whether ``subscription`` has room for any message."""
        cause, text = self._room(subscription)
        return Verdict(subscription, cause, text)

    def _rule(self, subscription: Subscription, reference: MessageReference) -> tuple[str, str]:
        """Return the rule against the message at the consumer, regardless of room."""
        refused = self._network_rule(subscription, reference)
        if refused[0]:
            return refused
        message = reference.message
        selector = subscription.selector
        if selector is not None and not self._values.matches(selector, message, reference.redelivery_count):
            near = nearness(selector, message, reference.redelivery_count, self._values)
            return SELECTOR, f"its selector {selector.text} does not choose the message: {near}"
        exclusive = self._inspection.exclusive
        if exclusive is not None and exclusive is not subscription:
            return EXCLUSIVE, f"the exclusive consumer {exclusive.info.consumer_id} gets all messages"
        group = message.group_id
        if group is not None and self._queue.name.kind != SUBSCRIPTION:
            owner = self._inspection.group_owner(group)
            if owner is not None and owner is not subscription:
                return GROUP_OWNER, f"the message group {group[:60]} belongs to consumer {owner.info.consumer_id}"
        return "", ""

    def _network_rule(self, subscription: Subscription, reference: MessageReference) -> tuple[str, str]:
        message = reference.message
        if subscription.no_local_connection == message.producer_id.connection_id:
            return NO_LOCAL, "it wants no messages of its own connection (noLocal)"
        readable = subscription.readable
        if readable is not None and not readable.lets_through(reference):
            return (
                NOT_READABLE,
                f"its user {subscription.principal.name} may not read {message.destination.qualified_name}",
            )
        network = subscription.network_filter
        if network is None:
            return "", ""
        path = message.broker_path
        policy = self._queue.policy.queue.bridges
        if network.target_broker_id in path:
            if policy is not None and policy.replays:
                return REPLAY, (
                    "the message came from that broker; the policy lets it return when no consumer is left here, and "
                    f"after {policy.replay_delay_ms} ms"
                )
            return PATH, "the message has come through that broker, and does not return"
        if not within(len(path), network.message_ttl):
            return TTL, (
                f"the message has passed {counted(len(path), 'broker')}, and messageTTL of the link is "
                f"{network.message_ttl}"
            )
        return "", ""

    def _room(self, subscription: Subscription) -> tuple[str, str]:
        """Return why the consumer has no room, or `DISPATCHING` if there is room."""
        if not subscription.started:
            return NOT_STARTED, "it is not started: its client has not begun to receive"
        if not subscription.output.writable:
            unsent = subscription.output.unsent_bytes
            return NOT_READING, f"its client does not read: {unsent} bytes wait for it in the broker"
        if subscription.pulls:
            if subscription.pulled > 0:
                return DISPATCHING, "it waits for a message"
            if subscription.info.network_subscription:
                return NOT_PULLING, held_text(subscription)
            return NOT_PULLING, "its prefetch is 0, and it asks for no message now"
        if subscription.can_take():
            return DISPATCHING, "it has room"
        return WINDOW_FULL, window_text(subscription, self._now)


def window_text(subscription: Subscription, now: Time) -> str:
    """Return in words how full the window of a consumer is, and since when."""
    out = subscription.in_flight.all_out()
    oldest = out[0].dispatched_at if out else 0.0
    newest = out[-1].dispatched_at if out else 0.0
    window = subscription.prefetch_size + subscription.in_flight.extension
    text = f"its window is full{since_text(newest, now)}: {len(out)} of {window} messages are unacknowledged"
    return text + (f", the oldest{since_text(oldest, now)}" if oldest else "")


def held_text(subscription: Subscription) -> str:
    """Return in words why the consumer of a bridge takes nothing. Its window is closed while its link is drained."""
    if subscription.info.prefetch_size == 0:
        return "its prefetchSize is 0, and a bridge asks for no messages"
    return "its link takes no further messages: it is being drained, or the consumers beyond it have gone"


def consumer_text(subscription: Subscription) -> str:
    """Return the name of a consumer for people."""
    info = subscription.info
    client = f" of client {subscription.client_id}" if subscription.client_id else ""
    kind = "bridge" if info.network_subscription else "consumer"
    return f"{kind} {info.consumer_id}{client}"
