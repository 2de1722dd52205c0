"""What every transport must do for the connection it carries, and for the client at its other end. A test module
inherits the classes and says how to make a driver.

Both ends live in one event loop; what a test waits for it looks for with a deadline.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Final, Protocol

from spanwire.model.environment import Time
from spanwire.protocols.base import ConnectionSettings, ProtocolConnection
from spanwire.transports.admission import Admission
from spanwire.transports.base import ConnectionFactory
from spanwire.transports.loop.system_clock import SystemClock
from spanwire.transports.loop.turn import Turn
from tests.unit.transports.stage import FakeBroker, FakeConnection

WAIT_S: Final = 30.0
QUIET_S: Final = 0.3  # a writer that has not got on for so long is held back
KIB: Final = 1024
MIB: Final = 1024 * KIB
LARGE: Final = 8 * MIB
MOST_IN_BETWEEN: Final = 16 * MIB  # what buffers of both ends and of the kernel may hold together


class ClientEnd(Protocol):
    """The client's end of one connection."""

    async def write(self, data: bytes) -> None:
        """Write; waits while the transport has no room."""
        ...

    async def read(self) -> bytes:
        """Some bytes, b"" at the end. What is not read stays with the transport."""
        ...

    def close(self) -> None:
        """The end, after what was written."""
        ...


class HalfClosing(ClientEnd, Protocol):
    """An end that can stop writing and go on reading."""

    async def end_writing(self) -> None:
        """The broker gets to know that nothing more comes."""
        ...


class TransportDriver(Protocol):
    """A connector of one transport with the clients it can have. ``connection_count`` is the connector's."""

    @property
    def connection_count(self) -> int: ...

    async def start(self, factory: ConnectionFactory, turn: Turn, admission: Admission) -> None: ...

    def stop(self) -> None: ...

    async def connect(self) -> ClientEnd:
        """Raises `OSError` or gives an end that is over when there can be no connection."""
        ...


class Stage:
    """One broker's side: a turn, a connector, and connections that remember."""

    def __init__(self, driver: TransportDriver, max_connections: int) -> None:
        self.driver = driver
        self.broker = FakeBroker()
        self.turn = Turn(asyncio.get_running_loop(), self.broker, SystemClock())
        self.admission = Admission(max_connections)
        self.connections: list[FakeConnection] = []

    async def __aenter__(self) -> Stage:
        await self.driver.start(self._make, self.turn, self.admission)
        self.turn.start()
        return self

    async def __aexit__(self, *error: object) -> None:
        self.driver.stop()
        self.turn.close_all()
        await until(lambda: self.turn.connection_count == 0)
        self.turn.stop()

    def _make(self, settings: ConnectionSettings, now: Time) -> ProtocolConnection:
        connection = FakeConnection()
        self.connections.append(connection)
        return connection

    async def connect(self) -> tuple[ClientEnd, FakeConnection]:
        """A client that is connected, and the broker's connection to it."""
        before = len(self.connections)
        client = await self.driver.connect()
        await until(lambda: len(self.connections) > before)
        return client, self.connections[-1]

    def send(self, connection: FakeConnection, *chunks: bytes) -> None:
        """The broker has something for a client."""
        connection.to_send.extend(chunks)
        self.flush(connection)

    def flush(self, connection: FakeConnection) -> None:
        """Something about a connection has changed."""
        self.broker.dirty.append(connection)
        self.turn.wake()


async def until(condition: Callable[[], bool]) -> None:
    """Let the loop turn until ``condition`` holds."""
    end = asyncio.get_running_loop().time() + WAIT_S
    while not condition():
        assert asyncio.get_running_loop().time() < end, "it has not happened"
        await asyncio.sleep(0.001)


async def read_exactly(client: ClientEnd, count: int) -> bytes:
    """So many bytes, or fewer if the end comes first."""
    found = bytearray()
    while len(found) < count:
        data = await asyncio.wait_for(client.read(), WAIT_S)
        if not data:
            break
        found += data
    return bytes(found)


async def read_all(client: ClientEnd) -> bytes:
    """Everything up to the end."""
    return await read_exactly(client, 1 << 40)


def received(connection: FakeConnection) -> bytes:
    return b"".join(connection.received)


async def until_received(connection: FakeConnection, count: int) -> None:
    """Let the loop turn until the broker's connection has got so many bytes."""
    await until(lambda: sum(map(len, connection.received)) >= count)


def some_bytes(count: int, seed: int = 0) -> bytes:
    return random.Random(seed).randbytes(count)


async def _write_until_held_back(client: ClientEnd, data: bytes) -> tuple[bytes, asyncio.Future[None]]:
    """Write ``data`` again and again until the transport takes no more; everything that was or will be written, and the
    write that waits.
    """
    written = bytearray()
    while len(written) < 4 * MOST_IN_BETWEEN:
        writing = asyncio.ensure_future(client.write(data))
        written += data
        done, _ = await asyncio.wait([writing], timeout=QUIET_S)
        if not done:
            return bytes(written), writing
    raise AssertionError("nothing held the client back")


class TransportConformance:
    """What holds for all."""

    def driver(self) -> TransportDriver:
        raise AssertionError("a test class says which transport it is about")

    def run(self, play: Callable[[Stage], Awaitable[None]], max_connections: int = 100) -> None:
        """Play on a stage of this transport."""

        async def on_stage() -> None:
            async with Stage(self.driver(), max_connections) as stage:
                await asyncio.wait_for(play(stage), 2 * WAIT_S)

        asyncio.run(on_stage())

    def test_bytes_arrive_in_order_in_both_directions(self) -> None:
        async def play(stage: Stage) -> None:
            client, connection = await stage.connect()
            dice = random.Random(1)
            pieces = [some_bytes(dice.choice((1, 7, 100, 5_000, 70_000)), seed) for seed in range(100)]
            whole = b"".join(pieces)
            for piece in pieces:
                await client.write(piece)
                stage.send(connection, piece)
            assert await read_exactly(client, len(whole)) == whole
            await until_received(connection, len(whole))
            assert received(connection) == whole
            client.close()

        self.run(play)

    def test_a_large_frame_passes_in_both_directions(self) -> None:
        async def play(stage: Stage) -> None:
            client, connection = await stage.connect()
            frame = some_bytes(LARGE)
            stage.send(connection, frame)
            assert await read_exactly(client, LARGE) == frame
            await client.write(frame)
            await until_received(connection, LARGE)
            assert received(connection) == frame
            client.close()

        self.run(play)

    def test_clients_do_not_hear_each_other(self) -> None:
        async def play(stage: Stage) -> None:
            ends = [await stage.connect() for _ in range(5)]
            for number, (client, connection) in enumerate(ends):
                await client.write(b"from %d" % number)
                stage.send(connection, b"to %d" % number)
            for number, (client, connection) in enumerate(ends):
                assert await read_exactly(client, 4) == b"to %d" % number
                await until_received(connection, 6)
                assert received(connection) == b"from %d" % number
                client.close()

        self.run(play)

    def test_a_client_is_held_back_while_the_broker_does_not_want_to_read(self) -> None:
        async def play(stage: Stage) -> None:
            client, connection = await stage.connect()
            connection.wants_read = False
            stage.flush(connection)
            written, writing = await _write_until_held_back(client, some_bytes(256 * KIB))
            assert len(written) < MOST_IN_BETWEEN
            assert len(received(connection)) < len(written)
            connection.wants_read = True
            stage.flush(connection)
            await until_received(connection, len(written))
            assert received(connection) == written
            await writing
            client.close()

        self.run(play)

    def test_what_a_client_does_not_read_is_reported_as_unsent_and_nothing_of_it_is_lost(self) -> None:
        async def play(stage: Stage) -> None:
            client, connection = await stage.connect()
            sent = b""
            while not connection.unsent_reports or connection.unsent_reports[-1] == 0:
                assert len(sent) < MOST_IN_BETWEEN, "somebody swallows it all"
                piece = some_bytes(256 * KIB, len(sent))
                sent += piece
                connection.unsent_reports.clear()
                stage.send(connection, piece)
                await until(lambda: bool(connection.unsent_reports))
            assert await read_exactly(client, len(sent)) == sent
            await until(lambda: connection.unsent_reports[-1] == 0)
            client.close()

        self.run(play)

    def test_the_end_of_a_client_follows_what_it_wrote(self) -> None:
        async def play(stage: Stage) -> None:
            client, connection = await stage.connect()
            assert stage.driver.connection_count == 1
            words = some_bytes(100_000)
            await client.write(words)
            client.close()
            await until(lambda: stage.driver.connection_count == 0)
            assert received(connection) == words
            assert connection.eofs > 0
            assert stage.admission.count == 0

        self.run(play)

    def test_a_connection_that_the_broker_closes_ends_after_its_last_words(self) -> None:
        async def play(stage: Stage) -> None:
            client, connection = await stage.connect()
            words = some_bytes(100_000)
            connection.closed = True
            stage.send(connection, words)
            assert await read_all(client) == words
            await until(lambda: stage.driver.connection_count == 0)
            assert connection.eofs > 0
            client.close()

        self.run(play)

    def test_a_client_that_goes_while_the_broker_writes_harms_nobody(self) -> None:
        async def play(stage: Stage) -> None:
            leaving, connection = await stage.connect()
            staying, other = await stage.connect()
            stage.send(connection, some_bytes(LARGE))
            leaving.close()
            await until(lambda: connection.eofs > 0)
            for _ in range(10):
                stage.send(connection, b"nobody reads this")
                await asyncio.sleep(0)
            stage.send(other, b"still here")
            assert await read_exactly(staying, 10) == b"still here"
            await until(lambda: stage.driver.connection_count == 1)
            staying.close()

        self.run(play)

    def test_an_error_in_one_connection_closes_that_one_only(self) -> None:
        async def play(stage: Stage) -> None:
            failing, connection = await stage.connect()
            staying, other = await stage.connect()

            def fail(data: bytes) -> None:
                raise ValueError("planted")

            connection.on_receive = fail
            await failing.write(b"x")
            assert await _ends(failing)
            stage.send(other, b"still here")
            assert await read_exactly(staying, 10) == b"still here"
            for client in (failing, staying):
                client.close()

        self.run(play)

    def test_a_client_over_the_limit_is_closed_and_the_others_go_on(self) -> None:
        async def play(stage: Stage) -> None:
            staying, connection = await stage.connect()
            assert await _is_refused(stage.driver)
            assert len(stage.connections) == 1
            stage.send(connection, b"still here")
            assert await read_exactly(staying, 10) == b"still here"
            staying.close()
            await until(lambda: stage.driver.connection_count == 0)
            again, _ = await stage.connect()
            again.close()

        self.run(play, max_connections=1)

    def test_a_connector_that_has_stopped_refuses_clients_and_keeps_those_it_has(self) -> None:
        async def play(stage: Stage) -> None:
            staying, connection = await stage.connect()
            stage.driver.stop()
            assert await _is_refused(stage.driver)
            stage.send(connection, b"still here")
            assert await read_exactly(staying, 10) == b"still here"
            staying.close()

        self.run(play)

    def test_a_broker_that_closes_everything_lets_each_client_read_to_the_end(self) -> None:
        async def play(stage: Stage) -> None:
            ends = [await stage.connect() for _ in range(3)]
            for _, connection in ends:
                connection.to_send.append(b"goodbye")
                connection.closed = True
            stage.turn.close_all()
            for client, _ in ends:
                assert await read_all(client) == b"goodbye"
                client.close()
            await until(lambda: stage.driver.connection_count == 0)

        self.run(play)

    def test_a_connections_timer_is_kept(self) -> None:
        async def play(stage: Stage) -> None:
            client, connection = await stage.connect()
            due = stage.turn.clock.now().monotonic + 0.05
            connection.due = due
            await until(lambda: bool(connection.timeouts))
            assert connection.timeouts[0] >= due
            client.close()

        self.run(play)


class HalfCloseConformance(TransportConformance):
    """For transports whose clients can stop writing and still read."""

    def test_a_client_that_writes_no_more_still_gets_the_answer(self) -> None:
        async def play(stage: Stage) -> None:
            client, connection = await stage.connect()
            connection.on_receive = lambda data: connection.to_send.append(b"answer to " + data)
            await client.write(b"question")
            await self.end_writing(client)
            assert await read_all(client) == b"answer to question"
            await until(lambda: stage.driver.connection_count == 0)
            client.close()

        self.run(play)

    async def end_writing(self, client: ClientEnd) -> None:
        """The client's half is over."""
        raise AssertionError("a test class says how")


async def _is_refused(driver: TransportDriver) -> bool:
    """Whether a new client gets no connection, or one that ends before it has said anything."""
    try:
        client = await driver.connect()
    except OSError:
        return True
    refused = await _ends(client)
    client.close()
    return refused


async def _ends(client: ClientEnd) -> bool:
    """Whether the next thing a client reads is the end, in order or not."""
    try:
        return await asyncio.wait_for(client.read(), WAIT_S) == b""
    except OSError:
        return True
