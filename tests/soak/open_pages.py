"""What open pages of the console cost over time: the heap of each page, and memory of browser, web process, broker.

    python -m tests.soak.open_pages --minutes 60 [--rate 5] [--out out/soak/open_pages.jsonl]

Two windows of a headless Chromium stay open, the overview and the page of a queue, while messages pass at a steady
rate. Prints one line of JSON a minute, measured behind a garbage collection of each page, and a summary: the medians of
the second and of the last tenth of the time, and what an hour adds by a line of least squares through the last half.
Needs Linux for /proc, and Chromium with its driver.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.support.wait import WebDriverWait

from spanwire._build import version_text
from tests.bench.management.web_broker import WithWebPort
from tests.service.started import TIMEOUT_S, StompClient
from tests.support.browser import browser
from tests.support.memory import memory_mib, summary

PAGES: Final = ("/admin", "/admin/queue?name=queue://ORDERS")
NAMES: Final = ("overview", "queue")
BODY: Final = "x" * 500
IS_NEW: Final = """
    const text = document.querySelector("[data-live]").textContent, is_new = text !== window.seen;
    window.seen = text;
    return Number(is_new);
"""
SUBSCRIBE: Final = "SUBSCRIBE\nid:1\ndestination:/queue/ORDERS\nack:auto\n\n"


def status_of(pid: int) -> dict[str, str]:
    """The lines of a process' status by their names; empty for one that is gone."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text("ascii", "replace").splitlines()
    except OSError:
        return {}
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


def descendants(pid: int) -> Iterator[int]:
    """The processes that a process has started, and those that they have."""
    parents: dict[int, list[int]] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        parent = status_of(int(folder.name)).get("PPid")
        if parent is not None:
            parents.setdefault(int(parent), []).append(int(folder.name))
    waiting = [pid]
    while waiting:
        for child in parents.get(waiting.pop(), []):
            yield child
            waiting.append(child)


def command_of(pid: int) -> str:
    """The command line of a process; empty for one that is gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
    except OSError:
        return ""


def traffic(broker: WithWebPort, rate: float, stop: threading.Event) -> None:
    """Send and consume at a rate; each tenth message has no consumer and expires."""
    with broker.stomp() as producer, broker.stomp() as consumer:
        consumer.send(SUBSCRIBE)
        threading.Thread(target=_consume, args=(consumer,), daemon=True).start()
        number = 0
        while not stop.wait(1 / rate):
            number += 1
            name = "ORDERS" if number % 10 else f"OTHER.{number // 10 % 20}"
            expires = "" if number % 10 else f"expires:{int(time.time() + 30) * 1000}\n"
            producer.transact(
                f"SEND\ndestination:/queue/{name}\n{expires}number:{number}\nreceipt:{number}\n\n{BODY}", str(number)
            )


def _consume(consumer: StompClient) -> None:
    with contextlib.suppress(EOFError, OSError):
        while True:
            consumer.receive()


def open_page(driver: webdriver.Chrome, address: str) -> None:
    """Load a page that follows changes; a new queue has one after a second."""

    def is_there(window: webdriver.Chrome) -> bool:
        window.get(address)
        return bool(window.find_elements(By.CSS_SELECTOR, "[data-live]"))

    WebDriverWait(driver, TIMEOUT_S).until(is_there)


def page_figures(driver: webdriver.Chrome, handle: str) -> dict[str, float]:
    """Heap in MiB, nodes, listeners, documents of a page behind a garbage collection; 1 if it shows something new."""
    driver.switch_to.window(handle)
    driver.execute_cdp_cmd("HeapProfiler.enable", {})
    driver.execute_cdp_cmd("HeapProfiler.collectGarbage", {})
    driver.execute_cdp_cmd("Performance.enable", {})
    metrics = {one["name"]: one["value"] for one in driver.execute_cdp_cmd("Performance.getMetrics", {})["metrics"]}
    return {
        "heap_mib": round(metrics["JSHeapUsedSize"] / 1_048_576, 3),
        "nodes": metrics["Nodes"],
        "listeners": metrics["JSEventListeners"],
        "documents": metrics["Documents"],
        "follows": driver.execute_script(IS_NEW),
    }


def measure(broker: WithWebPort, driver: webdriver.Chrome, handles: list[str], web: int) -> dict[str, float]:
    """All figures of one moment."""
    row: dict[str, float] = {}
    for name, handle in zip(NAMES, handles, strict=True):
        row |= {f"{name}_{figure}": value for figure, value in page_figures(driver, handle).items()}
    browsers = [pid for pid in descendants(driver.service.process.pid) if "chromium" in command_of(pid)]
    row["browser_mib"] = round(sum(memory_mib(pid) for pid in browsers), 1)
    row["pages_mib"] = round(sum(memory_mib(pid) for pid in browsers if "--type=renderer" in command_of(pid)), 1)
    row["web_process_mib"], row["broker_mib"] = memory_mib(web), memory_mib(broker.pid)
    return row


def main() -> int:
    parser = argparse.ArgumentParser(description="Memory of open pages of the console.")
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--rate", type=float, default=5, help="messages a second")
    parser.add_argument("--every", type=float, default=60, help="seconds between two lines")
    parser.add_argument("--out", type=Path, default=Path("out/soak/open_pages.jsonl"))
    options = parser.parse_args()
    options.out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, WithWebPort(Path(folder)) as broker, browser() as driver:
        driver.set_script_timeout(TIMEOUT_S)  # half a minute by default, which a machine with other work may need
        base = f"http://127.0.0.1:{broker.web_port()}"
        web = next(pid for pid in descendants(broker.pid) if " web " in command_of(pid))
        stop = threading.Event()
        sender = threading.Thread(target=traffic, args=(broker, options.rate, stop), daemon=True)
        sender.start()
        with broker.stomp() as first:
            first.transact("SEND\ndestination:/queue/ORDERS\nreceipt:0\n\n", "0")  # the queue has a page from now on
        open_page(driver, base + PAGES[0])
        driver.switch_to.new_window("window")
        open_page(driver, base + PAGES[1])
        handles = list(driver.window_handles)
        rows: list[dict[str, float]] = []
        began = time.monotonic()
        with options.out.open("w", encoding="utf-8") as file:
            while (passed := time.monotonic() - began) < options.minutes * 60 + options.every / 2:
                if not sender.is_alive():
                    raise RuntimeError("the traffic has ended")
                rows.append({"minute": round(passed / 60, 2)} | measure(broker, driver, handles, web))
                line = json.dumps(rows[-1])
                file.write(line + "\n")
                file.flush()
                sys.stdout.write(line + "\n")
                sys.stdout.flush()
                time.sleep(max(0.0, began + len(rows) * options.every - time.monotonic()))
        stop.set()
        sender.join()
        found = {"build": version_text(), "minutes": options.minutes, "rate": options.rate, "figures": summary(rows)}
        sys.stdout.write(json.dumps(found) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
