"""Hours under a steady load on one data directory: memory, descriptors, threads and files of the broker, by the minute.

    python -m tests.soak.hours --minutes 160 [--rate 3000] [--directory out/soak/hours] [--fresh]

Persistent messages pass at a steady rate in every way that a broker keeps something for: queues over OpenWire and
STOMP, transactions that commit and roll back, a durable subscriber that comes and goes, delayed, expiring and large
messages, selectors, and each second a connection that asks and goes, with queues of its own, and one that is torn off.
Every message has a number, and each way checks that its numbers come once and in order. A further run goes on with the
same data directory and the next numbers, so that 160 minutes three times are eight hours of one store. Behind a
run that was interrupted or failed a further one begins anew, because nobody knows which numbers are on their way.

Ends with 1 when a number is missing or doubled, or when the late median of memory, descriptors, threads or files is
above the early one by more than a tenth and `SLACK`. Needs Linux for /proc.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import socket
import struct
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from spanwire._build import version_text
from spanwire.client import aio
from tests.support.broker_process import BrokerProcess, spanwire_command
from tests.support.memory import memory_mib, summary
from tests.support.stomp_socket import StompSocket

TICK_S: Final = 0.05
RATE: Final = 3000.0  # half of what the ways pass on two cores; above, transactions fall behind first
EXPIRING: Final = "expiring"
TEXT: Final = "x" * 1024
BODY: Final = TEXT.encode()
LARGE: Final = b"y" * (4 << 20)
BATCH: Final = 20  # messages of a transaction, and of an acknowledgement
ROLL_BACK_EVERY: Final = 50  # transactions
AWAY_S: Final = 60.0  # the durable subscriber is there as long as it is away
LARGE_EVERY_S: Final = 10.0
DELAY_MS: Final = 5000
LIVES_MS: Final = 1000
MAX_EARLY: Final = 100_000  # expired messages, minutes of them
LAST_S: Final = 120.0  # for what is under way at the end; expired messages are found every half minute
SLACK: Final = {"memory_mib": 8.0, "descriptors": 8.0, "threads": 2.0, "data_mib": 64.0}
MAX_GROWTH: Final = 1.1
RESET: Final = struct.pack("ii", 1, 0)  # SO_LINGER: a close resets the connection
QUEUES_GO: Final = """\
    <destinationPolicy><policyMap><policyEntries>
      <policyEntry queue="HOURS.GUEST.>" gcInactiveDestinations="true" inactiveTimeoutBeforeGC="20000"/>
    </policyEntries></policyMap></destinationPolicy>
"""
ATTRIBUTES: Final = 'schedulerSupport="true" schedulePeriodForDestinationPurge="10000"'


class Numbers:
    """The numbers of the messages that pass in one way, over all runs: each once, and in order."""

    def __init__(self, sent: int = 0, received: int = 0) -> None:
        self.sent = sent
        self.received = received

    @property
    def pair(self) -> tuple[int, int]:
        """Sent and received."""
        return self.sent, self.received

    def next(self) -> dict[str, int]:
        """The properties of the next message."""
        self.sent += 1
        return {"number": self.sent}

    def take(self, number: object) -> None:
        """A message has arrived. Raises AssertionError unless it is the next one."""
        assert number == self.received + 1, f"number {number} came after {self.received}"
        self.received += 1


class ExpiredNumbers(Numbers):
    """Numbers of messages that expire: each once. A queue is searched in parts, so a later part may come first."""

    def __init__(self, sent: int = 0, received: int = 0) -> None:
        super().__init__(sent, received)
        self._early: set[object] = set()

    def take(self, number: object) -> None:
        """A message has arrived. Raises AssertionError if it has arrived before, or too many before it are missing."""
        assert isinstance(number, int) and self.received < number <= self.sent, f"number {number} came again"
        assert number not in self._early, f"number {number} came again"
        assert len(self._early) < MAX_EARLY, f"number {self.received + 1} does not come"
        self._early.add(number)
        while self.received + 1 in self._early:
            self.received += 1
            self._early.discard(self.received)


def new_numbers(way: str, sent: int = 0, received: int = 0) -> Numbers:
    """Return the numbers of a way."""
    return (ExpiredNumbers if way == EXPIRING else Numbers)(sent, received)


class Load:
    """All ways of one run."""

    def __init__(self, broker: BrokerProcess, rate: float, ways: dict[str, Numbers]) -> None:
        self.broker: Final = broker
        self.rate: Final = rate
        self.ways: Final = ways
        self.is_over = False  # nothing is sent any more
        self.url: Final = broker.openwire_uri()

    def numbers(self, way: str) -> Numbers:
        return self.ways.setdefault(way, new_numbers(way))

    def is_done(self, way: str) -> bool:
        """All numbers of a way have arrived, and no more come."""
        numbers = self.numbers(way)
        return self.is_over and numbers.received == numbers.sent

    async def ticks(self, rate: float) -> AsyncIterator[int]:
        """How many messages are due, each twentieth of a second, until the load is over."""
        began, sent = time.monotonic(), 0
        while not self.is_over:
            due = int((time.monotonic() - began) * rate) - sent
            if due > 0:
                sent += due
                yield due
            await asyncio.sleep(TICK_S)

    async def send(self, way: str, destination: str, rate: float, body: bytes = BODY, **how: int) -> None:
        """Send the messages of one way, each twentieth of a second those that are due."""
        numbers = self.numbers(way)
        async with aio.connect(self.url) as connection, connection.session() as session:
            producer = await session.create_producer(destination, time_to_live_ms=how.get("lives_ms", 0))
            async for due in self.ticks(rate):
                for _ in range(due - 1):
                    await producer.send(body, numbers.next(), wait=False, delay_ms=how.get("delay_ms"))
                await producer.send(body, numbers.next(), delay_ms=how.get("delay_ms"))

    async def receive(self, way: str, destination: str, selector: str | None = None) -> None:
        """Receive the messages of one way, and acknowledge many at once."""
        numbers = self.numbers(way)
        async with aio.connect(self.url) as connection, connection.session("client") as session:
            await self._take(await session.create_consumer(destination, selector), numbers, lambda: self.is_done(way))

    async def _take(self, consumer: aio.Consumer, numbers: Numbers, is_done: Callable[[], bool]) -> None:
        last, unacknowledged = None, 0
        while not is_done():
            message = await consumer.receive(0.5)
            if message is not None:
                numbers.take(message.properties["number"])
                last, unacknowledged = message, unacknowledged + 1
            if last is not None and (message is None or unacknowledged >= BATCH):
                await last.acknowledge()
                last, unacknowledged = None, 0
        if last is not None:
            await last.acknowledge()

    async def transact(self, way: str, source: str, target: str) -> None:
        """Move messages in transactions; some are rolled back, and their messages come again."""
        round_ = 0
        async with aio.connect(self.url) as connection, connection.session("transacted") as session:
            consumer = await session.create_consumer(source)
            producer = await session.create_producer(target)
            while not self.is_done(way):
                taken = 0
                while taken < BATCH and (message := await consumer.receive(0.2)) is not None:
                    await producer.send(message)
                    taken += 1
                round_ += 1
                if round_ % ROLL_BACK_EVERY:
                    await session.commit()
                else:
                    await session.rollback()

    async def prepare(self, way: str, topic: str) -> None:
        """Make the durable subscription, so that it is there before the first message."""
        async with aio.connect(f"{self.url}?jms.clientID=hours-{way}") as connection, connection.session() as session:
            await session.create_durable_subscriber(topic, way)

    async def subscribe(self, way: str, topic: str) -> None:
        """A durable subscriber that is there for a while, and away for a while."""
        numbers = self.numbers(way)
        while not self.is_done(way):
            url, until = f"{self.url}?jms.clientID=hours-{way}", time.monotonic() + AWAY_S

            def leaves(until: float = until) -> bool:
                return self.is_done(way) or (not self.is_over and time.monotonic() > until)

            async with aio.connect(url) as connection, connection.session("client") as session:
                await self._take(await session.create_durable_subscriber(topic, way), numbers, leaves)
            until = time.monotonic() + AWAY_S
            while time.monotonic() < until and not self.is_over:
                await asyncio.sleep(TICK_S)

    def stomp(self, way: str, queue: str) -> None:
        """Send and receive over STOMP, one message at a time with receipts, on a thread."""
        numbers = self.numbers(way)
        began, first = time.monotonic(), numbers.sent
        with StompSocket(self.broker.stomp_port) as near:
            near.connect("1.2")
            near.type(f"SUBSCRIBE\nid:1\ndestination:/queue/{queue}\nack:client-individual\n\n\0")
            while not self.is_over:
                if numbers.sent - first > (time.monotonic() - began) * self.rate * 0.05:
                    time.sleep(TICK_S)
                    continue
                number = numbers.next()["number"]
                near.type(f"SEND\ndestination:/queue/{queue}\npersistent:true\nnumber:{number}\n\n{TEXT}\0")
                message = near.receive()
                assert message is not None
                numbers.take(int(message.headers["number"]))
                near.type(f"ACK\nid:{message.headers['ack']}\n\n\0")

    async def guests(self, way: str) -> None:
        """Each second a connection that asks, browses, uses a queue of its own, and goes; and one that is torn off."""
        numbers = self.numbers(way)
        async for _ in self.ticks(1):
            number = numbers.next()["number"]
            async with aio.connect(self.url) as connection, connection.session() as session:
                own = f"queue://HOURS.GUEST.{number % 1000}"
                producer = await session.create_producer(own)
                await producer.send("hello", {"number": number})
                assert [one.properties["number"] async for one in session.create_browser(own)] == [number]
                async with await session.create_consumer(own) as consumer:
                    message = await consumer.receive(LAST_S)
                    assert message is not None
                    numbers.take(message.properties["number"])
                replies = await session.create_temporary_queue()
                await producer.send("asked", {"number": number}, reply_to=replies)
                asked = await (await session.create_consumer(own, selector=f"number = {number}")).receive(LAST_S)
                assert asked is not None
                await session.reply(asked, "answered")
                assert await (await session.create_consumer(replies)).receive(LAST_S) is not None
            await asyncio.to_thread(self._tear, number)

    def _tear(self, number: int) -> None:
        with socket.create_connection(("127.0.0.1", self.broker.stomp_port)) as torn:
            torn.sendall(
                b"CONNECT\naccept-version:1.2\nhost:x\n\n\0SUBSCRIBE\nid:1\ndestination:/topic/HOURS.TORN\n\n\0"
            )
            if number % 2:
                torn.recv(4096)
            torn.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)

    def all(self) -> list[Awaitable[None]]:
        """The ways, each with its share of the rate."""
        rate = self.rate
        dead = "queue://ActiveMQ.DLQ"
        return [
            self.send("queue", "queue://HOURS.QUEUE", rate * 0.4),
            self.receive("queue", "queue://HOURS.QUEUE"),
            self.send("selected", "queue://HOURS.SELECTED", rate * 0.1),
            self.receive("selected", "queue://HOURS.SELECTED", "number > 0"),
            self.send("moved", "queue://HOURS.FROM", rate * 0.2),
            self.transact("moved", "queue://HOURS.FROM", "queue://HOURS.TO"),
            self.receive("moved", "queue://HOURS.TO"),
            self.send("durable", "topic://HOURS.TOPIC", rate * 0.2),
            self.subscribe("durable", "topic://HOURS.TOPIC"),
            self.send("delayed", "queue://HOURS.DELAYED", rate * 0.02, delay_ms=DELAY_MS),
            self.receive("delayed", "queue://HOURS.DELAYED"),
            self.send(EXPIRING, "queue://HOURS.EXPIRING", rate * 0.03, lives_ms=LIVES_MS),
            self.receive(EXPIRING, dead),
            self.send("large", "queue://HOURS.LARGE", 1 / LARGE_EVERY_S, LARGE),
            self.receive("large", "queue://HOURS.LARGE"),
            self.guests("guests"),
            asyncio.to_thread(self.stomp, "stomp", "HOURS.STOMP"),
        ]


def measure(minute: float, broker: BrokerProcess, ways: dict[str, Numbers]) -> dict[str, float]:
    """All figures of one moment."""
    pid = broker.pid
    fields = Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(")")[2].split()
    files = [file.stat().st_size for file in (broker.directory / "data").rglob("*") if file.is_file()]
    return {
        "minute": round(minute, 2),
        "memory_mib": memory_mib(pid),
        "descriptors": len(os.listdir(f"/proc/{pid}/fd")),
        "threads": int(fields[17]),
        "data_mib": round(sum(files) / 2**20, 1),
        "processor_s": (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK"),
        "received": sum(numbers.received for numbers in ways.values()),
    }


async def run(load: Load, minutes: float, write: Callable[[dict[str, float]], None], before: float) -> None:
    """Load and measure for so long, then wait for what is under way. Raises what a way raises."""
    await load.prepare("durable", "topic://HOURS.TOPIC")
    began = time.monotonic()

    async def watch() -> None:
        rows = 0
        while (passed := (time.monotonic() - began) / 60) < minutes:
            write(measure(before + passed, load.broker, load.ways))
            rows += 1
            await asyncio.sleep(max(0.0, began + rows * 60 - time.monotonic()))
        load.is_over = True
        end = time.monotonic() + LAST_S
        while time.monotonic() < end and not all(load.is_done(way) for way in load.ways):
            await asyncio.sleep(TICK_S)
        missing = {way: one.pair for way, one in load.ways.items() if one.sent != one.received}
        assert not missing, f"missing after {LAST_S:.0f} s: {missing}"

    async with asyncio.TaskGroup() as group:
        for way in [watch(), *load.all()]:
            group.create_task(_run(load, way))


async def _run(load: Load, way: Awaitable[None]) -> None:
    try:
        await way
    except BaseException:
        load.is_over = True  # a thread cannot be cancelled
        raise


def read_numbers(state: Path) -> dict[str, list[int]]:
    """Return the numbers of the last run; none behind a run that did not come to its end."""
    text = state.read_text("ascii") if state.exists() else ""
    return json.loads(text) if text else {}


def ends_with_us(directory: Path) -> list[str]:
    """Return the command of a broker that the kernel kills when this process ends in whatever way."""
    return ["setpriv", "--pdeathsig", "KILL", *spanwire_command()(directory)]


def growth(figures: dict[str, dict[str, float]]) -> list[str]:
    """What has grown by more than a tenth and its slack, from the early to the late median."""
    return [
        f"{name} grew from {figures[name]['early']} to {figures[name]['late']}"
        for name, slack in SLACK.items()
        if figures[name]["late"] > figures[name]["early"] * MAX_GROWTH + slack
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description="Hours under a steady load.")
    parser.add_argument("--minutes", type=float, default=160)
    parser.add_argument("--rate", type=float, default=RATE, help="messages a second, all ways together")
    parser.add_argument("--directory", type=Path, default=Path("out/soak/hours"))
    parser.add_argument("--fresh", action="store_true", help="do not go on where the last run ended")
    options = parser.parse_args()
    directory: Path = options.directory.absolute()
    state, history = directory / "numbers.json", directory / "minutes.jsonl"
    kept = {} if options.fresh else read_numbers(state)
    if not kept:
        sys.stdout.write(f"begins anew in {directory}\n")
        shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True, exist_ok=True)
    state.write_text("", "ascii")  # until the end, where all that was sent has come
    ways = {way: new_numbers(way, *numbers) for way, numbers in kept.items()}
    rows: list[dict[str, float]] = (
        [json.loads(line) for line in history.read_text("ascii").splitlines()] if kept else []
    )
    before = rows[-1]["minute"] + 1 if rows else 0.0

    def write(row: dict[str, float]) -> None:
        rows.append(row)
        line = json.dumps(row)
        with history.open("a" if len(rows) > 1 else "w", encoding="ascii") as file:
            file.write(line + "\n")
        sys.stdout.write(line + "\n")
        sys.stdout.flush()

    with BrokerProcess(ends_with_us, directory / "broker", inside=QUEUES_GO, attributes=ATTRIBUTES) as broker:
        load = Load(broker, options.rate, ways)
        asyncio.run(run(load, options.minutes, write, before))
        broker.stop()
    state.write_text(json.dumps({way: numbers.pair for way, numbers in ways.items()}), "ascii")
    figures = summary(rows)
    found = {
        "build": version_text(), "minutes": round(rows[-1]["minute"], 1), "rate": options.rate,
        "received": {way: numbers.received for way, numbers in ways.items()}, "figures": figures,
        "grown": growth(figures),
    }  # fmt: skip
    sys.stdout.write(json.dumps(found) + "\n")
    return 1 if found["grown"] else 0


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        sys.exit(main())
