"""What a bridge may have now and what later: alarms, delays and rates (``conditionalNetworkBridgeFilterFactory``)."""

from __future__ import annotations

from spanwire.broker.bridge_condition import MAX_DELAYED, BridgeCondition
from spanwire.broker.bridge_policy import BridgePolicy
from spanwire.broker.context import BrokerContext
from spanwire.broker.formats import MessageFormats
from spanwire.broker.message_values import BoundMessageValues
from spanwire.broker.outlet import Outlet
from spanwire.broker.policy import PolicyEntry
from spanwire.broker.ports import Principal
from spanwire.broker.queue import Queue
from spanwire.broker.queue_consumers import QueueConsumers
from spanwire.broker.queue_policy import QueuePolicy
from spanwire.broker.reference import BrokerDestination
from spanwire.broker.subscription import Subscription
from spanwire.broker.usage import MemoryUsage
from spanwire.model.destination import QUEUE, Destination
from spanwire.model.errors import JmsError, SpanwireError
from spanwire.model.ids import ConsumerId
from spanwire.model.info import ConsumerInfo
from spanwire.model.message import Message
from spanwire.model.routing import NetworkFilter
from tests.support.dialogue.text_format import text_message


class SilentConnection:
    def completed(self, token: int, error: SpanwireError | None) -> None: ...

    def close_with(self, error: SpanwireError) -> None: ...


class SilentConsumer:
    def dispatch(self, message: Message, sequence: int, redelivery_count: int) -> None: ...

    def told_to_pull(self) -> bool:
        return False

    def dispatch_end(self) -> None: ...

    def close(self, reason: JmsError) -> None: ...


class Condition:
    """A bridge to broker B that consumes from queues under one policy; nobody else does."""

    def __init__(self, *names: str, policy: BridgePolicy) -> None:
        self.context = BrokerContext(None)
        self.woken = dict.fromkeys(names, 0)
        self.bridge = BridgeCondition(NetworkFilter("B", 9), self.context)
        for name in names:
            destination = Destination(QUEUE, name)
            home = BrokerDestination(destination, PolicyEntry(destination), MemoryUsage(0))
            self.bridge.add(home, QueueConsumers(QueuePolicy(), []), policy)

    def came_back(self, name: str, number: int) -> Message:
        """A message of ``name`` that has passed B."""
        message = text_message(Destination(QUEUE, name), number)
        message.broker_path = ("B",)
        return message

    def lets_through(self, *messages: Message) -> list[bool]:
        return [self.bridge.lets_through(message) for message in messages]

    def waits(self, seconds: float) -> None:
        self.context.monotonic += seconds
        for due, home in self.context._alarms:
            self.woken[home.destination.name] += due <= self.context.monotonic
        self.context.ring()


def test_each_queue_is_woken_when_its_own_message_may_go() -> None:
    condition = Condition("Q", "R", policy=BridgePolicy(replays=True, replay_delay_ms=500))
    condition.lets_through(condition.came_back("Q", 1))
    condition.waits(0.2)
    condition.lets_through(condition.came_back("R", 2))
    condition.waits(0.3)
    assert condition.woken == {"Q": 1, "R": 0}
    condition.waits(0.2)
    assert condition.woken == {"Q": 1, "R": 1}


def test_a_queue_has_one_alarm_however_many_messages_wait() -> None:
    condition = Condition("Q", policy=BridgePolicy(replays=True, replay_delay_ms=500))
    for number in range(10):
        condition.lets_through(condition.came_back("Q", number))
    condition.waits(0.5)
    assert condition.woken == {"Q": 1}


def test_messages_that_went_another_way_do_not_hold_up_those_to_come() -> None:
    condition = Condition("Q", policy=BridgePolicy(replays=True, replay_delay_ms=500))
    for number in range(MAX_DELAYED):
        condition.lets_through(condition.came_back("Q", number))
    condition.waits(0.5)
    late = condition.came_back("Q", MAX_DELAYED)
    assert condition.lets_through(late) == [False]
    condition.waits(0.5)
    assert condition.lets_through(late) == [True]


def test_beyond_the_limit_the_delay_begins_when_there_is_room() -> None:
    condition = Condition("Q", policy=BridgePolicy(replays=True, replay_delay_ms=500))
    for number in range(MAX_DELAYED):
        condition.lets_through(condition.came_back("Q", number))
    condition.waits(0.4)
    late = condition.came_back("Q", MAX_DELAYED)
    assert condition.lets_through(late) == [False]
    condition.waits(0.1)
    assert condition.lets_through(late, condition.came_back("Q", 1)) == [False, True]
    condition.waits(0.5)
    assert condition.lets_through(late) == [True]


def test_what_waits_for_the_rate_alone_does_not_wait_for_its_delay_once_more() -> None:
    policy = BridgePolicy(replays=True, replay_delay_ms=5_000, rate_limit=1, rate_duration_ms=1_000)
    condition = Condition("Q", policy=policy)
    messages = [condition.came_back("Q", number) for number in range(3)]
    assert condition.lets_through(*messages) == [False, False, False]
    condition.waits(5.0)
    assert condition.lets_through(*messages) == [True, False, False]
    condition.waits(1.0)
    assert condition.lets_through(*messages[1:]) == [True, False]
    condition.waits(1.0)
    assert condition.lets_through(*messages[2:]) == [True]


def test_a_bridge_that_leaves_a_queue_keeps_nothing_of_it() -> None:
    pattern = Destination(QUEUE, ">")
    info = ConsumerInfo(ConsumerId("ID:c", 1, 1), pattern, network_filter=NetworkFilter("B", 9))
    outlet = Outlet(SilentConnection(), [], MemoryUsage(0))
    values = BoundMessageValues(MessageFormats({}))
    bridge = Subscription(info, SilentConsumer(), outlet, Principal("bridge"), None, values, False)
    policy = PolicyEntry(pattern, queue=QueuePolicy(bridges=BridgePolicy(replays=True)))
    queues = [Queue(Destination(QUEUE, name), policy, MemoryUsage(0), BrokerContext(None)) for name in "QR"]
    for queue in queues:
        queue.attach(bridge)
    condition = bridge.bridge_condition
    assert isinstance(condition, BridgeCondition)
    assert condition.queues == ["queue://Q", "queue://R"]
    queues[0].detach(bridge)
    assert condition.queues == ["queue://R"]
