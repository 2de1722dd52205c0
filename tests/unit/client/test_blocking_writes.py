"""What a blocking connection does with what its channel does not take at once. The test plays the channel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from spanwire.client.blocking.shared.channel import Channel
from spanwire.client.blocking.shared.core_connection import CoreConnection
from spanwire.client.blocking.shared.write_batching import GATHER_DELAY
from tests.support.client_dialogue import PlayedBroker, StillMachine

SLACK: Final = GATHER_DELAY / 10


class PlayedChannel(Channel):
    """Takes ``room`` bytes; ``meanwhile`` happens while somebody waits for it."""

    def __init__(self) -> None:
        self.room = 0
        self.written = b""
        self.rings = 0
        self.waited_for_writing: Final[list[bool]] = []
        self.meanwhile: Final[list[Callable[[], None]]] = []

    def send(self, data: bytes | bytearray) -> int:
        taken = bytes(data[: self.room])
        self.room -= len(taken)
        self.written += taken
        return len(taken)

    def receive(self) -> bytes:
        return b""

    def wait(self, timeout: float | None, for_reading: bool, for_writing: bool) -> None:
        self.waited_for_writing.append(for_writing)
        self.meanwhile.pop(0)()

    def wake(self) -> None:
        self.rings += 1

    def close(self) -> None:
        return


class PlayedConnection(CoreConnection):
    """A connection that is online, and has a session and a producer that nobody waits for."""

    def __init__(self) -> None:
        self.broker: Final = PlayedBroker()
        self.broker.lets_in()
        self.producer: Final = self.broker.producer(self.broker.session())
        super().__init__(self.broker.client, StillMachine(self.broker.machine), None)
        self.channel: Final = PlayedChannel()
        self._channel = self.channel

    def sends(self, text: str) -> int:
        """How many bytes that is; the lock is held."""
        self.broker.send(self.producer, text, wait=False)
        size = self.core.pending_bytes()
        self.write_soon()
        return size


def test_what_was_left_at_the_end_of_a_burst_is_written_as_soon_as_there_is_room() -> None:
    connection = PlayedConnection()
    channel, clock = connection.channel, connection.broker.machine
    with connection.lock:
        channel.room = 10_000
        size = connection.sends("first")
        size += connection.sends("second")
        assert len(channel.written) < size
        assert connection.batching.is_on
        channel.room = 10
        for _ in range(5):
            clock.monotonic += GATHER_DELAY + SLACK
            connection.write_batch(clock.monotonic)
            assert connection.unsent
        channel.room = 10_000
        clock.monotonic += GATHER_DELAY + SLACK
        connection.write_batch(clock.monotonic)
        assert not connection.unsent
        assert len(channel.written) == size
        for _ in range(2):
            clock.monotonic += 2 * GATHER_DELAY
            connection.write_batch(clock.monotonic)
        assert not connection.batching.is_on


def test_whoever_waits_for_the_channel_waits_for_room_as_well_as_soon_as_something_is_left() -> None:
    connection = PlayedConnection()
    channel, clock = connection.channel, connection.broker.machine
    is_over: list[bool] = []

    def another_thread_writes() -> None:
        with connection.lock:
            channel.room = 10
            connection.broker.send(connection.producer, "x", wait=False)
            connection.write_acknowledgements()
            assert connection.unsent
            assert channel.rings == 1
            connection.broker.send(connection.producer, "y", wait=False)
            clock.monotonic += 1.0
            connection.write_acknowledgements()
            assert channel.rings == 1, "it has been told"

    def there_is_room() -> None:
        channel.room = 10_000
        is_over.append(True)

    channel.meanwhile.extend([another_thread_writes, there_is_room])
    with connection.lock:
        assert connection.wait(lambda: bool(is_over), None)
    assert channel.waited_for_writing == [False, True]
    assert not connection.unsent
