"""What a bridge may have now and what later: alarms, delays and rates (``conditionalNetworkBridgeFilterFactory``)."""

from __future__ import annotations

from spanwire.broker.dispatch.broker_context import BrokerContext
from spanwire.broker.dispatch.connection_output import ConnectionOutput
from spanwire.broker.dispatch.destination import BrokerDestination
from spanwire.broker.dispatch.evaluation_context import MessageEvaluationContext
from spanwire.broker.dispatch.history.arrival_times import STEPS, Arrivals, arrivals_of
from spanwire.broker.dispatch.memory_usage import MemoryUsage
from spanwire.broker.dispatch.message_formats import MessageFormats
from spanwire.broker.dispatch.message_reference import MessageReference
from spanwire.broker.dispatch.subscription import Subscription
from spanwire.broker.policy.policy_entry import BridgePolicy, PolicyEntry, QueuePolicy
from spanwire.broker.ports import Principal
from spanwire.broker.queue.bridge_filter import BridgeCondition
from spanwire.broker.queue.queue import Queue
from spanwire.broker.queue.queue_consumers import QueueConsumers
from spanwire.model.destination import QUEUE, Destination
from spanwire.model.errors import JmsError, SpanwireError
from spanwire.model.ids import ConsumerId
from spanwire.model.info import ConsumerInfo
from spanwire.model.message import Message
from spanwire.model.routing import NetworkFilter
from tests.support.dialogue.text_format import text_message


class SilentConnection:
    def on_completed(self, token: int, error: SpanwireError | None) -> None: ...

    def close_with(self, error: SpanwireError) -> None: ...


class SilentConsumer:
    def dispatch(self, message: Message, sequence: int, redelivery_count: int) -> None: ...

    def switch_to_pull(self) -> bool:
        return False

    def dispatch_end(self) -> None: ...

    def close(self, reason: JmsError) -> None: ...


class Condition:
    """A bridge to broker B that consumes from queues under one policy; nobody else does."""

    def __init__(self, *names: str, policy: BridgePolicy) -> None:
        self.context = BrokerContext(None)
        self.woken = dict.fromkeys(names, 0)
        self.bridge_subscription = bridge_to_b()
        network_filter = self.bridge_subscription.network_filter
        assert network_filter is not None
        self.bridge = BridgeCondition(network_filter, self.context, self.bridge_subscription)
        self.bridge_subscription.started = True
        self._destinations: dict[str, Queue] = {}
        self._arrivals: dict[str, Arrivals] = {}
        for name in names:
            address = Destination(QUEUE, name)
            destination = Queue(address, PolicyEntry(address), MemoryUsage(0), self.context)
            arrivals = arrivals_of(PolicyEntry(address, queue=QueuePolicy(bridges=policy)), 0.0)
            self.bridge.add(destination, QueueConsumers(QueuePolicy(), []), policy, arrivals)
            self._destinations[name] = destination
            if arrivals is not None:
                self._arrivals[name] = arrivals

    def dispatch_released(self, name: str, number: int) -> MessageReference:
        """A message that has passed B comes to the queue ``name`` now."""
        message = text_message(Destination(QUEUE, name), number)
        message.broker_path = ("B",)
        if name in self._arrivals:
            self._arrivals[name].note_arrival(0, self.context.order + 1, self.context.monotonic)
        return MessageReference(self._destinations[name], message, 0, self.context.next_order(), 0)

    def destination(self, name: str) -> Queue:
        return self._destinations[name]

    def lets_through(self, *references: MessageReference) -> list[bool]:
        return [self.bridge.lets_through(reference) for reference in references]

    def waits(self, seconds: float) -> None:
        self.context.monotonic += seconds
        for due, _, destination in self.context._alarms:
            if due <= self.context.monotonic:
                assert isinstance(destination, Queue)
                self.woken[destination.name.name] += 1
                self.bridge.resume(destination)
        self.context.ring()


def bridge_to_b(pattern: str = ">") -> Subscription:
    info = ConsumerInfo(ConsumerId("ID:c", 1, 1), Destination(QUEUE, pattern), network_filter=NetworkFilter("B", 9))
    output = ConnectionOutput(SilentConnection(), [], MemoryUsage(0))
    values = MessageEvaluationContext(MessageFormats({}))
    return Subscription(info, SilentConsumer(), output, Principal("bridge"), None, values, False)


def test_each_queue_is_woken_when_its_own_message_may_go() -> None:
    condition = Condition("Q", "R", policy=BridgePolicy(replays=True, replay_delay_ms=500))
    condition.lets_through(condition.dispatch_released("Q", 1))
    condition.waits(0.2)
    condition.lets_through(condition.dispatch_released("R", 2))
    condition.waits(0.3)
    assert condition.woken == {"Q": 1, "R": 0}
    condition.waits(0.2)
    assert condition.woken == {"Q": 1, "R": 1}


def test_a_queue_has_one_alarm_however_many_messages_wait() -> None:
    condition = Condition("Q", policy=BridgePolicy(replays=True, replay_delay_ms=500))
    for number in range(10):
        condition.lets_through(condition.dispatch_released("Q", number))
    condition.waits(0.5)
    assert condition.woken == {"Q": 1}


def test_the_delay_counts_from_when_a_message_came_and_not_from_the_first_look() -> None:
    condition = Condition("Q", policy=BridgePolicy(replays=True, replay_delay_ms=500))
    early = condition.dispatch_released("Q", 1)
    condition.waits(0.3)
    late = condition.dispatch_released("Q", 2)
    condition.waits(0.1)
    assert condition.lets_through(early, late) == [False, False]
    condition.waits(0.1)
    assert condition.lets_through(early, late) == [True, False]
    condition.waits(0.3)
    assert condition.lets_through(late) == [True]


def test_what_was_there_before_its_queue_noted_anything_counts_as_come_with_the_queue() -> None:
    arrivals = Arrivals(5.0, 100.0)
    destination = BrokerDestination(Destination(QUEUE, "Q"), PolicyEntry(Destination(QUEUE, "Q")), MemoryUsage(0))
    recovered = MessageReference(destination, text_message(Destination(QUEUE, "Q"), 1), 7, 0, 0)
    arrivals.note_arrival(8, 1, 103.0)
    assert arrivals.due(recovered) == 105.0


def test_however_many_messages_come_a_queue_keeps_few_marks_and_none_goes_early_or_much_too_late() -> None:
    delay = 4.0
    arrivals = Arrivals(delay, 0.0)
    destination = BrokerDestination(Destination(QUEUE, "Q"), PolicyEntry(Destination(QUEUE, "Q")), MemoryUsage(0))
    came: list[tuple[float, MessageReference]] = []
    order = sequence = 0
    for tick in range(2_000):
        now = tick / 100
        stored = tick % 3 > 0
        sequence += stored
        order += 1
        arrivals.note_arrival(sequence if stored else 0, order, now)
        message = text_message(Destination(QUEUE, "Q"), tick)
        came.append((now, MessageReference(destination, message, sequence if stored else 0, order, 0)))
        for then, reference in came[-500::50]:
            late = arrivals.due(reference) - (then + delay)
            assert -1e-9 <= late <= delay / STEPS + 0.02 or arrivals.due(reference) <= now
    assert len(arrivals._marks) <= STEPS + 2


def test_a_bridge_that_had_its_share_keeps_its_place_and_takes_nothing_until_the_time_is_over() -> None:
    condition = Condition("Q", "R", policy=BridgePolicy(rate_limit=2, rate_duration_ms=1_000))
    references = [condition.dispatch_released("Q", number) for number in range(2)]
    for reference in references:
        reference.message.broker_path = ()
    assert condition.lets_through(*references) == [True, True]
    assert not condition.bridge_subscription.can_take()
    condition.waits(0.9)
    assert not condition.bridge_subscription.can_take()
    condition.waits(0.1)
    assert condition.bridge_subscription.can_take()
    assert condition.woken == {"Q": 1, "R": 1}


def test_a_bridge_that_is_gone_is_not_opened_again() -> None:
    condition = Condition("Q", policy=BridgePolicy(rate_limit=1, rate_duration_ms=1_000))
    reference = condition.dispatch_released("Q", 1)
    reference.message.broker_path = ()
    condition.lets_through(reference)
    condition.bridge_subscription.removed = True
    condition.waits(1.0)
    assert not condition.bridge_subscription.started


def test_a_bridge_that_leaves_a_queue_keeps_nothing_of_it() -> None:
    bridge = bridge_to_b()
    policy = PolicyEntry(Destination(QUEUE, ">"), queue=QueuePolicy(bridges=BridgePolicy(replays=True)))
    queues = [Queue(Destination(QUEUE, name), policy, MemoryUsage(0), BrokerContext(None)) for name in "QR"]
    for queue in queues:
        queue.attach(bridge)
    condition = bridge.bridge_condition
    assert isinstance(condition, BridgeCondition)
    assert condition.queues == ["queue://Q", "queue://R"]
    queues[0].detach(bridge)
    assert condition.queues == ["queue://R"]


def test_a_queue_that_is_woken_again_has_nothing_to_offer_that_it_has_not_offered() -> None:
    condition = Condition("Q", policy=BridgePolicy(replays=True, replay_delay_ms=500))
    condition.lets_through(condition.dispatch_released("Q", 1))
    condition.context.monotonic += 0.5
    assert [condition.bridge.resume(condition.destination("Q")) for _ in range(2)] == [True, False]
