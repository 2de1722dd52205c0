"""Measures what management costs a broker: open pages and scrapes beside load, long lists, slow sockets.

    python -m tests.bench.management [--seconds 3] [--rounds 6] [--queues 10000] [--sockets 2000] [--listeners 500]
                                     [--part load|listeners|queues] [--json FILE]

Rounds with and without what is measured alternate, and medians are compared. CPU is that of the broker's process alone,
because the web process is another one. Prints a line for each figure, with its aim and the verdict, and the same as
JSON to the file of ``--json``. Takes about five minutes.
"""

from __future__ import annotations

import argparse
import functools
import json
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from spanwire._build import version_text
from tests.bench.management.figures import Figure, compared
from tests.bench.management.load import fetched, full_load, pages, requests, sends, share
from tests.bench.management.watching import slow_sockets, watchers
from tests.bench.management.web_broker import WithWebPort, cpu_s, web_pid

PAGES: Final = 50
MOST_PACED: Final = 2_000.0  # sends a second; the client waits for each receipt
REQUESTS_A_SECOND: Final = 50.0
SCRAPES: Final = 5
LISTED: Final = 300  # pages of the list
OLD_S: Final = 1.1  # seconds after which the web process asks the broker again


def beside_load(broker: WithWebPort, port: int, options: argparse.Namespace) -> Iterator[Figure]:
    """Figures of a broker with load, beside open pages or slow sockets."""
    seconds, rounds = options.seconds, options.rounds
    full_load(broker, seconds)
    rate = full_load(broker, seconds)["rate"] / 4
    name = f"{PAGES} open pages and a scrape each second"
    pairs = compared(lambda: full_load(broker, seconds)["cpu_us"], lambda: watchers(port, PAGES, scrapes=True), rounds)
    yield Figure(f"{name}: CPU for a message at full load", pairs.ratio, 1.05, "times", f"µs: {pairs.text()}")
    # A broker at full load fills one core, so this share of a core is the same cost, without the scatter of two loads.
    measure = functools.partial(share_of_core, broker, seconds)
    pairs = compared(measure, lambda: watchers(port, PAGES, scrapes=True), rounds)
    yield Figure(f"{name}: CPU with 100 sends a second", pairs.difference, 5.0, "% of a core", f"%: {pairs.text()}")

    def p99() -> float:
        return share(sends(broker, seconds, min(rate, MOST_PACED)), 0.99)

    pairs = compared(p99, lambda: watchers(port, PAGES, scrapes=True), rounds)
    yield Figure(f"{name}: p99 of sends at a quarter of it", pairs.ratio, 1.2, "times", f"ms: {pairs.text()}")
    name = f"{options.sockets} slow sockets"
    pairs = compared(p99, lambda: slow_sockets(port, options.sockets), rounds)
    yield Figure(f"{name}: p99 of sends", pairs.ratio, 2.0, "times", f"ms: {pairs.text()}")
    pairs = compared(
        lambda: share(requests(port, seconds, REQUESTS_A_SECOND), 0.99),
        lambda: slow_sockets(port, options.sockets),
        rounds,
    )
    yield Figure(f"{name}: p99 of HTTP requests", pairs.ratio, 2.0, "times", f"ms: {pairs.text()}")


def share_of_core(broker: WithWebPort, seconds: float) -> float:
    """The part of a core that a broker takes with a hundred sends a second, in percent."""
    before, began = cpu_s(broker.pid), time.monotonic()
    sends(broker, seconds, 100)
    return (cpu_s(broker.pid) - before) / (time.monotonic() - began) * 100


def of_listeners(broker: WithWebPort, port: int, options: argparse.Namespace) -> Iterator[Figure]:
    """What streams of events cost a broker with a hundred sends a second."""
    measure = functools.partial(share_of_core, broker, options.seconds)
    pairs = compared(measure, lambda: watchers(port, options.listeners), options.rounds)
    yield Figure(f"{options.listeners} streams of events", pairs.difference, 2.0, "% of a core", f"%: {pairs.text()}")


def of_many_queues(broker: WithWebPort, port: int, options: argparse.Namespace) -> Iterator[Figure]:
    """A page of a long list, and scrapes of all its queues."""
    names = [f"LONG.{number}" for number in range(options.queues)]
    broker.create_queues(names)
    time.sleep(OLD_S)
    web = web_pid(broker.pid)
    busy = cpu_s(web)
    found = pages(port, options.queues, LISTED)
    each = (cpu_s(web) - busy) / LISTED * 1000
    rounds = f"p50 {share(found, 0.5):.3g}, most {share(found, 1.0):.3g}; CPU {each:.3g} ms each"
    yield Figure(f"a page of 100 of {options.queues} queues: p99", share(found, 0.99), 50.0, "ms", rounds)
    path = "/metrics?destinations=all&series=pending,enqueued,dequeued,consumers"
    for changed in (0, options.queues // 10, options.queues):
        times, costs = [], []
        busy = cpu_s(web)
        for _ in range(SCRAPES):
            _send_to(broker, names[:changed])
            time.sleep(OLD_S)
            before, began = cpu_s(broker.pid), time.monotonic()
            fetched(port, path)
            times.append(time.monotonic() - began)
            costs.append((cpu_s(broker.pid) - before) * 1000)
        name = f"a scrape of all {options.queues} queues, {changed} changed"
        rounds = f"{' '.join(f'{one:.3g}' for one in times)}; CPU {(cpu_s(web) - busy) / SCRAPES:.3g} s each"
        yield Figure(name, statistics.median(times), 1.0, "s", rounds)
        rounds = " ".join(f"{one:.3g}" for one in costs)
        yield Figure(f"{name}: CPU of the broker", statistics.median(costs), 10.0, "ms", rounds)


def _send_to(broker: WithWebPort, names: list[str]) -> None:
    if names:
        frames = [f"SEND\ndestination:/queue/{name}\n\nx\0" for name in names]
        frames[-1] = f"SEND\ndestination:/queue/{names[-1]}\nreceipt:r\n\nx\0"
        with broker.stomp() as client:
            client.send_raw("".join(frames).encode())
            client.receive()


PARTS: Final = {"load": beside_load, "listeners": of_listeners, "queues": of_many_queues}


def main() -> int:
    parser = argparse.ArgumentParser(description="What management costs a broker.")
    parser.add_argument("--seconds", type=float, default=3.0, help="of one round")
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--queues", type=int, default=10_000)
    parser.add_argument("--sockets", type=int, default=2_000)
    parser.add_argument("--listeners", type=int, default=500)
    parser.add_argument("--part", choices=sorted(PARTS), help="measure this part alone")
    parser.add_argument("--json", type=Path, help="file for the figures, a line of JSON each")
    options = parser.parse_args()
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    print(version_text(), flush=True)
    found: list[Figure] = []
    with tempfile.TemporaryDirectory() as folder, WithWebPort(Path(folder)) as broker:
        port = broker.web_port()
        for part in PARTS.values() if options.part is None else [PARTS[options.part]]:
            for figure in part(broker, port, options):
                found.append(figure)
                print(figure.line(), flush=True)
    if options.json is not None:
        options.json.write_text("".join(json.dumps(one.view(), ensure_ascii=False) + "\n" for one in found), "utf-8")
    print(f"{sum(one.is_met for one in found)} of {len(found)} aims are met", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
