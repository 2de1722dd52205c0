"""How many messages a blocking consumer hands over at once. The test plays the channel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pytest

from spanwire.client.blocking.consumer import Consumer
from spanwire.client.blocking.listener import Turns
from spanwire.client.blocking.receiver import MAX_BYTES_AT_ONCE
from spanwire.client.blocking.shared.channel import Channel
from spanwire.client.blocking.shared.core_connection import CoreConnection
from spanwire.client.messages.message import Message
from spanwire.model.errors import JmsError
from tests.support.client_dialogue import PlayedBroker, StillMachine


class BringingChannel(Channel):
    """Each look at it does the next of what the test has prepared."""

    def __init__(self) -> None:
        self.brings: Final[list[Callable[[], object]]] = []
        self.looks = 0
        self.written = b""

    def send(self, data: bytes | bytearray) -> int:
        self.written += bytes(data)
        return len(data)

    def receive(self) -> bytes:
        self.looks += 1
        if self.brings:
            self.brings.pop(0)()
        return b""

    def wait(self, timeout: float | None, for_reading: bool, for_writing: bool) -> None:
        return

    def wake(self) -> None:
        return

    def close(self) -> None:
        return


class PlayedConnection(CoreConnection):
    """A connection that is online, with one consumer under client acknowledgement."""

    def __init__(self) -> None:
        self.broker: Final = PlayedBroker()
        self.broker.lets_in()
        session = self.broker.session("client")
        self.core_consumer: Final = self.broker.consumer(session)
        super().__init__(self.broker.client, StillMachine(self.broker.machine), None)
        self.consumer: Final = Consumer(session, self.core_consumer, self, Turns())
        self.channel: Final = BringingChannel()
        self._channel = self.channel

    def brings(self, *bodies: str) -> None:
        self.channel.brings.append(lambda: self.broker.dispatches(self.core_consumer, *bodies))


def bodies(messages: list[Message]) -> list[object]:
    return [message.body for message in messages]


def test_what_is_there_and_what_comes_meanwhile_is_handed_over_at_once() -> None:
    connection = PlayedConnection()
    connection.brings("a", "b")
    connection.brings("c")
    assert bodies(connection.consumer.receive_many(10, 1.0)) == ["a", "b", "c"]


def test_no_more_are_handed_over_than_were_asked_for() -> None:
    connection = PlayedConnection()
    connection.brings("a", "b", "c")
    assert bodies(connection.consumer.receive_many(2, 1.0)) == ["a", "b"]
    assert bodies(connection.consumer.receive_many(1, 1.0)) == ["c"]
    assert connection.channel.looks == 1


def test_nothing_is_handed_over_when_nothing_was_asked_for() -> None:
    connection = PlayedConnection()
    connection.brings("a")
    assert connection.consumer.receive_many(0) == []
    assert bodies(connection.consumer.receive_many(1, 1.0)) == ["a"]


def test_nothing_is_handed_over_when_nothing_comes_in_time() -> None:
    connection = PlayedConnection()
    connection.channel.brings.append(lambda: connection.broker.passes(2.0))
    assert connection.consumer.receive_many(10, 1.0) == []


def test_large_messages_are_handed_over_a_few_at_a_time() -> None:
    connection = PlayedConnection()
    large = "x" * (MAX_BYTES_AT_ONCE // 4)
    connection.brings(large, large, large, large, large, large)
    assert len(connection.consumer.receive_many(10, 1.0)) == 4
    assert len(connection.consumer.receive_many(10, 1.0)) == 2


def test_messages_before_a_failure_are_handed_over_and_then_it_is_raised() -> None:
    connection = PlayedConnection()
    connection.brings("a")
    connection.channel.brings.append(lambda: connection.core_consumer.fail(JmsError("it broke")))
    assert bodies(connection.consumer.receive_many(10, 1.0)) == ["a"]
    with pytest.raises(JmsError, match="it broke"):
        connection.consumer.receive_many(10, 1.0)
