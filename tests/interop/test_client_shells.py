"""What the shells add to the core: back-pressure, cancellation, Ctrl-C, time-outs, and a heart that beats by itself."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any, Final

import pytest

from spanwire.client import aio, blocking
from spanwire.model.errors import (
    IllegalStateError,
    ResourceAllocationError,
    TransactionRolledBackError,
)
from spanwire.protocols.openwire.codec import _marshallers as wire
from spanwire.protocols.openwire.codec.codec import FrameDecoder, FrameEncoder
from spanwire.protocols.openwire.codec.wire_format import WireFormatPreferences, negotiate, wire_format_info
from spanwire.testing.broker import Broker
from tests.support.client_shells import SHELLS, opened

PATIENCE: Final = 30.0
NOT_AGAIN: Final = 0.1  # for what must not come


@pytest.fixture(params=SHELLS)
def shell(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def played(scenario: Any) -> None:
    asyncio.run(asyncio.wait_for(scenario, 2 * PATIENCE))


def test_no_message_is_handed_over_while_its_acknowledgement_has_nowhere_to_go(spanwire_broker: Broker) -> None:
    async def scenario() -> None:
        async with aio.connect(spanwire_broker.url) as connection, connection.session() as session:
            producer = await session.create_producer("queue://B")
            consumer = await session.create_consumer("queue://B")
            for body in "ab":
                await producer.send(body)
            first = await consumer.receive(PATIENCE)
            assert first is not None
            found = connection.shared.wire
            assert found is not None
            found.pause()
            await asyncio.sleep(0)
            assert consumer.receive_no_wait() is None
            assert await consumer.receive(NOT_AGAIN) is None
            waiting = asyncio.create_task(consumer.receive(PATIENCE))
            await asyncio.sleep(0)
            found.resume()
            second = await waiting
            assert second is not None
            assert second.body == "b"

    played(scenario())


def test_a_receive_is_over_in_time_though_the_broker_takes_nothing(spanwire_broker: Broker) -> None:
    with (
        spanwire_broker.wire() as way,
        blocking.connect(way.url) as connection,
        connection.session() as session,
        connection.session() as other,
    ):
        producer, watcher = session.create_producer("queue://B"), other.create_consumer("queue://NOTHING")
        consumer = session.create_consumer("queue://B")
        producer.send("a")
        while connection.shared.core.correlator.buffered_bytes == 0:
            watcher.receive(NOT_AGAIN)  # reads for all
        way.clog()
        flood = threading.Thread(target=producer.send, args=(b"x" * 32_000_000,), kwargs={"wait": False}, daemon=True)
        flood.start()
        while not connection.shared.is_congested:
            assert flood.is_alive()
            threading.Event().wait(0.01)
        assert consumer.receive(NOT_AGAIN) is None
        assert consumer.receive_no_wait() is None
        way.mend()
        message = consumer.receive(PATIENCE)
        assert message is not None
        assert message.body == "a"
        flood.join(PATIENCE)
        assert not flood.is_alive()


def test_reading_stops_at_a_limit_of_bytes_and_goes_on_for_whoever_waits(spanwire_broker: Broker) -> None:
    async def scenario() -> None:
        count, size = 300, 10_000
        async with aio.connect(spanwire_broker.url) as connection, connection.session() as session:
            producer = await session.create_producer("queue://B", persistent=False)
            for number in range(count):
                await producer.send(str(number).ljust(size))
            shared = connection.shared
            shared.max_buffered_bytes = 20 * size
            consumer = await session.create_consumer("queue://B", prefetch=count)
            end = asyncio.get_running_loop().time() + PATIENCE
            while shared.is_reading:
                assert asyncio.get_running_loop().time() < end
                await asyncio.sleep(0.01)
            await producer.send("last", wait=True)  # its answer stands behind messages
            other = await session.create_consumer("queue://NOTHING")
            assert await other.receive(NOT_AGAIN) is None
            bodies = [str(message.body).strip() async for message in some(consumer, count + 1)]
            assert bodies == [*map(str, range(count)), "last"]

    played(scenario())


async def bodies(consumer: Any, count: int) -> list[object]:
    found = [await consumer.receive(PATIENCE) for _ in range(count)]
    return [None if message is None else message.body for message in found]


async def some(consumer: aio.Consumer, count: int) -> Any:
    for _ in range(count):
        message = await consumer.receive(PATIENCE)
        assert message is not None
        yield message


def test_a_cancelled_receive_loses_nothing(spanwire_broker: Broker) -> None:
    async def scenario() -> None:
        async with aio.connect(spanwire_broker.url) as connection, connection.session() as session:
            producer = await session.create_producer("queue://C")
            consumer = await session.create_consumer("queue://C")
            for number in range(20):
                waiting = asyncio.create_task(consumer.receive(PATIENCE))
                await asyncio.sleep(0)
                await producer.send(str(number))
                if waiting.cancel():
                    with pytest.raises(asyncio.CancelledError):
                        await waiting
                    message = await consumer.receive(PATIENCE)
                else:
                    message = waiting.result()
                assert message is not None
                assert message.body == str(number)

    played(scenario())


def test_what_is_cancelled_while_it_is_made_is_not_left_at_the_broker(spanwire_broker: Broker) -> None:
    async def scenario() -> None:
        async with aio.connect(spanwire_broker.url) as connection, connection.session() as session:
            for make in (session.create_consumer, session.create_producer):
                task = asyncio.create_task(make("queue://C"))
                await asyncio.sleep(0)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
            await session.create_producer("queue://AFTER")
            queue = spanwire_broker.queue("C")
            await asyncio.to_thread(queue.wait_for, PATIENCE, consumers=0, producers=0)

    played(scenario())


def test_a_cancelled_send_and_commit_leave_a_connection_that_works(spanwire_broker: Broker) -> None:
    async def scenario() -> None:
        async with aio.connect(spanwire_broker.url) as connection, connection.session("transacted") as session:
            producer = await session.create_producer("queue://C")
            for work in (producer.send("a", wait=True), session.commit()):
                task = asyncio.create_task(work)
                await asyncio.sleep(0)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
            await producer.send("b")
            await session.commit()
            await asyncio.to_thread(spanwire_broker.queue("C").wait_for, PATIENCE, pending=2)

    played(scenario())


def test_closing_a_session_ends_whoever_waits_for_its_messages(spanwire_broker: Broker, shell: str) -> None:
    async def scenario() -> None:
        async with opened(shell, spanwire_broker.url) as connection:
            session = connection.session()
            consumer = await session.create_consumer("queue://Q")
            waiting = asyncio.create_task(consumer.receive())
            await asyncio.sleep(NOT_AGAIN)
            await session.close()
            with pytest.raises(IllegalStateError, match="consumer is closed"):
                await asyncio.wait_for(waiting, PATIENCE)

    played(scenario())


def test_receives_and_sends_that_are_cancelled_lose_nothing(spanwire_broker: Broker) -> None:
    count = 300

    async def cancelled(task: asyncio.Task[Any], is_due: Callable[[], bool], turns: int) -> Any:
        await asyncio.sleep(0)
        while not is_due():
            await asyncio.sleep(0)
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        return (await asyncio.gather(task, return_exceptions=True))[0]

    async def scenario() -> None:
        async with opened("aio", spanwire_broker.url) as connection, connection.session() as session:
            producer, consumer = await session.create_producer("queue://Q"), await session.create_consumer("queue://Q")
            found: list[object] = []
            cancellations = 0
            for number in range(count):
                sending = asyncio.create_task(producer.send(str(number)))
                await cancelled(sending, lambda: True, number % 3)
                receiving = asyncio.create_task(consumer.receive())
                message = await cancelled(receiving, lambda: not consumer.core.is_waiting, number % 4)
                if isinstance(message, asyncio.CancelledError):
                    cancellations += 1
                else:
                    found.append(message.body)
            found += await bodies(consumer, count - len(found))
            assert found == [str(number) for number in range(count)]
            assert cancellations, "nothing was cancelled"
            await producer.send("last")
            assert await bodies(consumer, 1) == ["last"]

    played(scenario())


def test_a_durable_subscription_without_a_client_id_is_refused_here(spanwire_broker: Broker, shell: str) -> None:
    async def scenario() -> None:
        async with opened(shell, spanwire_broker.url) as connection, connection.session() as session:
            with pytest.raises(IllegalStateError, match="client_id"):
                await session.create_durable_subscriber("topic://T", "mine")

    played(scenario())


def test_a_transaction_that_lost_a_message_cannot_be_committed(spanwire_broker: Broker, shell: str) -> None:
    async def scenario() -> None:
        async with opened(shell, spanwire_broker.url) as connection, connection.session("transacted") as session:
            producer = await session.create_producer()
            await producer.send("x", destination="temp-queue://ID:nobody:1")
            with pytest.raises(TransactionRolledBackError):
                await session.commit()
            await producer.send("y", destination="queue://PY.AFTER")
            await session.commit()

    played(scenario())


INTERRUPTED: Final = """
import signal, sys
from spanwire.client import blocking

signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background of a shell begins without

with blocking.connect(sys.argv[1]) as connection, connection.session() as session:
    consumer = session.create_consumer("queue://I")
    try:
        print("waiting", flush=True)
        consumer.receive()
    except KeyboardInterrupt:
        print("interrupted", flush=True)
    session.create_producer("queue://I").send("after")
    print(consumer.receive(30).body, flush=True)
"""

INTERRUPTED_LOOP: Final = """
import asyncio, signal, sys
from spanwire.client import aio

signal.signal(signal.SIGINT, signal.default_int_handler)

async def main():
    async with aio.connect(sys.argv[1]) as connection, connection.session() as session:
        consumer = await session.create_consumer("queue://I")
        print("waiting", flush=True)
        try:
            await consumer.receive()
        finally:
            await (await session.create_producer("queue://I")).send("after")
            print((await consumer.receive(30)).body, flush=True)

try:
    asyncio.run(main())
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


@pytest.mark.parametrize(
    ("program", "output"),
    [(INTERRUPTED, ["interrupted", "after"]), (INTERRUPTED_LOOP, ["after", "interrupted"])],
    ids=["blocking", "aio"],
)
def test_ctrl_c_ends_a_wait_and_nothing_else(spanwire_broker: Broker, program: str, output: list[str]) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", program, spanwire_broker.url], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == "waiting\n"
            process.send_signal(signal.SIGINT)
            printed, complaints = process.communicate(timeout=PATIENCE)
        finally:
            process.kill()
    assert (printed.split(), complaints, process.returncode) == (output, "", 0)
    spanwire_broker.queue("I").wait_for(PATIENCE, consumers=0, pending=0)


class PlayedBroker:
    """Lets a client in, answers what ``answers`` says, and hears everything else."""

    def __init__(self, answers: tuple[type[wire.BaseCommand], ...], inactivity_ms: int = 30_000) -> None:
        self.server: Final = socket.create_server(("127.0.0.1", 0))
        self.keep_alive: Final = threading.Event()
        self._answers: Final = answers
        self._preferences: Final = WireFormatPreferences(
            max_inactivity_ms=inactivity_ms, max_inactivity_initial_delay_ms=60_000
        )
        self.thread: Final = threading.Thread(target=self._play, daemon=True)
        self.thread.start()

    @property
    def url(self) -> str:
        return f"tcp://127.0.0.1:{self.server.getsockname()[1]}"

    def _play(self) -> None:
        channel, _ = self.server.accept()
        decoder, encoder = FrameDecoder(pass_messages=False), FrameEncoder()
        with channel, self.server:
            channel.sendall(encoder.encode(wire_format_info(self._preferences)))
            while data := channel.recv(65536):
                commands = decoder.feed(data)
                while commands:
                    for command in commands:
                        if isinstance(command, wire.WireFormatInfo):
                            found = negotiate(self._preferences, command)
                            decoder.negotiated(found)
                            encoder = FrameEncoder(found)
                        elif isinstance(command, wire.KeepAliveInfo):
                            self.keep_alive.set()
                        elif isinstance(command, (wire.ConnectionInfo, *self._answers)):
                            assert isinstance(command, wire.BaseCommand)
                            channel.sendall(encoder.encode(wire.Response(command.command_id)))
                    commands = decoder.feed(b"")


def test_a_loop_without_time_sends_keep_alives_all_the_same() -> None:
    broker = PlayedBroker((), inactivity_ms=900)

    async def scenario() -> None:
        connection = await aio.connect(f"{broker.url}?jms.closeTimeout=50")
        assert broker.keep_alive.wait(PATIENCE), "the loop was blocked, and nobody said that we live"
        await connection.close()

    played(scenario())
    broker.thread.join(PATIENCE)


def test_a_child_of_a_fork_has_a_heart_of_its_own(spanwire_broker: Broker) -> None:
    def in_child() -> int:
        child = os.fork()
        if child == 0:
            code = 1
            try:
                code = asyncio.run(blocked_until_a_keep_alive())
            finally:
                os._exit(code)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

    async def blocked_until_a_keep_alive() -> int:
        broker = PlayedBroker((), inactivity_ms=900)
        await aio.connect(broker.url)
        return 0 if broker.keep_alive.wait(PATIENCE) else 1

    async def scenario() -> None:
        async with aio.connect(spanwire_broker.url):
            assert await asyncio.to_thread(in_child) == 0

    played(scenario())


@pytest.mark.parametrize("tight", ["true", "false"])
def test_the_keep_alive_of_the_thread_stands_between_two_frames(spanwire_broker: Broker, tight: str) -> None:
    async def scenario() -> None:
        url = f"{spanwire_broker.url}?wireFormat.tightEncodingEnabled={tight}&wireFormat.cacheEnabled={tight}"
        async with aio.connect(url) as connection, connection.session() as session:
            producer = await session.create_producer("queue://K")
            shared = connection.shared
            for number in range(50):
                shared._written_at = 0.0
                assert shared.send_overdue_keep_alive(1e9) > 1e9
                assert shared._written_at == 1e9
                await producer.send(str(number))
        assert spanwire_broker.queue("K").pending == 50

    played(scenario())


def test_every_wait_has_a_time_out(shell: str) -> None:
    broker = PlayedBroker(())

    async def scenario() -> None:
        connection = await opened(shell, f"{broker.url}?jms.closeTimeout=50")
        session = connection.session("transacted")
        calls: list[Any] = [
            lambda: session.create_producer("queue://Q", timeout=0.05),
            lambda: session.create_consumer("queue://Q", timeout=0.05),
            lambda: session.create_temporary_queue(timeout=0.05),
            lambda: session.create_temporary_topic(timeout=0.05),
            lambda: session.unsubscribe("s", timeout=0.05),
        ]
        for call in calls:
            with pytest.raises(ResourceAllocationError, match="not answered within"):
                await call()
        xa = connection.session("xa")
        with pytest.raises(ResourceAllocationError, match="not answered within"):
            await xa.xa.recover(timeout=0.05)
        await connection.close()

    played(scenario())
    broker.thread.join(PATIENCE)


def test_a_commit_that_is_not_answered_in_time_says_so(shell: str) -> None:
    broker = PlayedBroker((wire.ProducerInfo,))

    async def scenario() -> None:
        connection = await opened(shell, f"{broker.url}?jms.closeTimeout=50")
        session = connection.session("transacted")
        producer = await session.create_producer("queue://Q")
        for end in (session.commit, session.rollback):
            await producer.send("x")
            with pytest.raises(ResourceAllocationError, match="not answered within"):
                await end(timeout=0.05)
        await connection.close()

    played(scenario())
    broker.thread.join(PATIENCE)
