"""The limit of pending messages of a topic's slow consumers.

Each message costs a bounded number of looks.

The choice of a message to discard may look at a thousand pending messages, for each of thousands of slow consumers.
Work beyond the looks of one turn is done in later turns, as if the message had come to these consumers later.
"""

from __future__ import annotations

from collections import deque
from itertools import islice
from typing import Final, Protocol

from spanwire.broker.dispatch.broker_context import BrokerContext
from spanwire.broker.dispatch.destination import BrokerDestination
from spanwire.broker.dispatch.jobs import Alarm, Job
from spanwire.broker.dispatch.message_reference import MessageReference
from spanwire.broker.dispatch.subscription import Subscription
from spanwire.broker.policy.policy_entry import PolicyEntry
from spanwire.broker.policy.topic_policy import PendingLimit, TopicPolicy
from spanwire.broker.topic.message_eviction import MAX_CANDIDATES, Eviction

NO_LIMIT: Final = -1
MAX_LOOKS: Final = 20_000  # looks at pending messages for one request, and in one turn of later work: some 2 ms
DISCARD_LOOKS: Final = 10  # looks that one discarded message counts for
MADE_LOOKS: Final = 100  # looks that a dead letter or advisory about one counts for: some 10 µs
MESSAGES_PER_LOOK: Final = 64  # places in front of a pending message that one look passes over
MAX_OVERDUE: Final = 100  # messages over the limit at one consumer; beyond, sends wait or some are discarded at once
MAX_BACKLOG: Final = 500  # the same where the choice takes more looks than a request has for all its slow consumers
HASTY_CANDIDATES: Final = 10  # oldest messages to choose from beyond the backlog: as many looks as discarding one
LOOKS_PER_STEP: Final = 100  # looks that count as one step of a connection's requests
LEAST_SHARE: Final = 4  # part of the looks of a turn that each topic has for which sends wait
BEHIND_POLL_SECONDS: Final = 0.02  # seconds between two checks whether the disk has caught up with dead letters


class Discarding(Protocol):
    """Discards pending messages of slow consumers."""

    def give_up(self, subscription: Subscription, reference: MessageReference) -> None:
        """Discard a message that was pending for ``subscription``."""
        ...


class PendingEviction(Job, Alarm):
    """Discards pending messages over the limit of one topic. Postponed work goes on in later turns."""

    def __init__(
        self, topic: BrokerDestination, tuning: TopicPolicy, discarding: Discarding, context: BrokerContext
    ) -> None:
        self._topic: Final[BrokerDestination] = topic
        self._limit: Final[PendingLimit | None] = tuning.pending_limit
        self._eviction: Final[Eviction] = Eviction(tuning.eviction, context.formats)
        self._expired_mark: Final[int] = tuning.eviction.expired_mark
        self._discarding: Final[Discarding] = discarding
        self._context: Final[BrokerContext] = context
        self._overdue: Final[dict[Subscription, int]] = {}  # messages that came meanwhile, at least one
        self._lagging: Final[dict[Subscription, None]] = {}  # overdue with more messages than may come meanwhile
        self._policy: PolicyEntry | None = None  # of the topic, when it was last asked for dead letters
        self._has_dead_letters = False
        self._looks = 0
        self._waits = False  # for the disk
        self.perishable = False  # True after a message with an expiration

    def take_looks(self) -> int:
        """Return the looks since the last call."""
        looks = self._looks
        self._looks = 0
        return looks

    def _count(self, looks: int) -> None:
        self._looks += looks
        self._context.looks += looks

    def most(self, subscription: Subscription) -> int:
        """Return the limit of pending messages for one consumer, `NO_LIMIT` without a limit."""
        limit = self._limit
        return NO_LIMIT if limit is None else limit_of(limit, subscription)

    def drops(self, subscription: Subscription, most: int) -> bool:
        """Return True if there is no room for the dead letter of another slow consumer's message.

        Else each slow consumer of everything would lose a message for the loss of each other one, deeper and deeper.
        """
        return self._context.losses > 0 and len(subscription.pending) - _prefetched(subscription) >= most

    def arrived(self, subscription: Subscription, reference: MessageReference, most: int) -> None:
        """Discard pending messages over the limit ``most``, now or in a later turn.

        ``reference`` was appended.
        """
        if not self._eviction.takes_oldest:
            self._eviction.read(reference)
        if self._overdue:
            count = self._overdue.get(subscription)
            if count is not None:
                self._overdue[subscription] = count + 1
                self._keep_up(subscription, most)
                return
        if self._context.looks >= MAX_LOOKS:
            self._postpone(subscription, 1)
        else:
            self._cut_pending(subscription, most, 1)

    def _keep_up(self, subscription: Subscription, most: int) -> None:
        """Discard messages at once if producers are so fast that later turns never catch up with them.

        With dead letters that takes too long for one turn: further sends wait for later turns.
        """
        out = _prefetched(subscription)
        over = self._too_many(subscription, out, most)
        if over <= MAX_OVERDUE:
            return
        has_looks = self._context.looks < MAX_LOOKS
        if not has_looks and not self._eviction.takes_oldest and over <= MAX_BACKLOG:
            return
        if not has_looks and self._leaves_dead_letters():
            self._lagging[subscription] = None
            self._topic.lags = True
        elif self._eviction.takes_oldest:
            self._give_up(subscription, _take(subscription.pending, out), out)
        elif has_looks:
            self._discard_some(subscription, out, over, MAX_CANDIDATES)
        else:
            self._discard_some(subscription, out, 1, HASTY_CANDIDATES)

    def _too_many(self, subscription: Subscription, out: int, most: int) -> int:
        """Return the number of messages over the limit, with the next one if that can wait."""
        return len(subscription.pending) - out - most + self._leaves_dead_letters()

    def _leaves_dead_letters(self) -> bool:
        policy = self._topic.policy
        if policy is not self._policy:
            self._policy = policy
            name = self._topic.name
            self._has_dead_letters = not name.is_advisory and policy.dead_letter.target(name) is not None
        return self._has_dead_letters

    def _postpone(self, subscription: Subscription, count: int) -> None:
        self._overdue[subscription] = count
        if not self._waits and not self._context.is_scheduled(self):
            self._context.schedule(self)

    def wake(self) -> None:
        """End a wait for the disk."""
        self._waits = False
        if self._overdue and not self._context.is_scheduled(self):
            self._context.schedule(self)

    def work(self) -> bool:
        """Do one slice of the postponed work and return True while more can be done now.

        The work waits while the disk must catch up with dead letters.
        """
        if self._context.is_behind() and self._leaves_dead_letters():
            self._waits = True
            self._context.wake_at(self, self._context.monotonic + BEHIND_POLL_SECONDS)
            return False
        if self._lagging:
            self._shorten()
        else:
            self._catch_up()
        self._context.steps += self.take_looks() // LOOKS_PER_STEP
        return len(self._overdue) > 0

    def _shorten(self) -> None:
        """Discard messages of the consumers that sends wait for, until no more messages wait there than may.

        The same work of another topic, done before in this turn, leaves a share of the looks.
        """
        end = max(MAX_LOOKS, self._context.looks + MAX_LOOKS // LEAST_SHARE)
        takes_oldest = self._eviction.takes_oldest
        allowed = MAX_OVERDUE if takes_oldest else MAX_BACKLOG
        for subscription in list(islice(self._lagging, MAX_LOOKS // DISCARD_LOOKS)):
            out = _prefetched(subscription)
            while self._concerns(subscription):
                if self._too_many(subscription, out, self.most(subscription)) <= allowed:
                    break
                if self._context.looks >= end:
                    return
                if takes_oldest:
                    self._give_up(subscription, _take(subscription.pending, out), out)
                else:
                    self._discard_some(subscription, out, 1, HASTY_CANDIDATES)
            self._count(1)
            del self._lagging[subscription]
        self._topic.lags = len(self._lagging) > 0

    def _concerns(self, subscription: Subscription) -> bool:
        """Return True if the consumer is there and listens to the topic."""
        return not subscription.leaving and not subscription.removed and self._topic in subscription.destinations

    def _catch_up(self) -> None:
        for index, subscription in enumerate(list(islice(self._overdue, MAX_LOOKS))):
            if index > 0 and self._context.looks >= MAX_LOOKS:  # other work of this turn may have used all looks
                break
            self._count(1)
            count = self._overdue.pop(subscription, 0)
            if self._concerns(subscription):
                self._cut_pending(subscription, self.most(subscription), count)

    def _cut_pending(self, subscription: Subscription, most: int, count: int) -> None:
        if self.cut(subscription, most, _prefetched(subscription), count) > 0:
            self._postpone(subscription, 1)

    def cut(self, subscription: Subscription, most: int, out: int, count: int) -> int:
        """Discard pending messages over the limit ``most`` after ``count`` messages.

        The first ``out`` messages are the prefetch of a consumer not yet started.

        Returns:
            The number of messages that are still over the limit, because the looks of this turn are used up.
        """
        pending = subscription.pending
        if self.perishable and len(pending) - out > min(most, self._expired_mark):
            self._give_up_expired(subscription, out, count)
        over = len(pending) - out - most
        while over > 0:
            if out == 0 and self._eviction.takes_oldest:
                self._give_up(subscription, pending.popleft(), 0)
            else:
                self._discard_some(subscription, out, over, MAX_CANDIDATES)
            over = len(pending) - out - most
            if self._context.looks >= MAX_LOOKS:
                break
        return over

    def _discard_some(self, subscription: Subscription, out: int, over: int, most_candidates: int) -> None:
        """Discard one of the oldest messages.

        ``over`` messages are discarded if all are looked at or one by one takes too long.
        """
        pending = subscription.pending
        candidates = list(islice(pending, out, out + most_candidates))
        self._count(self._eviction.looks * len(candidates) + out // MESSAGES_PER_LOOK)
        sees_all = len(pending) == out + len(candidates)  # else a further message changes the candidates
        at_most = over if sees_all or over > MAX_OVERDUE else 1
        victims = [_take(pending, out + index) for index in reversed(self._eviction.victims(candidates, at_most))]
        for reference in reversed(victims):
            self._give_up(subscription, reference, out + len(candidates))

    def _give_up(self, subscription: Subscription, reference: MessageReference, index: int) -> None:
        made = self._context.made
        self._discarding.give_up(subscription, reference)
        self._count(DISCARD_LOOKS + index // MESSAGES_PER_LOOK + MADE_LOOKS * (self._context.made - made))

    def _give_up_expired(self, subscription: Subscription, start: int, at_most: int) -> None:
        """Discard the oldest expired messages before unexpired ones, at most one for each message that came."""
        wall_ms = self._context.wall_ms
        expired_indexes: list[int] = []
        looks = 0
        for reference in islice(subscription.pending, start, start + MAX_CANDIDATES):
            if reference.message.is_expired(wall_ms):
                expired_indexes.append(start + looks)
                if len(expired_indexes) == at_most:
                    break
            looks += 1
        self._count(looks + start // MESSAGES_PER_LOOK)
        expired = [_take(subscription.pending, index) for index in reversed(expired_indexes)]
        for reference in reversed(expired):
            made = self._context.made
            reference.destination.expired += 1
            lose(reference, "expired", self._context)
            self._count(DISCARD_LOOKS + MADE_LOOKS * (self._context.made - made))


def lose(reference: MessageReference, cause: str, context: BrokerContext) -> None:
    """Turn a pending message of a slow consumer into a dead letter.

    No other consumer loses a message for the dead letter.
    """
    context.losses += 1
    try:
        context.dead_letter(reference, cause)
    finally:
        context.losses -= 1


def limit_of(limit: PendingLimit, subscription: Subscription) -> int:
    """Return the limit of pending messages for one consumer, -1 for no limit.

    The policy's limit applies, or a lower limit that the consumer asked for.
    """
    most = limit.messages
    multiplier = limit.multiplier
    if multiplier is not None:
        most = int(subscription.prefetch_size * multiplier)
    own = subscription.info.maximum_pending_messages
    return own if own > 0 and (most < 0 or own < most) else most


def _prefetched(subscription: Subscription) -> int:
    """Return the number of pending messages that are the prefetch of a consumer not yet started."""
    return 0 if subscription.started or subscription.pulls else subscription.prefetch_size


def _take(pending: deque[MessageReference], index: int) -> MessageReference:
    """Remove and return the pending reference at ``index``."""
    if index == 0:
        return pending.popleft()
    reference = pending[index]
    del pending[index]
    return reference
