"""One run: starts both processes at the same time, gathers the counts, and returns the result."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from multiprocessing.connection import Connection as Pipe
from multiprocessing.connection import wait
from multiprocessing.sharedctypes import Synchronized
from typing import Any, Final

from spanwire.cli.bench.consuming import consume
from spanwire.cli.bench.latencies import Latencies
from spanwire.cli.bench.plan import MAX_SECONDS, Plan
from spanwire.cli.bench.producing import produce
from spanwire.model.errors import SpanwireError

BEGIN_S: Final = 0.2  # seconds from the word to begin until the first message is due; both processes have it by then
READY_S: Final = 60.0  # seconds for all clients to connect
SILENCE_S: Final = 60.0  # seconds without a word of a process beyond the patience of the run
NS: Final = 1_000_000_000


@dataclass(slots=True)
class Row:
    """The figures of one second; times in microseconds."""

    second: int
    sent: int = 0
    received: int = 0
    p50_us: int = 0
    p99_us: int = 0
    longest_us: int = 0
    is_measured: bool = False


@dataclass(slots=True)
class Result:
    """The figures of a run."""

    url: str
    sent: int = 0
    received: int = 0
    lost: int = 0
    duplicates: int = 0
    redelivered: int = 0
    foreign: int = 0
    seconds: float = 0.0
    latencies: Latencies = field(default_factory=Latencies)
    answers: Latencies = field(default_factory=Latencies)
    rows: list[Row] = field(default_factory=list)
    producer_cpu_s: float = 0.0
    consumer_cpu_s: float = 0.0

    @property
    def rate(self) -> float:
        """The arrivals of a second; the sent messages without consumers."""
        count = self.received or self.sent
        return count / self.seconds if self.seconds > 0 else 0.0


def run_plan(plan: Plan, on_row: Callable[[Row], None]) -> Result:
    """Perform a run; ``on_row`` gets each second.

    Raises:
        SpanwireError: a client cannot connect, or a connection broke
    """
    context = multiprocessing.get_context("spawn")
    received = context.Value("q", 0)
    gathering = _Gathering(plan, on_row)
    roles: list[tuple[str, Any, Any]] = []
    if plan.consumers:
        roles.append(("consumers", consume, partial(_set, received)))
    if plan.producers:
        roles.append(("producers", produce, partial(_get, received)))
    processes = []
    try:
        for name, target, shared in roles:
            own, other = context.Pipe()
            process = context.Process(target=target, args=(plan, other, shared), name=name, daemon=True)
            process.start()
            other.close()
            processes.append(process)
            gathering.pipes[name] = own
        return gathering.result()
    finally:
        for process in processes:
            process.join(0.5)
            if process.is_alive():
                process.terminate()
                process.join()


def _set(shared: Synchronized[int], value: int) -> None:
    shared.value = value


def _get(shared: Synchronized[int]) -> int:
    return shared.value


class _Gathering:
    """Gathers the words of the processes."""

    def __init__(self, plan: Plan, on_row: Callable[[Row], None]) -> None:
        self.pipes: Final[dict[str, Pipe]] = {}
        self._plan: Final = plan
        self._on_row: Final = on_row
        self._result: Final = Result(plan.url)
        self._sent_before = 0
        self._begin_ns = 0
        self._end_ns = 0

    def result(self) -> Result:
        """Return the result when both processes have ended. Raises `SpanwireError`."""
        for name, pipe in self.pipes.items():
            word = self._next([(name, pipe)], READY_S)[1]
            if word[0] != "ready":
                raise SpanwireError(str(word[-1]))
        self._begin_ns = time.monotonic_ns() + int(BEGIN_S * NS)
        for pipe in self.pipes.values():
            pipe.send(self._begin_ns)
        running = dict(self.pipes)
        while running:
            name, word = self._next(list(running.items()), SILENCE_S + self._plan.patience_s)
            self._take(name, word)
            if word[0] == "end":
                del running[name]
        result = self._result
        result.seconds = (self._end_ns - self._begin_ns) / NS
        return result

    def _next(self, pipes: list[tuple[str, Pipe]], seconds: float) -> tuple[str, Any]:
        """Return the next word of a process, and the process's name. Raises `SpanwireError` at a silent end."""
        ready = wait([pipe for _, pipe in pipes], seconds)
        for name, pipe in pipes:
            if pipe in ready:
                try:
                    return name, pipe.recv()
                except EOFError:
                    raise SpanwireError(f"the process of the {name} has ended without a result") from None
        raise SpanwireError(f"the {' and '.join(name for name, _ in pipes)} have said nothing for {seconds:g} s")

    def _take(self, name: str, word: Any) -> None:
        result = self._result
        if word[0] == "sent":
            result.sent = word[1]
            if not self._plan.consumers:
                self._sent_row()
        elif word[0] == "row":
            _, second, count, pairs, longest = word
            interval = Latencies()
            interval.merge(pairs, longest)
            result.latencies.merge(pairs, longest)
            self._add(Row(second, 0, count, interval.percentile(50), interval.percentile(99), longest, bool(pairs)))
        elif word[-1]:
            raise SpanwireError(f"{name}: {word[-1]}")
        elif name == "producers":
            _, by_producer, (pairs, longest), result.producer_cpu_s, _ = word
            result.answers.merge(pairs, longest)
            result.sent = sum(by_producer.values())
            self._end_ns = max(self._end_ns, time.monotonic_ns())
            if "consumers" in self.pipes:
                self.pipes["consumers"].send(by_producer)
        else:
            _, counts, last_ns, result.consumer_cpu_s, _ = word
            for count_name, count in counts.items():
                setattr(result, count_name, count)
            self._end_ns = last_ns or self._begin_ns

    def _sent_row(self) -> None:
        second = (time.monotonic_ns() - self._begin_ns) // NS
        if second > (self._result.rows[-1].second if self._result.rows else -1):
            self._add(Row(second))

    def _add(self, row: Row) -> None:
        row.sent, self._sent_before = self._result.sent - self._sent_before, self._result.sent
        if len(self._result.rows) < MAX_SECONDS:
            self._result.rows.append(row)
        self._on_row(row)
