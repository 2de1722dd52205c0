"""STOMP.js, the usual client of scripts in browsers: under node, and in a real Chromium from a page of another port."""

from __future__ import annotations

import functools
import http.server
import json
import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest
from selenium.webdriver.support.wait import WebDriverWait

from tests.service.started import TIMEOUT_S, Started
from tests.support.browser import browser, require_browser
from tests.support.npm import STOMP_JS, WS, require_package
from tests.support.ports import free_port

pytestmark = pytest.mark.long
PROGRAMS: Final = Path(__file__).parent / "javascript"
UMD: Final = Path("bundles") / "stomp.umd.js"
PAGE: Final = """\
<!doctype html><meta charset="utf-8"><title>stomp.js</title>
<script src="stomp.umd.js"></script><script src="conversation.js"></script>
<script>
const events = [];
const url = new URLSearchParams(location.search).get("url");
converse(StompJs, {{ brokerURL: url }}, "/queue/PAGE", event => events.push(event));
</script>
"""
HEARD: Final[list[list[object]]] = [
    ["connected", "1.2"],
    ["heart-beat", "500,500"],
    ["receipt", "r1"],
    ["message", "Köln ☂"],
    ["message", [0, 255, 10, 0, 200]],
    ["message", "x" * 200_000],
]
END: Final[list[list[object]]] = [["done"], ["closed", 1000]]


class WithWebSocket(Started):
    """A broker that admits pages of one origin."""

    def __init__(self, directory: Path, origin: str) -> None:
        super().__init__(directory)
        self._origin = origin

    def text(self) -> str:
        uri = f"ws://127.0.0.1:0?websocket.allowedOrigins={self._origin}"
        connector = f'  <transportConnector name="ws" uri="{uri}"/>\n  </transportConnectors>'
        return super().text().replace("  </transportConnectors>", connector)

    @property
    def websocket_url(self) -> str:
        return f"ws://127.0.0.1:{self.ports['ws']}/stomp"


def assert_heard(events: list[list[object]]) -> None:
    """Everything was heard; the receipt and the messages may arrive in either order."""
    assert sorted(map(repr, events[: len(HEARD)])) == sorted(map(repr, HEARD))
    assert [event for event in events if event[0] == "message"] == [event for event in HEARD if event[0] == "message"]
    assert sorted(map(repr, events[len(HEARD) :])) == sorted(map(repr, END))


def test_stomp_js_converses_under_node(tmp_path: Path) -> None:
    stomp_js, ws = require_package(STOMP_JS), require_package(WS)
    with WithWebSocket(tmp_path, "") as broker:
        done = subprocess.run(
            ["node", PROGRAMS / "node_client.js", stomp_js / UMD, ws, broker.websocket_url, "/queue/NODE"],
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
    assert done.stderr == ""
    assert_heard([json.loads(line) for line in done.stdout.splitlines()])


@contextmanager
def page_server(directory: Path, port: int) -> Iterator[str]:
    """A server of static files on 127.0.0.1."""
    handler = functools.partial(QuietHandler, directory=str(directory))
    with http.server.ThreadingHTTPServer(("127.0.0.1", port), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{port}"
        server.shutdown()


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    """Logs nothing."""

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        return


def test_stomp_js_converses_in_a_browser_and_a_page_of_another_origin_is_refused(tmp_path: Path) -> None:
    require_browser()
    stomp_js = require_package(STOMP_JS)
    site = tmp_path / "site"
    site.mkdir()
    shutil.copy(stomp_js / UMD, site)
    shutil.copy(PROGRAMS / "conversation.js", site)
    (site / "index.html").write_text(PAGE.format(), "utf-8")
    allowed, foreign = free_port(), free_port()
    with (
        WithWebSocket(tmp_path / "broker", f"http://127.0.0.1:{allowed}") as broker,
        page_server(site, allowed) as page,
        page_server(site, foreign) as foreign_page,
        browser() as driver,
    ):
        query = f"/index.html?url={broker.websocket_url}"

        def events_at_the_end(wanted: str) -> list[list[object]]:
            def heard(_: object) -> list[list[object]]:
                events: list[list[object]] = driver.execute_script("return events")
                return events if any(event[0] == wanted for event in events) else []

            events: list[list[object]] = WebDriverWait(driver, TIMEOUT_S).until(heard)
            return events

        driver.get(page + query)
        events_at_the_end("done")
        assert_heard(events_at_the_end("closed"))
        driver.get(foreign_page + query)
        assert events_at_the_end("closed") == [["closed", 1006]]
        broker.awaits(f"invalid Origin header: {foreign_page}")
