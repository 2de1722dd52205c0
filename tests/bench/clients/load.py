"""How fast the Python client is: one-way sends of 1 KiB and their receipt, in one process and in two.

    python -m tests.bench.clients.load [--messages 200000] [--shell aio|blocking] [--mode auto|dups_ok|client]
                                      [--url tcp://127.0.0.1:61616]

Starts a Spanwire of its own, of the same build, unless ``--url`` names a broker. Every run is checked for loss, doubles
and order. The CPU time is the client's own, per message; one over that is what a
processor of its own would allow.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from multiprocessing.connection import Connection as Pipe
from pathlib import Path
from typing import Final

from spanwire._build import version_text
from spanwire.client import AcknowledgeMode, aio, blocking
from tests.support.broker_process import BrokerProcess, spanwire_command

BODY: Final = b"x" * 1024
PATIENCE: Final = 30.0
WARM_UP: Final = 2_000

Numbers = dict[str, object]


def cpu_seconds() -> float:
    """User and system time of this process."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


class Tally:
    """Counts what arrives and looks at the order."""

    def __init__(self) -> None:
        self.count = 0
        self.disordered = 0
        self._last = 0

    def take(self, sequence: int) -> None:
        """One message, by the number that its producer gave it."""
        self.count += 1
        if sequence != self._last + 1:
            self.disordered += 1
        self._last = sequence


class Stopwatch:
    """Time and CPU from the first message to the last; what comes before and after is nobody's speed."""

    def __init__(self) -> None:
        self._begun = (0.0, 0.0)
        self._ended: tuple[float, float] | None = None

    def start(self) -> None:
        """Everything is connected."""
        self._begun = (time.perf_counter(), cpu_seconds())

    def stop(self) -> None:
        """The broker has taken the last message, or it is here."""
        self._ended = (time.perf_counter(), cpu_seconds())

    def numbers(self, count: int) -> Numbers:
        """Rate and CPU."""
        if self._ended is None:
            self.stop()
        assert self._ended is not None
        seconds, used = self._ended[0] - self._begun[0], self._ended[1] - self._begun[1]
        return {"per_second": round(count / seconds), "cpu_us": round(1e6 * used / count, 2)}


def sequence_of(octets: bytes) -> int:
    """The producer's sequence in the octets of a message id."""
    return int.from_bytes(octets[-16:-8], "big")


async def send_aio(url: str, queue: str, count: int, watch: Stopwatch) -> None:
    """One-way sends from a loop; the last one waits, so that the broker has everything."""
    async with aio.connect(url) as connection, connection.session() as session:
        producer = await session.create_producer(queue, persistent=False)
        send = producer.send
        watch.start()
        for _ in range(count - 1):
            await send(BODY)
        await send(BODY, wait=True)
        watch.stop()


async def receive_aio(url: str, queue: str, count: int, mode: AcknowledgeMode, watch: Stopwatch) -> Tally:
    """Receive everything."""
    tally = Tally()
    async with aio.connect(url) as connection, connection.session(mode) as session:
        watch.start()
        consumer = await session.create_consumer(queue)
        while tally.count < count and (message := await consumer.receive(PATIENCE)) is not None:
            tally.take(sequence_of(message.id_octets))
            if mode == "client" and tally.count % 100 == 0:
                await message.acknowledge()
        watch.stop()
    return tally


async def both_aio(url: str, queue: str, count: int, mode: AcknowledgeMode) -> Tally:
    """A sending and a receiving task in one loop."""
    receiving = asyncio.create_task(receive_aio(url, queue, count, mode, Stopwatch()))
    await send_aio(url, queue, count, Stopwatch())
    return await receiving


def send_blocking(url: str, queue: str, count: int, watch: Stopwatch) -> None:
    """The same from an ordinary thread."""
    with blocking.connect(url) as connection, connection.session() as session:
        producer = session.create_producer(queue, persistent=False)
        watch.start()
        for _ in range(count - 1):
            producer.send(BODY)
        producer.send(BODY, wait=True)
        watch.stop()


def receive_blocking(url: str, queue: str, count: int, mode: AcknowledgeMode, watch: Stopwatch) -> Tally:
    """The same from an ordinary thread."""
    tally = Tally()
    with blocking.connect(url) as connection, connection.session(mode) as session:
        watch.start()
        consumer = session.create_consumer(queue)
        while tally.count < count and (message := consumer.receive(PATIENCE)) is not None:
            tally.take(sequence_of(message.id_octets))
            if mode == "client" and tally.count % 100 == 0:
                message.acknowledge()
        watch.stop()
    return tally


def send(shell: str, url: str, queue: str, count: int, watch: Stopwatch) -> None:
    """Send with one of the shells."""
    if shell == "aio":
        asyncio.run(send_aio(url, queue, count, watch))
    else:
        send_blocking(url, queue, count, watch)


def receive(shell: str, url: str, queue: str, count: int, mode: AcknowledgeMode, watch: Stopwatch) -> Tally:
    """Receive with one of the shells."""
    if shell == "aio":
        return asyncio.run(receive_aio(url, queue, count, mode, watch))
    return receive_blocking(url, queue, count, mode, watch)


def timed(work: Callable[[Stopwatch], object], count: int) -> Numbers:
    """Rate and CPU of one piece of work, all of it unless it starts and stops the watch."""
    watch = Stopwatch()
    watch.start()
    work(watch)
    return watch.numbers(count)


def child(pipe: Pipe, shell: str, url: str, queue: str, count: int, mode: AcknowledgeMode) -> None:
    """The receiving half of two processes."""
    tally = Tally()

    def work(watch: Stopwatch) -> None:
        nonlocal tally
        tally = receive(shell, url, queue, count, mode, watch)

    numbers = timed(work, count)
    pipe.send({**numbers, "received": tally.count, "disordered": tally.disordered})


def in_two(shell: str, url: str, queue: str, count: int, mode: AcknowledgeMode) -> Numbers:
    """A sending and a receiving process at once."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    receiver = context.Process(target=child, args=(theirs, shell, url, queue, count, mode))
    receiver.start()
    sent = timed(lambda watch: send(shell, url, queue, count, watch), count)
    received: Numbers = ours.recv()
    receiver.join()
    return {"send": sent, "receive": received}


def in_one(shell: str, url: str, queue: str, count: int, mode: AcknowledgeMode) -> Numbers:
    """First everything out, then everything in; with asyncio also both at once."""
    tally = Tally()

    def take(watch: Stopwatch) -> None:
        nonlocal tally
        tally = receive(shell, url, queue, count, mode, watch)

    sent = timed(lambda watch: send(shell, url, queue, count, watch), count)
    found: Numbers = {"send": sent, "receive": timed(take, count)}
    found |= {"received": tally.count, "disordered": tally.disordered}
    if shell == "aio":

        def at_once(_: Stopwatch) -> None:
            nonlocal tally
            tally = asyncio.run(both_aio(url, queue, count, mode))

        numbers = timed(at_once, count)
        found["both"] = {**numbers, "received": tally.count, "disordered": tally.disordered}
    return found


def measure(shell: str, url: str, count: int, mode: AcknowledgeMode) -> Numbers:
    """Everything about one shell."""
    queue = f"queue://BENCH.CLIENT.{shell.upper()}"
    send(shell, url, queue, WARM_UP, Stopwatch())
    receive(shell, url, queue, WARM_UP, mode, Stopwatch())
    return {
        "build": version_text(),
        "shell": shell,
        "mode": mode,
        "messages": count,
        "one_process": in_one(shell, url, queue, count, mode),
        "two_processes": in_two(shell, url, queue, count, mode),
    }


def faults_of(found: object, count: int) -> list[str]:
    """What was lost or came in another order, anywhere in the numbers."""
    faults: list[str] = []
    if isinstance(found, dict):
        if found.get("received", count) != count:
            faults.append(f"{found['received']} of {count} messages arrived")
        if found.get("disordered"):
            faults.append(f"{found['disordered']} messages are out of order")
        for value in found.values():
            faults += faults_of(value, count)
    return faults


def main() -> int:
    parser = argparse.ArgumentParser(description="Rate and CPU of the Python client.")
    parser.add_argument("--messages", type=int, default=200_000)
    parser.add_argument("--shell", choices=("aio", "blocking"), action="append")
    parser.add_argument("--mode", choices=("auto", "dups_ok", "client"), default="auto")
    parser.add_argument("--url", help="a broker that runs already")
    options = parser.parse_args()
    for shell in options.shell or ("aio", "blocking"):
        if options.url:
            found = measure(shell, options.url, options.messages, options.mode)
        else:
            with tempfile.TemporaryDirectory() as folder, BrokerProcess(spanwire_command(), Path(folder)) as broker:
                found = measure(shell, broker.openwire_uri(), options.messages, options.mode)
        sys.stdout.write(json.dumps(found, indent=1) + "\n")
        faults = faults_of(found, options.messages)
        if faults:
            sys.stderr.write(f"client_load: {', '.join(faults)}\n")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
