"""What `MemoryUsage` says is what is held: megabytes go through queues, slow subscribers, transactions and conversions,
and the count is compared with what the interpreter has allocated for them.
"""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable

import pytest

from spanwire.broker.assembly import BrokerSettings
from spanwire.broker.broker import Broker
from spanwire.broker.dispatch.memory_usage import UsageLimits
from spanwire.broker.policy.policy_entry import PolicyEntry
from spanwire.broker.policy.policy_map import PolicyMap
from spanwire.model.acks import STANDARD_ACK, MessageAck
from spanwire.model.destination import QUEUE, TOPIC, Destination
from spanwire.model.environment import Time
from spanwire.model.errors import JmsError, SpanwireError
from spanwire.model.ids import ConsumerId, SessionId
from spanwire.model.info import ConnectionInfo, ConsumerInfo
from spanwire.model.message import FORMAT_OPENWIRE_10, Message
from spanwire.protocols.base import ConnectionSettings
from spanwire.protocols.stomp.broker_connection import StompBrokerConnection
from spanwire.service.message_formats import message_formats
from tests.support.stomp_dialogue import DialogueEnvironment

MIB = 1024 * 1024
LIMIT = 64 * MIB
PROPERTIES = "".join(f"property{number}:the value of number {number}\n" for number in range(5))


class Converter:
    """A client that takes messages in OpenWire and acknowledges nothing before it is asked to."""

    def __init__(self, broker: Broker, name: str, now: Time) -> None:
        self.broker = broker
        self.name = name
        self.now = now
        self.state = broker.add_connection(self, ConnectionInfo(name, name), now)
        broker.add_session(self.state, SessionId(name, 1))
        self.taken: list[Message] = []
        self.converts = True

    def consumes(self, destination: Destination, prefetch: int, selector: str | None = None) -> None:
        info = ConsumerInfo(ConsumerId(self.name, 1, 1), destination, prefetch, selector)
        self.subscription = self.broker.add_consumer(self.state, info, self, self.now)
        self.broker.start_consumer(self.subscription, self.now)

    def acknowledges_all(self) -> None:
        while self.taken:
            last = self.taken[-1].message_id
            self.taken = []
            ack = MessageAck(STANDARD_ACK, None, last, 0)
            self.broker.acknowledge(self.state, self.subscription, ack, None, -1, self.now)
            self.broker.output_progress(self.state, 0, self.now)

    # The broker's side of both ports

    def dispatch(self, message: Message, sequence: int, redelivery_count: int) -> None:
        if self.converts:
            self.broker.formats.converted(message, FORMAT_OPENWIRE_10)
        self.taken.append(message)
        self.broker.output_progress(self.state, 0, self.now)

    def switch_to_pull(self) -> bool:
        return False

    def dispatch_end(self) -> None: ...

    def close(self, reason: JmsError) -> None: ...

    def on_completed(self, token: int, error: SpanwireError | None) -> None: ...

    def close_with(self, error: SpanwireError) -> None: ...


class Scene:
    """A broker without a store, a STOMP producer and whoever consumes."""

    def __init__(self, limit: int = LIMIT) -> None:
        self.environment = DialogueEnvironment()
        self.now = self.environment.now()
        policies = PolicyMap([PolicyEntry(Destination(QUEUE, "small"), memory_limit_bytes=4 * MIB)])
        self.broker = Broker(
            "b",
            "ID:b",
            self.environment,
            None,
            message_formats(),
            BrokerSettings(
                policies=policies,
                limits=UsageLimits(memory_bytes=limit),
            ),
        )
        self.producer = StompBrokerConnection(self.broker, ConnectionSettings("tcp://1.2.3.4:5", "tcp://b:1"), self.now)
        self.feed("CONNECT\naccept-version:1.2\nhost:b\n\n\0")

    def feed(self, frame: str) -> None:
        self.producer.receive_data(frame.encode(), self.now)
        self.producer.data_to_send()

    def sends(self, target: str, count: int, size: int, headers: str = "") -> None:
        for number in range(count):
            body = f"{number:08}".ljust(size, "x")
            self.feed(f"SEND\ndestination:{target}\n{headers}{PROPERTIES}content-length:{size}\n\n{body}\0")

    def used(self) -> int:
        return self.broker.statistics().memory_bytes


def in_queues(scene: Scene) -> None:
    for number in range(4):
        scene.sends(f"/queue/Q{number}", 1_500, 1_000)
    scene.sends("/queue/LARGE", 100, 50_000)


def in_slow_subscribers(scene: Scene) -> None:
    for number in range(5):
        Converter(scene.broker, f"ID:slow-{number}", scene.now).consumes(Destination(TOPIC, "T"), 1)
    scene.sends("/topic/T", 5_000, 1_000)


def in_a_transaction(scene: Scene) -> None:
    scene.feed("BEGIN\ntransaction:t\n\n\0")
    scene.sends("/queue/Q", 5_000, 1_000, "transaction:t\n")


def in_another_form(scene: Scene) -> None:
    Converter(scene.broker, "ID:jms", scene.now).consumes(Destination(QUEUE, "Q"), 32_766)
    scene.sends("/queue/Q", 5_000, 1_000)


def with_decoded_properties(scene: Scene) -> None:
    listener = Converter(scene.broker, "ID:jms", scene.now)
    listener.converts = False
    listener.consumes(Destination(QUEUE, "Q"), 32_766, "property1 = 'nothing'")
    scene.sends("/queue/Q", 5_000, 1_000)


@pytest.mark.large
@pytest.mark.parametrize(
    "holds", [in_queues, in_slow_subscribers, in_a_transaction, in_another_form, with_decoded_properties]
)
def test_the_count_is_what_is_held(holds: Callable[[Scene], None]) -> None:
    warm = Scene()
    holds(warm)
    del warm
    gc.collect()
    scene = Scene()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        holds(scene)
        gc.collect()
        held = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert held > 4 * MIB
    assert held <= scene.used() * 1.1, f"{held} bytes are held, {scene.used()} are counted"
    assert held >= scene.used() * 0.8, f"{held} bytes are held, {scene.used()} are counted"


def test_i19_memory_is_never_above_its_limit_by_more_than_a_tenth_and_ends_at_nothing() -> None:
    limit = 4 * MIB
    scene = Scene(limit)
    listeners = [Converter(scene.broker, f"ID:{number}", scene.now) for number in range(3)]
    listeners[0].consumes(Destination(QUEUE, "Q"), 50)
    listeners[1].consumes(Destination(TOPIC, "T"), 10)
    listeners[2].consumes(Destination(QUEUE, "P"), 50, "property1 = 'the value of number 1'")
    highest = 0
    waited = 0
    for turn in range(600):
        scene.sends("/queue/Q", 4, 1_000 + turn * 50)
        scene.sends("/topic/T", 4, 500)
        scene.sends("/queue/P", 2, 2_000)
        highest = max(highest, scene.used())
        assert scene.used() <= limit * 1.1
        waited = max(waited, scene.broker.statistics().parked_sends)
        if turn % 50 == 49:
            for listener in listeners:
                listener.acknowledges_all()
    assert highest >= limit
    assert waited > 0
    for _ in range(2_000):
        scene.broker.run(scene.now)
        for listener in listeners:
            listener.acknowledges_all()
    assert scene.broker.statistics().parked_sends == 0
    assert scene.used() == 0
