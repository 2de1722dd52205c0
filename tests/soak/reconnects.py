"""A thousand clients lose their broker at once, and come back when it does: how spread out, and whether all of them.

    python -m tests.soak.reconnects [--clients 1000] [--down 3] [--options maxReconnectDelay=30000]

Prints one line of JSON. The broker is a child process that is killed and started again on the same port and data. Each
client has a connection, a consumer that holds a persistent message it has not acknowledged, and a producer; after the
restart each sends another message. It ends with 1 when a client does not come back or does not get exactly its own two
messages, and when more than a quarter of the clients comes back within a tenth of a second.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import resource
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any, Final

from spanwire._build import version_text
from spanwire.client import aio
from tests.support.broker_process import BrokerProcess, spanwire_command

AT_ONCE: Final = 50  # clients that log in at the same time in the beginning
PATIENCE: Final = 180.0  # seconds for each step of all clients
SLICE: Final = 0.1  # seconds
MAX_SHARE: Final = 0.25  # of the clients within one slice
FILES: Final = 200  # open files beside the sockets


class Comebacks(logging.Handler):
    """When clients were let in again, by what they log."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.times: list[float] = []

    def emit(self, record: logging.LogRecord) -> None:
        """One line of a client."""
        if record.getMessage().startswith("Successfully reconnected"):
            self.times.append(time.monotonic())


class Door:
    """When sockets are opened."""

    def __init__(self) -> None:
        self.times: list[float] = []
        loop = asyncio.get_running_loop()
        opens = loop.create_connection

        async def counted(*said: Any, **named: Any) -> Any:
            self.times.append(time.monotonic())
            return await opens(*said, **named)

        loop.create_connection = counted  # type: ignore[method-assign]


class Client:
    """One application with a connection of its own."""

    def __init__(self, connection: aio.Connection, consumer: aio.Consumer, producer: aio.Producer) -> None:
        self._connection: Final = connection
        self._consumer: Final = consumer
        self._producer: Final = producer
        self.received: list[object] = []

    @classmethod
    async def opened(cls, url: str, number: int) -> Client:
        """Log in, and have a message that is not acknowledged."""
        connection = await aio.connect(url)
        session = connection.session("client")
        name = f"queue://SOAK.{number}"
        client = cls(connection, await session.create_consumer(name), await session.create_producer(name))
        await client._producer.send("before")
        return client

    async def goes_on(self) -> None:
        """Send another message, and take both."""
        await self._producer.send("after")
        while len(self.received) < 2 and (message := await self._consumer.receive(PATIENCE)) is not None:
            self.received.append(message.body)
            await message.acknowledge()

    async def leave(self) -> None:
        """Look whether there is more than there should be, and go."""
        while (message := self._consumer.receive_no_wait()) is not None:
            self.received.append(message.body)
        await self._connection.close()


async def opened(url: str, count: int) -> list[Client]:
    """All clients."""
    gate = asyncio.Semaphore(AT_ONCE)

    async def one(number: int) -> Client:
        async with gate:
            return await Client.opened(url, number)

    return list(await asyncio.gather(*[one(number) for number in range(count)]))


async def measured(broker: BrokerProcess, options: argparse.Namespace, comebacks: Comebacks) -> dict[str, object]:
    """Open, kill, restart, look."""
    count: int = options.clients
    url = f"failover:({broker.openwire_uri()})?{options.options}"
    door = Door()
    clients = await opened(url, count)
    comebacks.times.clear()
    await asyncio.to_thread(broker.kill)
    await asyncio.sleep(options.down)
    begun = time.monotonic()
    await asyncio.to_thread(broker.start)
    started = time.monotonic()
    late: list[int] = []
    try:
        async with asyncio.timeout(PATIENCE):
            await asyncio.gather(*[client.goes_on() for client in clients])
    except TimeoutError:
        late = [number for number, client in enumerate(clients) if len(client.received) < 2]
    finished = time.monotonic()
    await asyncio.gather(*[client.leave() for client in clients])
    wrong = [
        number for number, client in enumerate(clients) if sorted(map(str, client.received)) != ["after", "before"]
    ]
    after = sorted(moment - started for moment in comebacks.times)
    knocks = Counter(int((moment - begun) / SLICE) for moment in door.times if moment >= begun)
    busiest = max(knocks.values(), default=0)
    logins = Counter(int(moment / SLICE) for moment in after)
    return {
        "build": version_text(),
        "clients": count,
        "down_seconds": options.down,
        "reconnects": len(after),
        "seconds_after_the_start": {
            name: round(after[min(len(after) - 1, int(share * len(after)))], 2)
            for name, share in (("first", 0.0), ("10 %", 0.1), ("median", 0.5), ("90 %", 0.9), ("last", 1.0))
            if after
        },
        "knocks": sum(knocks.values()),
        "most_knocks_within_a_tenth_of_a_second": busiest,
        "most_logins_within_a_tenth_of_a_second": max(logins.values(), default=0),
        "all_went_on_after_seconds": round(finished - started, 2),
        "not_back": late[:20],
        "lost_or_doubled": wrong[:20],
        "is_good": not late and not wrong and busiest <= MAX_SHARE * count,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description="Clients that come back after a restart of their broker.")
    parser.add_argument("--clients", type=int, default=1_000)
    parser.add_argument("--down", type=float, default=3.0, help="seconds between the kill and the start")
    parser.add_argument("--options", default="maxReconnectDelay=30000", help="of failover:")
    options = parser.parse_args()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 2 * options.clients + FILES)), hard))
    comebacks = Comebacks()
    logger = logging.getLogger("spanwire.client.protocol.transport.failover")
    logger.setLevel(logging.INFO)
    logger.propagate = False
    logger.addHandler(comebacks)
    logging.getLogger("spanwire.client.protocol.connection").setLevel(logging.ERROR)
    with tempfile.TemporaryDirectory() as folder, BrokerProcess(spanwire_command(), Path(folder)) as broker:
        found = asyncio.run(measured(broker, options, comebacks))
    sys.stdout.write(json.dumps(found) + "\n")
    return 0 if found["is_good"] else 1


if __name__ == "__main__":
    sys.exit(main())
