"""Peers that are no broker, a silent one, TLS, a fork, and a process that has no time: one line and no waiting."""

from __future__ import annotations

import asyncio
import os
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import pytest

from spanwire.client import aio, blocking
from spanwire.model.errors import ConfigurationError, IllegalStateError, JmsError, ResourceAllocationError
from spanwire.protocols.openwire.codec import _marshallers as wire
from spanwire.protocols.openwire.codec.codec import FrameDecoder, FrameEncoder
from spanwire.protocols.openwire.codec.schema import Throwable
from spanwire.protocols.openwire.codec.wire_format import WireFormatPreferences, negotiate, wire_format_info
from tests.support.broker_process import BrokerProcess
from tests.support.client_shells import SHELLS, opened

DEADLINE_MS: Final = 300
NEVER_MS: Final = 60_000  # the answer comes long before this
LARGE: Final = 16 * 1024 * 1024  # more than the buffers of two sockets hold
GRACE: Final = 30.0  # seconds beyond the deadline that a busy machine may take


def refused(shell: str, url: str) -> JmsError:
    """What connecting raises, which is one line."""

    async def scenario() -> JmsError:
        with pytest.raises(JmsError) as raised:
            await opened(shell, url, "u", "c4n4ry-pa55word")
        return raised.value

    error = asyncio.run(asyncio.wait_for(scenario(), 2 * GRACE))
    assert str(error).isprintable()
    assert "c4n4ry" not in str(error)
    return error


@pytest.fixture(params=SHELLS)
def shell(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


def url_of(listener: socket.socket, scheme: str = "tcp", deadline_ms: int = DEADLINE_MS) -> str:
    return f"{scheme}://127.0.0.1:{listener.getsockname()[1]}?connectionTimeout={deadline_ms}"


@pytest.mark.parametrize("scheme", ["tcp", "ssl"])
def test_a_peer_that_accepts_and_stays_silent_is_given_up_at_the_deadline(
    listener: socket.socket, shell: str, scheme: str
) -> None:
    started = time.monotonic()
    error = refused(shell, url_of(listener, scheme))
    assert DEADLINE_MS / 1000 * 0.9 <= time.monotonic() - started < DEADLINE_MS / 1000 + GRACE
    assert f"{scheme}://127.0.0.1" in str(error)


def test_a_broker_that_shakes_hands_and_then_says_nothing_is_given_up(listener: socket.socket, shell: str) -> None:
    def play() -> None:
        channel, _ = listener.accept()
        with channel:
            channel.sendall(FrameEncoder().encode(wire_format_info(WireFormatPreferences())))
            while channel.recv(65536):
                pass

    broker = threading.Thread(target=play, daemon=True)
    broker.start()
    # The hands are shaken within the time even on a slow machine.
    assert "no login within 2 s" in str(refused(shell, url_of(listener, deadline_ms=2_000)))
    broker.join(GRACE)
    assert not broker.is_alive(), "the socket is still open"


@pytest.mark.parametrize("answer", [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\xff" * 100])
def test_whoever_speaks_something_else_is_told_at_once(listener: socket.socket, shell: str, answer: bytes) -> None:
    def play() -> None:
        channel, _ = listener.accept()
        with channel:
            channel.recv(65536)
            channel.sendall(answer)

    threading.Thread(target=play, daemon=True).start()
    error = refused(shell, url_of(listener, deadline_ms=NEVER_MS))
    assert "OpenWire" in str(error) or "ended" in str(error)


def test_nobody_at_the_port_is_one_line(listener: socket.socket, shell: str) -> None:
    url = url_of(listener)
    listener.close()
    assert "is the broker started?" in str(refused(shell, url))


def test_a_class_name_from_a_real_socket_is_text(listener: socket.socket, shell: str) -> None:
    def play() -> None:
        channel, _ = listener.accept()
        decoder = FrameDecoder(pass_messages=False)
        encoder = FrameEncoder()
        with channel:
            channel.sendall(encoder.encode(wire_format_info(WireFormatPreferences())))
            while True:
                commands = decoder.feed(channel.recv(65536))
                for command in commands:
                    if isinstance(command, wire.WireFormatInfo):
                        decoder.negotiated(negotiate(WireFormatPreferences(), command))
                        commands += decoder.feed(b"")
                    if isinstance(command, wire.ConnectionInfo):
                        thrown = Throwable("org.x.ClassPathXmlApplicationContext", "http://192.0.2.1/x.xml")
                        channel.sendall(
                            encoder.encode(wire.ExceptionResponse(correlation_id=command.command_id, exception=thrown))
                        )
                        return

    threading.Thread(target=play, daemon=True).start()
    assert "ClassPathXmlApplicationContext: http" in str(refused(shell, url_of(listener, deadline_ms=NEVER_MS)))


def test_a_broker_that_stops_reading_ends_sends_and_close_in_their_time(listener: socket.socket, shell: str) -> None:
    is_over = threading.Event()
    url = f"tcp://127.0.0.1:{listener.getsockname()[1]}"
    broker = threading.Thread(target=reads_up_to_the_producer, args=(listener, is_over), daemon=True)
    broker.start()

    async def scenario() -> None:
        connection = await opened(shell, f"{url}?jms.sendTimeout=200&jms.closeTimeout=200")
        session = connection.session()
        producer = await session.create_producer("queue://Q")
        for told in ("has not answered within 0.2 s", "has been full for 0.2 s"):  # the second is not kept
            with pytest.raises(ResourceAllocationError, match=told):
                await producer.send(b"x" * LARGE, persistent=False)
        started = time.monotonic()
        await connection.close()
        assert time.monotonic() - started < GRACE

    try:
        asyncio.run(asyncio.wait_for(scenario(), 2 * GRACE))
    finally:
        is_over.set()
        broker.join(GRACE)


def reads_up_to_the_producer(listener: socket.socket, is_over: threading.Event) -> None:
    """A broker that answers a login and a producer, and then has no time for anything."""
    channel, _ = listener.accept()
    decoder = FrameDecoder(pass_messages=False)
    encoder = FrameEncoder()
    with channel:
        channel.sendall(encoder.encode(wire_format_info(WireFormatPreferences())))
        has_producer = False
        while not has_producer:
            commands = decoder.feed(channel.recv(65536))
            while commands:
                for command in commands:
                    if isinstance(command, wire.WireFormatInfo):
                        found = negotiate(WireFormatPreferences(), command)
                        decoder.negotiated(found)
                        encoder = FrameEncoder(found)
                    elif isinstance(command, wire.BaseCommand) and command.response_required:
                        channel.sendall(encoder.encode(wire.Response(command.command_id)))
                    has_producer = has_producer or isinstance(command, wire.ProducerInfo)
                commands = decoder.feed(b"")
        is_over.wait(60)


def test_a_name_that_no_host_can_have_is_one_line(shell: str) -> None:
    assert "label too long" in str(refused(shell, f"tcp://{'a' * 64}:61616"))


def test_a_bad_option_names_the_closest(shell: str) -> None:
    connect = aio.connect if shell == "aio" else blocking.connect
    with pytest.raises(ConfigurationError, match=r"did you mean jms\.useAsyncSend"):
        connect("tcp://127.0.0.1:1?jms.useAsynSend=true")


@pytest.mark.parametrize("number", [0, 1])
def test_the_programs_of_the_page_run(spanwire: BrokerProcess, number: int) -> None:
    page = (Path(__file__).resolve().parents[2] / "docs/guides/client/first-program.md").read_text("utf-8")
    program = re.findall(r"```python\n(.*?)```", page, re.DOTALL)[number]
    program = program.replace("tcp://localhost:61616", spanwire.openwire_uri())
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout, done.stderr) == ("one book north\n", "")


def test_after_a_fork_every_handle_raises(spanwire: BrokerProcess) -> None:
    with blocking.connect(spanwire.openwire_uri()) as connection, connection.session() as session:
        producer, consumer = session.create_producer("queue://FORK"), session.create_consumer("queue://FORK")
        calls = [
            lambda: producer.send("x"),
            lambda: consumer.receive(1),
            consumer.receive_no_wait,
            connection.session,
            session.create_temporary_queue,
            session.recover,
            producer.close,
            consumer.close,
            session.close,
            connection.close,
        ]
        assert in_child(calls) == len(calls)
        producer.send("x")
        message = consumer.receive(5)
        assert message is not None


def test_after_a_fork_every_handle_of_the_loop_raises(spanwire: BrokerProcess) -> None:
    async def scenario() -> int:
        async with aio.connect(spanwire.openwire_uri()) as connection, connection.session() as session:
            producer, consumer = await session.create_producer("queue://F"), await session.create_consumer("queue://F")

            def driven(coroutine: object) -> None:
                assert asyncio.iscoroutine(coroutine)
                coroutine.send(None)

            calls = [
                lambda: driven(producer.send("x")),
                lambda: driven(consumer.receive(1)),
                connection.session,
                lambda: driven(session.commit()),
                lambda: driven(session.close()),
                lambda: driven(connection.close()),
            ]
            found = await asyncio.to_thread(in_child, calls)
            assert found == len(calls)
            return found

    assert asyncio.run(scenario())


def in_child(calls: Sequence[object]) -> int:
    """How many of the calls raise `IllegalStateError` in a child process."""
    child = os.fork()
    if child == 0:
        count = 0
        for call in calls:
            assert callable(call)
            try:
                call()
            except IllegalStateError:
                count += 1
            except BaseException:
                continue
        os._exit(count)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status)


def test_a_busy_application_stays_connected(spanwire: BrokerProcess) -> None:
    uri = spanwire.openwire_uri(
        {"wireFormat.maxInactivityDuration": "1500", "wireFormat.maxInactivityDurationInitalDelay": "1"}
    )
    with blocking.connect(uri) as connection, connection.session() as session:
        producer = session.create_producer("queue://BUSY")
        threading.Event().wait(4.5)  # three times the inactivity that the broker grants
        producer.send("x")


def test_threads_share_a_connection(spanwire: BrokerProcess) -> None:
    count, threads = 200, 4
    with blocking.connect(spanwire.openwire_uri()) as connection:
        received: list[object] = []

        def work(name: int) -> None:
            with connection.session() as session:
                producer = session.create_producer(f"queue://SHARED.{name}")
                consumer = session.create_consumer(f"queue://SHARED.{name}")
                for number in range(count):
                    producer.send(f"{name} {number}", wait=number % 7 == 0)
                    message = consumer.receive(GRACE)
                    assert message is not None
                    received.append(message.body)

        workers = [threading.Thread(target=work, args=(name,)) for name in range(threads)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join(60)
            assert not worker.is_alive()
        for name in range(threads):
            mine = [body for body in received if str(body).startswith(f"{name} ")]
            assert mine == [f"{name} {number}" for number in range(count)]


def test_threads_that_request_at_once_share_one_queue_for_replies(spanwire: BrokerProcess) -> None:
    threads = 4
    together = threading.Barrier(threads)
    found: list[object] = []
    with blocking.connect(spanwire.openwire_uri()) as connection:

        def work() -> None:
            together.wait(GRACE)
            found.append(connection.requestor().reply_queue())

        workers = [threading.Thread(target=work) for _ in range(threads)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join(GRACE)
    assert len(found) == threads
    assert len(set(found)) == 1


def test_one_connection_has_one_small_thread_and_leaves_none(spanwire: BrokerProcess) -> None:
    before = set(threading.enumerate())
    with blocking.connect(spanwire.openwire_uri()):
        (keeper,) = set(threading.enumerate()) - before
        assert keeper.name == "spanwire-client-keeper"
    keeper.join(GRACE)
    assert not keeper.is_alive()
