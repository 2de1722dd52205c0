"""What a large move costs producers of the same broker: the time of a persistent send, idle and while messages move.

    python -m tests.bench.moves --messages 1000000

One producer sends a persistent message every few milliseconds and waits for its answer. The broker moves messages of
1 KiB from one queue to another in turns with idle seconds, so that a machine that others use slows both alike.
"""

from __future__ import annotations

import argparse
import gc
import tempfile
import threading
import time
from pathlib import Path
from typing import Final

from spanwire._build import version_text
from spanwire.client.blocking import connect
from spanwire.management.control_client import ControlClient
from tests.support.broker_process import BrokerProcess, spanwire_command

BODY: Final = "x" * 1024
BATCH: Final = 1_000  # messages of a transaction that fills the queue
PAUSE_S: Final = 0.005  # between two sends of the producer
TIMEOUT_S: Final = 60.0
MOST_IDLE: Final = 2.0  # times the idle p99 that the p99 of a send may reach


class Producer:
    """Sends a message now and then, and keeps the seconds of each send."""

    def __init__(self, uri: str) -> None:
        self.times: list[float] = []
        self._uri: Final = uri
        self._ends: Final = threading.Event()
        self._thread: Final = threading.Thread(target=self._run)

    def __enter__(self) -> Producer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.set()
        self._thread.join()

    def _run(self) -> None:
        with connect(self._uri) as connection, connection.session() as session:
            producer = session.create_producer("queue://LOCAL")
            while not self._ends.wait(PAUSE_S):
                begin = time.perf_counter()
                producer.send(BODY)
                self.times.append(time.perf_counter() - begin)


def filled(uri: str, count: int) -> None:
    """Fill the queue FROM."""
    with connect(uri) as connection, connection.session("transacted") as session:
        producer = session.create_producer("queue://FROM")
        for number in range(1, count + 1):
            producer.send(BODY)
            if number % BATCH == 0 or number == count:
                session.commit()


def percentile(times: list[float], share: float) -> float:
    """Return milliseconds."""
    ordered = sorted(times)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] * 1000


def line(name: str, times: list[float]) -> str:
    """Return a row of the result."""
    shown = [
        f"{word} {percentile(times, share):7.2f} ms" for word, share in (("p50", 0.5), ("p99", 0.99), ("max", 1.0))
    ]
    return "  ".join([f"{name:<8} {len(times):>7} sends", *shown])


def state(control: ControlClient, task_id: str) -> str:
    """Return the state of a task."""
    rows = control.ask("tasks")
    assert isinstance(rows, list)
    return next(str(row["state"]) for row in rows if row["id"] == task_id)


def worked(control: ControlClient, task_id: str, seconds: float) -> float:
    """Return the seconds that a task ran, which it did until its end or for ``seconds``."""
    begin = time.monotonic()
    while (spent := time.monotonic() - begin) < seconds and state(control, task_id) == "running":
        time.sleep(0.1)
    return spent


def main() -> None:
    """Print the times."""
    parser = argparse.ArgumentParser(description="Times of sends while messages move.")
    parser.add_argument("--messages", type=int, default=1_000_000, help="messages that are moved")
    parser.add_argument("--rate", type=int, default=0, help="most messages a second; 0 for no limit")
    parser.add_argument("--turn", type=float, default=3.0, help="seconds of each turn")
    options = parser.parse_args()
    print(version_text())
    gc.disable()  # the pauses of this process are not the broker's
    with (
        tempfile.TemporaryDirectory(prefix="moves-") as directory,
        BrokerProcess(spanwire_command(), Path(directory)) as broker,
    ):
        uri = broker.openwire_uri()
        filled(uri, options.messages)
        control = ControlClient(next(Path(directory).rglob("control.sock")).parent, TIMEOUT_S)
        idle: list[float] = []
        moved: list[float] = []
        moved_s = 0.0
        rate = {"rate": options.rate} if options.rate else {}
        with Producer(uri) as producer:
            time.sleep(options.turn)
            idle, producer.times = producer.times, []
            control.ask("move", destinations=["FROM"], target="TO", as_task=True, **rate)
            while True:
                moved_s += worked(control, "M1", options.turn)
                moved += producer.times
                if state(control, "M1") == "done":
                    break
                control.ask("task-cancel", id="M1")
                worked(control, "M1", TIMEOUT_S)
                producer.times = []
                time.sleep(options.turn)
                idle += producer.times
                producer.times = []
                control.ask("task-resume", id="M1")
    print(line("idle", idle), line("move", moved), sep="\n")
    print(f"{options.messages:,} messages in {moved_s:.1f} s, {options.messages / moved_s:,.0f} a second")
    ratio = percentile(moved, 0.99) / percentile(idle, 0.99)
    print(f"p99 of a send while messages move: {ratio:.2f} times idle; at most {MOST_IDLE} is wanted")


if __name__ == "__main__":
    main()
