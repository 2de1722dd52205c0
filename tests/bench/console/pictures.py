"""Takes a picture of each page of the console, at five widths, light and dark, beside a broker with everything.

    python -m tests.bench.console.pictures out/console [--width 360] [--scheme dark] [--page queues]

Prints the pages that are wider than their window, and what the browser complains about.
"""

from __future__ import annotations

import argparse
import base64
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final
from urllib.parse import quote

from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.support.wait import WebDriverWait

from tests.bench.console.filled_broker import LONG, PASSWORD, USER, filled
from tests.bench.console.large_maps import served_map
from tests.service.started import TIMEOUT_S
from tests.support.browser import browser, complaints, resize

WIDTHS: Final = (360, 768, 1280, 1920, 3840)
SCHEMES: Final = ("light", "dark")
MOST_HEIGHT: Final = 6_000  # pixels of a picture
ORDERS: Final = "queue://shop.zagreb.orders"
DEAD: Final = "queue://DLQ.shop.lyon.payments"
PAGES: Final[Mapping[str, str]] = {
    "overview": "/admin",
    "queues": "/admin/queues",
    "queues-none": "/admin/queues?q=nothing-like-this",
    "queue": f"/admin/queue?name={ORDERS}",
    "queue-long": f"/admin/queue?name=queue://{LONG}",
    "messages": f"/admin/messages?name={ORDERS}",
    "messages-wrong": f"/admin/messages?name={ORDERS}&selector={quote('region = ')}",
    "dead-letters": "/admin/dead-letters",
    "dead-letters-age": "/admin/dead-letters?by=age",
    "topics": "/admin/topics?all=1",
    "topic": "/admin/topic?name=topic://prices.eur",
    "subscribers": "/admin/subscribers",
    "connections": "/admin/connections",
    "consumers": "/admin/consumers",
    "producers": "/admin/producers",
    "connectors": "/admin/connectors",
    "network": "/admin/network",
    "network-map": "/admin/network-map",
    "network-route": "/admin/network-map?from=orders&destination=shop.berlin.invoices&to=billing",
    "network-lint": "/admin/network-lint",
    "network-connectors": "/admin/network-connectors",
    "link": "/admin/link?name=to-billing",
    "bridges": "/admin/bridges",
    "bridge": "/admin/bridge?name=returns-to-refunds",
    "branches": "/admin/branches",
    "pipelines": "/admin/pipelines",
    "scheduled": "/admin/scheduled",
    "ledger": "/admin/ledger",
    "why-form": "/admin/why",
    "why-queue": f"/admin/why?kind=queue&name={ORDERS}",
    "why-link": "/admin/why?kind=link&name=to-archive",
    "why-unknown": "/admin/why?name=ID:nobody-1-2-3:4",
    "queue-dead": f"/admin/queue?name={DEAD}",
    "send": f"/admin/send?name={ORDERS}",
    "tasks": "/admin/tasks",
    "do-move": f"/admin/do/queues/move?name={ORDERS}",
    "do-purge": f"/admin/do/queues/purge?name={ORDERS}&name={DEAD}",
    "do-retry": f"/admin/do/queues/retry?name={DEAD}",
    "do-create": "/admin/do/queues/create",
    "do-bridge": "/admin/do/bridges/create",
    "do-bridge-delete": "/admin/do/bridges/delete?bridges=returns-to-refunds",
    "do-limits": "/admin/do/broker/limits",
    "do-settings": f"/admin/do/queues/settings?name={ORDERS}",
    "do-subscription": "/admin/do/subscriptions/create",
    "do-drain": "/admin/do/network_connectors/drain",
    "trace-form": "/admin/trace",
    "trace-dry-run": "/admin/trace?dry_run=true&name=shop.berlin.invoices",
    "trace-none": "/admin/trace?trace=T-nobody",
    "link-in": "/admin/link?name=to-orders",
    "link-mesh": "/admin/link?name=mesh",
    "why-in": "/admin/why?kind=link&name=mesh",
    "do-network": "/admin/do/network_connectors/add",
    "missing": "/admin/queue?name=queue://none",
}
FOUND: Final = {
    "message": ("messages", "tbody th a"),
    "connection": ("connections", "tbody th a"),
    "why-message": ("message", "a[href^='/admin/why?kind=message']"),
}
LARGE: Final = {"map-100": 100, "map-1000": 1_000}


def log_in(window: webdriver.Chrome, base: str) -> None:
    """By the form."""
    window.get(f"{base}/")
    window.find_element(By.ID, "user").send_keys(USER)
    window.find_element(By.ID, "password").send_keys(PASSWORD)
    window.find_element(By.CSS_SELECTOR, "main button").click()
    WebDriverWait(window, TIMEOUT_S).until(lambda page: page.current_url == f"{base}/admin")


def picture(window: webdriver.Chrome, width: int, path: Path) -> None:
    """The whole page as a PNG, and a word about one that is too wide."""
    shown = window.execute_script("return document.documentElement.scrollWidth")
    if shown > width:
        sys.stdout.write(f"{path.stem} is {shown} wide\n")
    height = min(int(window.execute_script("return document.documentElement.scrollHeight")), MOST_HEIGHT)
    clip = {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}
    taken = window.execute_cdp_cmd("Page.captureScreenshot", {"clip": clip, "captureBeyondViewport": True})
    path.write_bytes(base64.b64decode(taken["data"]))


def main() -> int:
    parser = argparse.ArgumentParser(description="Pictures of all pages of the console.")
    parser.add_argument("out", type=Path)
    parser.add_argument("--width", type=int, action="append")
    parser.add_argument("--scheme", choices=SCHEMES, action="append")
    parser.add_argument("--page", action="append", help="a name from the list in this module")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    wanted = options.page or [*PAGES, "trace", *FOUND, *LARGE, "login"]
    with tempfile.TemporaryDirectory() as folder, filled(Path(folder)) as broker, browser() as window:
        pages = {**PAGES, "trace": f"/admin/trace?trace={broker.trace}"}
        places = {name: broker.base + pages[name] for name in wanted if name in pages}
        log_in(window, broker.base)
        for name, (page, selector) in FOUND.items():
            window.get(places[page] if page in places else broker.base + PAGES[page])
            places[name] = str(window.find_element(By.CSS_SELECTOR, selector).get_attribute("href"))
        places = {name: place for name, place in places.items() if name in wanted}
        _take(window, places, options)
        for name, count in LARGE.items():
            if name in wanted:
                with served_map(count) as base:
                    around = f"{base}/admin/network-map?around=broker-0001"
                    _take(window, {name: f"{base}/admin/network-map", f"{name}-around": around}, options)
        if "login" in wanted:
            window.delete_all_cookies()
            _take(window, {"login": f"{broker.base}/admin/login"}, options)
    return 0


def _take(window: webdriver.Chrome, places: Mapping[str, str], options: argparse.Namespace) -> None:
    for scheme in options.scheme or SCHEMES:
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        window.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
        for width in options.width or WIDTHS:
            resize(window, width, 900)
            for name, place in places.items():
                window.get(place)
                picture(window, width, options.out / f"{name}-{width}-{scheme}.png")
                for text in complaints(window):
                    sys.stdout.write(f"{name}: {text}\n")


if __name__ == "__main__":
    sys.exit(main())
