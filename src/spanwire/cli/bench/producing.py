"""The process of the producers: sends by a schedule, or as fast as the broker takes.

With a rate, each message has a scheduled time. A late producer sends at once, and the latency counts from the scheduled
time: a broker with a pause of a second is charged with all messages of the second, not with one.
"""

from __future__ import annotations

import asyncio
import resource
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing.connection import Connection as Pipe
from typing import Final

from spanwire.cli.bench.clients import Sender, open_client
from spanwire.cli.bench.latencies import Latencies
from spanwire.cli.bench.plan import Plan
from spanwire.model.errors import SpanwireError

REPORT_S: Final = 0.2  # seconds between two reports to the parent
WINDOW_WAIT_S: Final = 0.001  # seconds of a producer before it looks at the window again
TURN: Final = 50  # messages of a producer without a pause, before the others of its process have their turn
NS: Final = 1_000_000_000


@dataclass(slots=True)
class Sent:
    """The counts of the producers so far; ``answers`` are the times of sends with an answer."""

    by_producer: dict[int, int] = field(default_factory=dict)
    answers: Latencies = field(default_factory=Latencies)


def produce(plan: Plan, pipe: Pipe, received: Callable[[], int]) -> None:
    """Run the producers, and write the counts to ``pipe``: the main function of a process.

    ``received`` returns the number of arrivals, for the window.
    """
    sent = Sent()
    try:
        asyncio.run(_produce(plan, pipe, received, sent))
        error = ""
    except SpanwireError as failure:
        error = str(failure)
    used = resource.getrusage(resource.RUSAGE_SELF)
    answers = (sent.answers.pairs(), sent.answers.longest_us)
    pipe.send(("end", dict(sent.by_producer), answers, used.ru_utime + used.ru_stime, error))


async def _produce(plan: Plan, pipe: Pipe, received: Callable[[], int], sent: Sent) -> None:
    connections, producers = [], []
    try:
        for _ in range(plan.producers):
            connection = await open_client(plan)
            connections.append(connection)
            producers.append(await connection.sender())
        pipe.send(("ready",))
        begin_ns: int = await asyncio.to_thread(pipe.recv)
        reports = asyncio.create_task(_report(pipe, sent))
        try:
            await asyncio.gather(
                *(
                    send_all(plan, producer, number, begin_ns, received, sent)
                    for number, producer in enumerate(producers)
                )
            )
        finally:
            reports.cancel()
    finally:
        for connection in connections:
            await connection.close()


async def send_all(
    plan: Plan, producer: Sender, number: int, begin_ns: int, received: Callable[[], int], sent: Sent
) -> None:
    """Send the messages of the producer ``number``."""
    share, end_ns = plan.share(number), begin_ns + int(plan.seconds * NS)
    warm_ns = begin_ns + int(plan.warm_up_s * NS)
    waits = plan.persistent if plan.waits is None else plan.waits
    counts, clock = sent.by_producer, time.monotonic_ns
    counts[number] = sequence = 0
    await asyncio.sleep(max(0.0, (begin_ns - clock()) / NS))
    while not plan.messages or sequence < share:
        if plan.rate:
            due = await _by_schedule(plan.due_ns(number, sequence, begin_ns), sequence)
        else:
            if sequence % TURN == 0:
                await _room(plan, sent, received)
            due = clock()
        if not plan.messages and due >= end_ns:
            return
        await producer.send(plan.body(number, sequence, due), wait=plan.waits)
        sequence += 1
        counts[number] = sequence
        if waits and due >= warm_ns:
            sent.answers.add((clock() - due) // 1000)


async def _by_schedule(due_ns: int, sequence: int) -> int:
    """Wait until a message is due; send a late message at once. Returns ``due_ns``."""
    early_ns = due_ns - time.monotonic_ns()
    if early_ns > 0:
        await asyncio.sleep(early_ns / NS)
    elif sequence % TURN == 0:
        await asyncio.sleep(0)
    return due_ns


async def _room(plan: Plan, sent: Sent, received: Callable[[], int]) -> None:
    """Wait while too many messages are on the way, at most for the silence at the end of a run."""
    await asyncio.sleep(0)
    if not plan.window or not plan.consumers:
        return
    waited, before = 0.0, received()
    while sum(sent.by_producer.values()) * plan.copies - before > plan.window * plan.copies:
        await asyncio.sleep(WINDOW_WAIT_S)
        now = received()
        waited = 0.0 if now != before else waited + WINDOW_WAIT_S
        if waited > plan.patience_s:
            raise SpanwireError(f"no message has arrived for {plan.patience_s:g} s, and {plan.window} are on their way")
        before = now


async def _report(pipe: Pipe, sent: Sent) -> None:
    while True:
        await asyncio.sleep(REPORT_S)
        pipe.send(("sent", sum(sent.by_producer.values())))
