"""Details of one queue or topic: settings, message groups and message statistics, absent in lists."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import Final

from spanwire.broker.dispatch.broker_context import BrokerContext
from spanwire.broker.dispatch.destination import BrokerDestination, bridged
from spanwire.broker.dispatch.destination_events import DestinationObserver
from spanwire.broker.dispatch.history.message_statistics import MessageStatistics
from spanwire.broker.following.mark_observer import MarkObserver, behind_mark
from spanwire.broker.queue.queue import Queue
from spanwire.broker.topic.topic import Topic

MAX_GROUPS: Final = 1_000  # message groups with their consumers in the details of a queue; some 100 KB of JSON


@dataclass(frozen=True)
class DestinationDetails:
    """Details of one queue or topic.

    Figures of messages are None unless message statistics are on. ``groups`` maps at most `MAX_GROUPS` message groups
    to their consumers. ``dead_letter_destination`` takes the dead letters of the destination. ``from_brokers`` messages
    came over bridges, and bridges have acknowledged ``to_brokers``. ``refused_uncommitted`` messages were beyond the
    limit of open transactions. ``duplicates`` were dropped, because their duplicate id had been accepted before.
    Newer messages have pushed ``pushed_out`` messages out of a ring, and replaced ``replaced`` of a last-value queue.
    ``last_in`` and ``last_out`` are the last measured messages.
    """

    statistics_enabled: bool
    average_size_bytes: int | None
    least_size_bytes: int | None
    greatest_size_bytes: int | None
    average_held_ms: float | None
    least_held_ms: int | None
    greatest_held_ms: int | None
    producer_flow_control: bool
    prioritized_messages: bool
    always_retroactive: bool
    audits_copies: bool
    blocked_warning_ms: int
    expiry_period_ms: int
    cursor_full: bool
    groups: dict[str, str]
    group_map: str
    dead_letter_destination: str | None
    policy: str
    from_brokers: int
    to_brokers: int
    refused_uncommitted: int
    duplicates: int
    pushed_out: int
    replaced: int
    slow_consumer_strategy: str | None
    last_in_id: str | None
    last_in_sent_ms: int | None
    last_in_ms: int | None
    last_in_connection: str | None
    last_out_id: str | None
    last_out_sent_ms: int | None
    last_out_ms: int | None


def destination_details(destination: BrokerDestination) -> DestinationDetails:
    """Return the details of a queue or topic."""
    policy = destination.policy
    statistics = statistics_of(destination)
    sizes = None if statistics is None or statistics.sizes.count == 0 else statistics.sizes
    held = None if statistics is None or statistics.held_ms.count == 0 else statistics.held_ms
    letters = policy.dead_letter.target(destination.name)
    groups = destination.selective.groups if isinstance(destination, Queue) else None
    entered = None if statistics is None else statistics.entered
    left = None if statistics is None else statistics.left
    last_in = None if entered is None else entered.message_id
    last_out = None if left is None else left.message_id
    return DestinationDetails(
        statistics_enabled=statistics is not None,
        average_size_bytes=None if sizes is None else int(sizes.average()),
        least_size_bytes=None if sizes is None else sizes.least,
        greatest_size_bytes=None if sizes is None else sizes.greatest,
        average_held_ms=None if held is None else held.average(),
        least_held_ms=None if held is None else held.least,
        greatest_held_ms=None if held is None else held.greatest,
        producer_flow_control=policy.producer_flow_control,
        prioritized_messages=policy.queue.prioritized_messages,
        always_retroactive=policy.topic.always_retroactive,
        audits_copies=policy.topic.audits_copies,
        blocked_warning_ms=policy.blocked_producer_warning_interval_ms,
        expiry_period_ms=policy.expire_messages_period_ms,
        cursor_full=destination.pending.is_full() if isinstance(destination, Queue) else False,
        groups={} if groups is None else dict(islice(groups.owners().items(), MAX_GROUPS)),
        group_map=policy.queue.groups.kind,
        dead_letter_destination=None if letters is None else letters.qualified_name,
        policy=policy.destination.qualified_name,
        from_brokers=destination.from_brokers,
        to_brokers=to_brokers(destination),
        refused_uncommitted=destination.refused_uncommitted,
        duplicates=destination.duplicates,
        pushed_out=destination.pushed_out,
        replaced=destination.replaced,
        slow_consumer_strategy=None if policy.slow_consumers is None else policy.destination.qualified_name,
        last_in_id=None if last_in is None else str(last_in),
        last_in_sent_ms=None if entered is None or last_in is None else entered.timestamp_ms,
        last_in_ms=None if entered is None or last_in is None else entered.seen_ms,
        last_in_connection=None if last_in is None else last_in.producer_id.connection_id,
        last_out_id=None if last_out is None else str(last_out),
        last_out_sent_ms=None if left is None or last_out is None else left.timestamp_ms,
        last_out_ms=None if left is None or last_out is None else left.seen_ms,
    )


def to_brokers(destination: BrokerDestination) -> int:
    """Return the number of messages acknowledged by bridges.

    The number of a topic includes durable subscriptions.
    """
    holders = [destination]
    if isinstance(destination, Topic):
        holders += [durable.queue for durable in destination.durables if durable.terms.topic == destination.name]
    return max(0, sum(holder.to_brokers + sum(map(bridged, holder.attached())) for holder in holders))


def forget_bridged(destination: BrokerDestination) -> None:
    """Set the numbers of messages from and to other brokers to 0."""
    destination.from_brokers = 0
    destination.to_brokers -= to_brokers(destination)


def statistics_of(destination: BrokerDestination) -> MessageStatistics | None:
    """Return the message statistics of a queue or topic; None if switched off."""
    observer: DestinationObserver | None = None
    if isinstance(destination, Queue):
        observer = destination.observer
    elif isinstance(destination, Topic):
        observer = destination.observer
    observer = behind_mark(observer)
    return observer if isinstance(observer, MessageStatistics) else None


def switch_statistics(destination: BrokerDestination, enabled: bool, context: BrokerContext) -> None:
    """Switch the message statistics of a queue or topic on or off; new statistics begin empty."""
    statistics = statistics_of(destination)
    if enabled == (statistics is not None):
        return
    if enabled:
        context.measured[destination] = None
    else:
        context.measured.pop(destination, None)
    front: DestinationObserver | None = None
    if isinstance(destination, Queue):
        front = destination.observer
    elif isinstance(destination, Topic):
        front = destination.observer
    inner = (
        MessageStatistics(behind_mark(front), context, isinstance(destination, Topic))
        if statistics is None
        else statistics.inner
    )
    if isinstance(front, MarkObserver):
        front.inner = inner
    elif isinstance(destination, Queue):
        destination.observer = inner
    elif isinstance(destination, Topic):
        destination.observer = inner
