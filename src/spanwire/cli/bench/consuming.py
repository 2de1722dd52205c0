"""The process of the consumers: counts arrivals, and the times since the schedule of each message."""

from __future__ import annotations

import asyncio
import resource
import time
from collections.abc import Callable
from multiprocessing.connection import Connection as Pipe
from typing import Final

from spanwire.cli.bench.clients import Arrival, Receiver, open_client
from spanwire.cli.bench.latencies import Latencies
from spanwire.cli.bench.marks import Marks
from spanwire.cli.bench.plan import MAX_MARK_BYTES, STAMP, Plan
from spanwire.model.errors import SpanwireError

LOOK_S: Final = 0.1  # seconds between two looks for the end, and at what the parent says
NS: Final = 1_000_000_000


class Arrivals:
    """Messages received by the consumers of a run.

    Each consumer of a topic has own marks; the consumers of a queue share the marks.
    """

    def __init__(self, plan: Plan) -> None:
        self._plan: Final = plan
        self.marks: Final = [Marks() for _ in range(plan.copies)]
        self.interval: Final = Latencies()  # since the last row
        self.interval_count = 0
        self.redelivered = 0
        self.foreign = 0  # of another run, or no message of the bench
        self.warm_ns = 0
        self.last_ns = 0

    def take(self, consumer: int, message: Arrival, now_ns: int) -> None:
        """Count a message."""
        body = message.body
        if not isinstance(body, bytes) or len(body) < STAMP.size:
            self.foreign += 1
            return
        run_id, producer, sequence, due_ns = STAMP.unpack_from(body)
        if run_id != self._plan.run_id or producer >= self._plan.producers:
            self.foreign += 1
            return
        self.redelivered += message.redelivered
        self.marks[consumer if self._plan.is_topic else 0].take(producer, sequence)
        self.interval_count += 1
        self.last_ns = now_ns
        if due_ns >= self.warm_ns:
            self.interval.add((now_ns - due_ns) // 1000)

    @property
    def received(self) -> int:
        """The arrived messages, each once for a consumer."""
        return sum(marks.received for marks in self.marks)

    @property
    def duplicates(self) -> int:
        """The repeated messages."""
        return sum(marks.duplicates for marks in self.marks)

    def lost(self, sent: dict[int, int]) -> int:
        """Return the missing messages."""
        return sum(marks.lost(sent) for marks in self.marks)

    def row(self, second: int) -> tuple[object, ...]:
        """Return the figures since the last row, and begin a new row."""
        pairs, longest = self.interval.pairs(), self.interval.longest_us
        row = ("row", second, self.interval_count, pairs, longest)
        self.interval.clear()
        self.interval_count = 0
        return row

    def check_size(self) -> None:
        """Raise `SpanwireError` for more messages than marks."""
        if sum(marks.size for marks in self.marks) > MAX_MARK_BYTES:
            raise SpanwireError(f"the run has more messages than {MAX_MARK_BYTES >> 20} MiB of marks: make it shorter")


def consume(plan: Plan, pipe: Pipe, publish: Callable[[int], None]) -> None:
    """Run the consumers, and write arrivals to ``pipe``: the main function of a process.

    ``publish`` gets the number of arrivals, for the window of the producers.
    """
    arrivals = Arrivals(plan)
    sent: dict[int, int] = {}
    try:
        sent = asyncio.run(_consume(plan, pipe, publish, arrivals))
        error = ""
    except SpanwireError as failure:
        error = str(failure)
    used = resource.getrusage(resource.RUSAGE_SELF)
    counts = {
        "received": arrivals.received,
        "duplicates": arrivals.duplicates,
        "redelivered": arrivals.redelivered,
        "foreign": arrivals.foreign,
        "lost": arrivals.lost(sent),
    }
    pipe.send(("end", counts, arrivals.last_ns, used.ru_utime + used.ru_stime, error))


async def _consume(plan: Plan, pipe: Pipe, publish: Callable[[int], None], arrivals: Arrivals) -> dict[int, int]:
    """Receive until all messages are there, or for a while no message has come.

    Returns the messages of each producer.
    """
    connections, receiving = [], []
    try:
        for number in range(plan.consumers):
            connection = await open_client(plan)
            connections.append(connection)
            receiver = await connection.receiver()
            receiving.append(asyncio.create_task(_receive(receiver, number, arrivals)))
        pipe.send(("ready",))
        begin_ns: int = await asyncio.to_thread(pipe.recv)
        arrivals.warm_ns = begin_ns + int(plan.warm_up_s * NS)
        return await _watch(plan, pipe, publish, arrivals, receiving, begin_ns)
    finally:
        for task in receiving:
            task.cancel()
        for connection in connections:
            await connection.close()


async def _watch(
    plan: Plan,
    pipe: Pipe,
    publish: Callable[[int], None],
    arrivals: Arrivals,
    receiving: list[asyncio.Task[None]],
    begin_ns: int,
) -> dict[int, int]:
    second, sent, quiet_since = 0, None, time.monotonic()
    before = -1
    while True:
        await asyncio.sleep(LOOK_S)
        publish(arrivals.received)
        for task in receiving:
            if task.done():
                task.result()
        now = (time.monotonic_ns() - begin_ns) // NS
        if now > second:
            pipe.send(arrivals.row(second))
            arrivals.check_size()
            second = now
        if sent is None and pipe.poll():
            sent = pipe.recv()
            quiet_since = time.monotonic()
        if arrivals.received != before:
            before, quiet_since = arrivals.received, time.monotonic()
        if sent is not None:
            is_all = arrivals.received >= sum(sent.values()) * plan.copies
            if is_all or time.monotonic() - quiet_since > plan.patience_s:
                pipe.send(arrivals.row(second))
                return dict(sent)


async def _receive(receiver: Receiver, number: int, arrivals: Arrivals) -> None:
    clock = time.monotonic_ns
    while True:
        message = await receiver.next()
        if message is not None:
            arrivals.take(number, message, clock())
