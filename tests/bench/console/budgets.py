"""How fast pages of the console are in a browser: bytes and milliseconds of the first page, long lists, large maps.

    python -m tests.bench.console.budgets [--queues 10000] [--rounds 7]

Each round is a new browser profile without a cache. A time goes from the start of the navigation to the end of the load
event, as the browser's own clock has it, and the painted time is that of the largest content. Beside other work these
times say little; the processor time of the web process (or, for maps, of this one, which serves them) and of the page's
own thread do. Prints one line of JSON for each page: medians, the worst round, and the bytes of all requests as they
were on the wire. Maps have brokers whose answers are made up, see `tests.bench.console.large_maps`; all else is a
broker with its web process.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

from spanwire._build import version_text
from spanwire.management.control_client import ControlClient
from spanwire.web.console.network.map_layout import _cells, _clusters
from tests.bench.console.large_maps import served_map
from tests.bench.management.web_broker import CREATED, WithWebPort
from tests.service.started import TIMEOUT_S
from tests.soak.open_pages import command_of, descendants
from tests.support.browser import browser

MEASURED: Final = """
    const done = arguments[arguments.length - 1];
    const [page] = performance.getEntriesByType("navigation");
    const files = performance.getEntriesByType("resource");
    new PerformanceObserver(list => {
        const painted = list.getEntries().at(-1);
        done({
            load_ms: page.loadEventEnd, answer_ms: page.responseEnd, painted_ms: painted.startTime,
            bytes: [page, ...files].reduce((sum, one) => sum + one.transferSize, 0), requests: 1 + files.length,
        });
    }).observe({type: "largest-contentful-paint", buffered: true});
"""
MAPS: Final = (100, 1_000)


def visit(address: str, server: int) -> dict[str, float]:
    """The figures of one page in a browser that knows nothing yet; ``server`` is the process that serves it."""
    with browser() as window:
        window.get("about:blank")
        window.set_script_timeout(TIMEOUT_S)
        window.execute_cdp_cmd("Performance.enable", {})
        before = busy_ms(server)
        window.get(address)
        found: dict[str, float] = window.execute_async_script(MEASURED)
        metrics = window.execute_cdp_cmd("Performance.getMetrics", {})["metrics"]
        page = next(one["value"] for one in metrics if one["name"] == "TaskDuration")
        return {**found, "server_cpu_ms": busy_ms(server) - before, "page_cpu_ms": page * 1000}


def busy_ms(pid: int) -> float:
    """Processor time of a process since its start."""
    threads = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(thread.read_text("ascii").split()[0]) for thread in threads) / 1e6


def visit_map(count: int) -> dict[str, float]:
    """The figures of a map that no request has laid out yet."""
    _cells.cache_clear()
    _clusters.cache_clear()
    with served_map(count) as base:
        return visit(f"{base}/admin/network-map", os.getpid())


def rounds_of(visited: Callable[[], dict[str, float]], rounds: int) -> dict[str, float]:
    """The medians of some rounds, and the worst time."""
    found = [visited() for _ in range(rounds)]
    medians = {name: round(statistics.median(one[name] for one in found), 1) for name in found[0]}
    return {**medians, "worst_load_ms": round(max(one["load_ms"] for one in found), 1)}


def say(what: str, figures: dict[str, float]) -> None:
    """One line."""
    row = {"page": what, "build": version_text(), "load_average": round(os.getloadavg()[0], 1), **figures}
    sys.stdout.write(json.dumps(row) + "\n")
    sys.stdout.flush()


def main() -> int:
    parser = argparse.ArgumentParser(description="Pages of the console in a browser.")
    parser.add_argument("--queues", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, WithWebPort(Path(folder)) as broker:
        base = f"http://127.0.0.1:{broker.web_port()}"
        web = next(pid for pid in descendants(broker.pid) if " web " in command_of(pid))
        say("overview, the first page", rounds_of(partial(visit, f"{base}/admin", web), options.rounds))
        client = ControlClient(broker.data, TIMEOUT_S)
        for start in range(0, options.queues, CREATED):
            client.ask("create", destinations=[f"queue://LONG.{start + number}" for number in range(CREATED)])
        for words in ("", "?sort=-pending&page=50", "?q=99&size=500"):
            name = f"queues{words} of {options.queues:,}"
            say(name, rounds_of(partial(visit, f"{base}/admin/queues{words}", web), options.rounds))
        say(
            f"overview beside {options.queues:,} queues",
            rounds_of(partial(visit, f"{base}/admin", web), options.rounds),
        )
    for count in MAPS:
        say(f"map of {count:,} brokers", rounds_of(partial(visit_map, count), options.rounds))
    return 0


if __name__ == "__main__":
    sys.exit(main())
