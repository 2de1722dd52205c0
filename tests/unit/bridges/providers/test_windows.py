"""Sources of AMQP 0-9-1 and MQTT whose broker counts messages, at messages of many sizes."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Coroutine
from types import SimpleNamespace
from typing import Any, Final

import pytest
from paho.mqtt.client import MQTTMessage
from pamqp.commands import Basic
from pamqp.header import ContentHeader

from spanwire.bridges.model.definition import ConnectionFactory, Source
from spanwire.bridges.providers import inbox as inbox_module
from spanwire.bridges.providers import window as window_module
from spanwire.bridges.providers.amqp091.parties import AmqpSource
from spanwire.bridges.providers.inbox import Inbox
from spanwire.bridges.providers.mqtt import connection as mqtt_connection
from spanwire.bridges.providers.mqtt.connection import FOREVER, MqttConnection
from spanwire.bridges.providers.mqtt.incoming import IncomingProperties
from spanwire.bridges.providers.mqtt.parties import MqttSource
from spanwire.bridges.providers.window import FIRST, Window
from spanwire.model.destination import QUEUE, TOPIC, Destination

WAIT_S: Final = 20.0
CREDIT: Final = 1_000
ROOM: Final = 64 * 1024  # for `MAX_OCTETS` here: a thousandth of the real one
BATCH_OCTETS: Final = ROOM // 4
LARGE, SMALL = 1_024, 1
SIZES: Final = {
    "large": [LARGE] * 1_200,
    "small": [SMALL] * 1_200,
    "large after small": [SMALL] * 1_500 + [LARGE] * 1_200,
    "small after large": [LARGE] * 1_200 + [SMALL] * 3_000,
    "one larger than all room": [SMALL, 2 * ROOM, SMALL],
    "all larger than all room": [2 * ROOM] * 20,
    "mixed": [LARGE if number % 7 else 20 * LARGE for number in range(1_200)],
}
LAST: Final = {  # messages of the last window; a message alone needs no room beside it
    "large": 32,
    "small": CREDIT,
    "large after small": 32,
    "small after large": CREDIT,
    "one larger than all room": 1,
    "all larger than all room": 1,
    "mixed": 8,
}


def run(scenario: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(asyncio.wait_for(scenario(), WAIT_S))


@pytest.fixture
def little_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """The limits of memory, a thousandth each."""
    monkeypatch.setattr(window_module, "MAX_OCTETS", ROOM)
    monkeypatch.setattr(window_module, "AIM", ROOM // 2)
    monkeypatch.setattr(mqtt_connection, "MAX_OCTETS", ROOM)
    monkeypatch.setattr(inbox_module, "MAX_FLOOD", 16 * ROOM)
    monkeypatch.setattr(inbox_module, "OVERHEAD", 1)


class FakeConnection:
    """A connection to RabbitMQ with one queue, whose messages return when their channel is closed."""

    def __init__(self, sizes: list[int]) -> None:
        self.is_closed = False
        self.waiting: Final = [(number, size) for number, size in enumerate(sizes)]
        self.windows: Final[list[int]] = []

    async def channel(self, publisher_confirms: bool = True) -> FakeChannel:
        return FakeChannel(self)


class FakeChannel:
    """A channel of RabbitMQ with one consumer: it delivers up to the prefetch of the consumer."""

    def __init__(self, connection: FakeConnection) -> None:
        self._connection: Final = connection
        self.waiting: Final = connection.waiting
        self.windows: Final = connection.windows
        self.unacknowledged: Final[dict[int, tuple[int, int]]] = {}
        self.is_closed = False
        self._observers: Final[list[asyncio.Future[None]]] = []
        self.on_consumer_cancel_callbacks: Final[set[Any]] = set()
        self._tags: Final = itertools.count(1)
        self._prefetch = 0
        self._callback: Any = None

    @property
    def closing(self) -> asyncio.Future[None]:
        """Another observer each time, as in the library."""
        self._observers.append(asyncio.get_running_loop().create_future())
        return self._observers[-1]

    async def queue_declare(self, name: str, **_: object) -> Any:
        return SimpleNamespace(queue=name)

    async def basic_qos(self, prefetch_count: int) -> None:
        self._prefetch = prefetch_count

    async def basic_consume(self, _: str, callback: Any) -> Any:
        self._callback, self._window = callback, self._prefetch
        self.windows.append(self._prefetch)
        await self._deliver()
        return SimpleNamespace(consumer_tag="tag")

    async def close(self) -> None:
        """Return all messages to their places, and run what waits for the end of the channel."""
        self.is_closed, callback, self._callback = True, self._callback, None
        self.waiting[:0] = self.unacknowledged.values()
        self.unacknowledged.clear()
        for observer in self._observers:
            observer.set_result(None)
        await asyncio.sleep(0)
        header = ContentHeader(0, 1, Basic.Properties(message_id="late"))
        await callback(SimpleNamespace(delivery_tag=1, header=header, body=b"x", redelivered=False))

    async def basic_ack(self, last: int, multiple: bool) -> None:
        assert multiple and last in self.unacknowledged
        for tag in [tag for tag in self.unacknowledged if tag <= last]:
            del self.unacknowledged[tag]
        await self._deliver()

    async def _deliver(self) -> None:
        while self._callback is not None and self.waiting and len(self.unacknowledged) < self._window:
            tag = next(self._tags)
            number, size = self.unacknowledged[tag] = self.waiting.pop(0)
            header = ContentHeader(0, size, Basic.Properties(message_id=str(number)))
            await self._callback(SimpleNamespace(delivery_tag=tag, header=header, body=b"x" * size, redelivered=False))


class FakeSession:
    """A broker's session of MQTT, and its connections: it publishes up to the receive maximum of each."""

    def __init__(self, sizes: list[int], credit: int, is_like_mosquitto: bool) -> None:
        """Mosquitto sends unacknowledged messages again to a new connection beyond its receive maximum."""
        self._is_like_mosquitto: Final = is_like_mosquitto
        self.waiting: Final = [(number, size) for number, size in enumerate(sizes)]
        self.unacknowledged: Final[dict[int, tuple[int, int]]] = {}
        self.windows: Final[list[int]] = []
        self.connection = self.connect(Window(credit, FIRST))

    def connect(self, window: Window) -> MqttConnection:
        """Deliver the unacknowledged messages again, and further ones, to a new connection."""
        factory = ConnectionFactory("mqtt://host")
        self.connection = connection = MqttConnection(factory, "client", FOREVER, window)
        self.windows.append(window.size)
        self.waiting[:0] = self.unacknowledged.values()
        self._maximum = max(window.size, len(self.unacknowledged) if self._is_like_mosquitto else 0)
        self.unacknowledged.clear()

        async def answered(work: Callable[[], Any]) -> None:
            """Publish what the acknowledgements have made room for, before the answer."""
            self.publish()

        async def next_window(topic: str) -> MqttConnection:
            window.open_next()
            return self.connect(window)

        connection._client.ack = lambda mid, _: self.unacknowledged.pop(mid)
        connection._finished = answered  # type: ignore[method-assign]
        connection.next_window = next_window  # type: ignore[method-assign]
        self.publish()
        self._maximum = window.size
        return connection

    def publish(self) -> None:
        while self.waiting and len(self.unacknowledged) < self._maximum:
            number, size = self.waiting.pop(0)
            message = MQTTMessage(number + 1, str(number).encode())
            message.qos, message.payload = 1, b"x" * size
            self.unacknowledged[message.mid] = (number, size)
            self.connection._incoming = IncomingProperties(b"")
            self.connection._on_message(None, None, message)


async def crossed(source: AmqpSource | MqttSource, count: int, inbox_of: Callable[[], Inbox[Any]]) -> list[int]:
    """Receive and acknowledge as a bridge does whose batch waits for good until it is full; return the sizes."""
    sizes: list[int] = []
    while len(sizes) < count:
        batch: list[int] = []
        while len(batch) < CREDIT // 2 and sum(batch) < BATCH_OCTETS and not source.is_exhausted():
            room = inbox_of().octets
            assert room <= ROOM or len(inbox_of()) == 1
            messages = await source.receive(CREDIT // 2 - len(batch), BATCH_OCTETS - sum(batch), 0)
            batch += [message.size for message in messages]
            if len(sizes) + len(batch) == count:
                break
        assert batch, "the source has neither messages nor a full window"
        await source.acknowledge()
        sizes += batch
    return sizes


@pytest.mark.parametrize("name", SIZES)
def test_an_amqp_source_keeps_memory_order_and_connection_at_any_sizes(name: str, little_room: None) -> None:
    async def scenario() -> None:
        sizes = SIZES[name]
        connection: Any = FakeConnection(sizes)
        source = AmqpSource(
            connection,
            await connection.channel(),
            Source(ConnectionFactory("amqp://host"), Destination(QUEUE, "Q")),
            CREDIT,
        )
        await source.consume()
        assert await crossed(source, len(sizes), lambda: source._inbox) == sizes
        channel: Any = source._channel
        assert not channel.unacknowledged and not connection.waiting
        assert (connection.windows[0], connection.windows[-1]) == (FIRST, LAST[name])

    run(scenario)


@pytest.mark.parametrize("is_like_mosquitto", [False, True])
@pytest.mark.parametrize("name", SIZES)
def test_an_mqtt_source_keeps_memory_order_and_session_at_any_sizes(
    name: str, is_like_mosquitto: bool, little_room: None
) -> None:
    async def scenario() -> None:
        sizes = SIZES[name]
        session = FakeSession(sizes, CREDIT, is_like_mosquitto)
        source = MqttSource(session.connection, Source(ConnectionFactory("mqtt://host"), Destination(TOPIC, "t")))
        assert await crossed(source, len(sizes), lambda: session.connection.inbox) == sizes
        assert not session.unacknowledged and not session.waiting
        if not is_like_mosquitto:
            assert session.windows[-1] == LAST[name]

    run(scenario)


def test_a_window_follows_the_sizes_of_messages_down_and_up(little_room: None) -> None:
    window = Window(CREDIT)
    for number in range(CREDIT):
        window.admit(LARGE, min(number, 64) * LARGE)
    assert (window.held, window.is_closed, window.is_due()) == (64, True, False)
    window.release(64)
    window.acknowledge(64)
    assert window.is_due() and window.open_next() == 32
    for _ in range(4):
        for number in range(32):
            assert window.admit(SMALL, number)
        assert not window.is_closed and window.is_exhausted(0) and not window.is_exhausted(1)
        window.release(32)
        window.acknowledge(32)
    assert window.is_due() and window.open_next() == CREDIT


def test_a_long_past_of_large_messages_does_not_hold_a_window_of_small_ones_down(little_room: None) -> None:
    window = Window(CREDIT, 32)
    for size in [LARGE] * 1_000 + [SMALL] * 16:
        for number in range(32):
            if not window.is_due():
                assert window.admit(size, number * size)
        window.release(window.held)
        window.acknowledge(window.held)
    assert window.is_due() and window.open_next() >= 64


def test_a_fixed_window_keeps_its_size_and_all_messages(little_room: None) -> None:
    window = Window(CREDIT, 32, is_fixed=True)
    for size in (SMALL, LARGE, 2 * ROOM):
        for _ in range(10):
            for number in range(32):
                assert window.admit(size, number * size)
            window.release(32)
            window.acknowledge(32)
    assert (window.size, window.held, window.is_closed) == (32, 0, False)


def test_a_source_of_mqtt_that_is_stopped_while_it_passes_over_dead_letters_opens_its_next_window() -> None:
    async def answered(work: Callable[[], Any]) -> None:
        await asyncio.get_running_loop().create_future()

    async def scenario() -> None:
        connection = MqttConnection(ConnectionFactory("mqtt://host"), "client", FOREVER, Window(CREDIT, FIRST))
        message = MQTTMessage(1, b"t")
        message.qos, message.payload = 1, b"x"
        connection._incoming = IncomingProperties(b"")
        connection._on_message(None, None, message)
        connection._client.ack = lambda *_: None
        connection._finished = answered  # type: ignore[method-assign]
        connection.window.is_closed = True
        acknowledging = asyncio.ensure_future(connection.acknowledge([message]))
        await asyncio.sleep(0)
        acknowledging.cancel()
        await asyncio.gather(acknowledging, return_exceptions=True)
        assert connection.window.is_due()

    run(scenario)
