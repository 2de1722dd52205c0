"""Creates queues and topics with the observers and features of the policy entry.

The choice is made once, at the creation. Without such a setting in the policy entry, a queue has no observer and a
topic is a plain `Topic`.
"""

from __future__ import annotations

from spanwire.broker.advisories.message_advisories import QueueAdvisories, TopicAdvisories
from spanwire.broker.dispatch.broker_context import BrokerContext
from spanwire.broker.dispatch.destination_events import MessageAdvisories
from spanwire.broker.dispatch.history.arrival_times import ArrivalObserver
from spanwire.broker.dispatch.history.message_statistics import MessageStatistics
from spanwire.broker.dispatch.memory_usage import MemoryUsage
from spanwire.broker.dispatch.slow_consumer_strategy import SlowConsumerWatch
from spanwire.broker.policy.policy_entry import PolicyEntry
from spanwire.broker.queue.last_value_queue import LastValueQueue, key_property
from spanwire.broker.queue.queue import Queue
from spanwire.broker.queue.ring_queue import RingQueue
from spanwire.broker.topic.policy_topic import PolicyTopic
from spanwire.broker.topic.subscription_recovery import RecoveryMemory
from spanwire.broker.topic.topic import Topic
from spanwire.model.destination import Destination


def _advisories_for(policy: PolicyEntry, context: BrokerContext) -> MessageAdvisories | None:
    """Return the port for advisories of a destination, or None if the policy has no such advisories."""
    return context.advisories if policy.advisories.is_of_messages() else None


def new_queue(destination: Destination, policy: PolicyEntry, usage: MemoryUsage, context: BrokerContext) -> Queue:
    """Return a queue."""
    queue: Queue
    if key_property(policy.queue):
        queue = LastValueQueue(destination, policy, usage, context)
    elif policy.queue.ring_size > 0:
        queue = RingQueue(destination, policy, usage, context)
    else:
        queue = Queue(destination, policy, usage, context)
    advisories = _advisories_for(policy, context)
    if advisories is not None:
        queue.observer = QueueAdvisories(advisories, queue, destination, ArrivalObserver(queue.arrivals, context))
    elif policy.queue.bridges is not None and policy.queue.bridges.replay_delay_ms > 0:
        queue.observer = ArrivalObserver(queue.arrivals, context)
    if policy.measures_messages:
        queue.observer = MessageStatistics(queue.observer, context, False)
        context.measured[queue] = None
    return queue


def new_durable_queue(
    destination: Destination, policy: PolicyEntry, usage: MemoryUsage, context: BrokerContext, topic: Destination
) -> Queue:
    """Return the queue of a durable subscription to ``topic`` (the first, if there are several)."""
    queue = Queue(destination, policy, usage, context)
    advisories = _advisories_for(policy, context)
    if advisories is not None:
        queue.observer = QueueAdvisories(advisories, queue, topic, None)
    return queue


def new_topic(
    destination: Destination,
    policy: PolicyEntry,
    usage: MemoryUsage,
    context: BrokerContext,
    memory: RecoveryMemory,
    slow: SlowConsumerWatch | None,
) -> Topic:
    """Return a topic. Messages of advisory topics cause no advisories, and are not measured."""
    topic = _topic(destination, policy, usage, context, memory, slow)
    if policy.measures_messages and not destination.is_advisory:
        topic.observer = MessageStatistics(topic.observer, context, True)
        context.measured[topic] = None
    return topic


def _topic(
    destination: Destination,
    policy: PolicyEntry,
    usage: MemoryUsage,
    context: BrokerContext,
    memory: RecoveryMemory,
    slow: SlowConsumerWatch | None,
) -> Topic:
    advisories = None if destination.is_advisory else _advisories_for(policy, context)
    tuning = policy.topic
    is_plain = tuning.recovery is None and tuning.pending_limit is None and tuning.dispatch is None
    if advisories is None and slow is None and is_plain:
        return Topic(destination, policy, usage, context)
    topic = PolicyTopic(destination, policy, usage, context, memory, slow)
    if advisories is not None:
        topic.observer = TopicAdvisories(advisories, topic)
    return topic
