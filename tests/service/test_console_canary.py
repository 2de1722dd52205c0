"""A crawl of the console in a real browser, where every text that a client can choose is markup and one long word."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final
from urllib.parse import quote

import pytest
from selenium.webdriver.support.expected_conditions import alert_is_present

from spanwire.client import blocking
from spanwire.management.control_client import ControlClient
from spanwire.model.ids import XaTransactionId
from spanwire.pipeline.link.control_client import Control
from spanwire.pipeline.watch.status import RETRYING, PipelineStatus, RouteStatus, encode
from tests.bench.console.filled_network import trace
from tests.service.started import TIMEOUT_S
from tests.service.test_console_access import log_in
from tests.service.test_console_browser import Guarded, served
from tests.service.test_console_everything import kind_of, links
from tests.support.browser import browser, complaints, require_browser, resize

CANARY: Final = "\"'><img src=x onerror=window.ran=1><script>window.ran=1</script>" + "W" * 150
NAMED: Final = CANARY.replace("/", "_")  # part of an address that is written as one
LONG: Final = "W" * 200  # of a name that has letters alone
WIDTHS: Final = (360, 1280)
MAX_PAGES: Final = 300
USER: Final = ("anna", "a-4711")
LOOK: Final = """
    return [
        window.ran ?? 0,
        document.querySelectorAll("img:not(.brand img), [onerror], script:not([type=module])").length,
        document.documentElement.scrollWidth,
        document.documentElement.textContent.includes("onerror=window.ran=1"),
    ];
"""


@pytest.fixture(scope="module")
def canaries(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """The address of a console, and a trace, of a broker whose clients have set every text that they can."""
    require_browser()
    with Guarded(tmp_path_factory.mktemp("canary")) as broker, ExitStack() as clients:
        connection = clients.enter_context(blocking.connect(broker.broker_url, *USER, client_id=CANARY))
        session = connection.session("individual")
        followed = trace(broker, NAMED)
        send(session)
        fail(session)
        topic = f"topic://{NAMED}"
        session.create_durable_subscriber(topic, CANARY, selector(), prefetch=1)
        session.create_producer(topic).send(CANARY, {"p": CANARY})
        session.create_consumer(f"queue://{NAMED}.consumed", selector())
        pipeline(broker.broker_url, clients)
        branch(connection)
        arguments = {"destinations": [f"queue://{NAMED}"], "target": f"{NAMED}.copies", "selector": selector()}
        ControlClient(broker.data, TIMEOUT_S).ask("copy", **arguments, as_task=True)
        base = clients.enter_context(served(broker, tmp_path_factory.mktemp("log")))
        yield base, followed


def selector() -> str:
    """A selector with the canary as a string."""
    return f"p = '{CANARY.replace(chr(39), chr(39) * 2)}'"


def send(session: blocking.Session) -> None:
    """One message of each kind of body, with the canary in all its headers."""
    producer = session.create_producer(f"queue://{NAMED}")
    for body in (CANARY, f'{{"{NAMED[2:]}": 1}}', {"key": CANARY}, [CANARY], CANARY.encode(), None):
        producer.send(
            body, {"p": CANARY, "JMSXUserID": CANARY}, message_type=CANARY, correlation_id=CANARY,
            reply_to=f"queue://{NAMED}.replies", group_id=CANARY,
        )  # fmt: skip


def fail(session: blocking.Session) -> None:
    """Make a dead letter with the canary as its cause."""
    session.create_producer(f"queue://{NAMED}.failing").send(CANARY)
    consumer = session.create_consumer(f"queue://{NAMED}.failing")
    message = consumer.receive(timeout=TIMEOUT_S)
    assert message is not None
    session.reject(message, CANARY)
    consumer.close()


def pipeline(url: str, clients: ExitStack) -> None:
    """Publish a pipeline with the canary in its status, a cursor with it in its selector, and a ledger."""
    control = Control(clients.enter_context(blocking.connect(url, *USER)))
    now = round(time.time() * 1000)
    route = RouteStatus(CANARY, RETRYING, CANARY, CANARY, CANARY, 1, 2, 3, 4.0, 5, 6, 7, now, 3, CANARY, now)
    control.publish(LONG, LONG, encode(PipelineStatus(CANARY, CANARY, CANARY, now, now, (route,))))
    held = control.open_cursor(LONG, f"{NAMED}.held", LONG, selector=selector())
    control.reserve(LONG, held.epoch, 1)
    control.begin(LONG, LONG, CANARY)


def branch(connection: blocking.Connection) -> None:
    """Prepare a branch whose identifiers are the canary."""
    session = connection.session("xa")
    xid = XaTransactionId(7, CANARY[:60].encode(), CANARY[:60].encode())
    session.xa.start(xid)
    session.create_producer(f"queue://{NAMED}.branches").send(CANARY)
    session.xa.end(xid)
    assert session.xa.prepare(xid)


@pytest.mark.long
def test_s21_markup_of_clients_runs_nothing_and_breaks_no_page(canaries: tuple[str, str], tmp_path: Path) -> None:
    base, followed = canaries
    begins = ["/admin", f"/admin/trace?trace={followed}"]
    begins += [f"/admin/{words}{quote(CANARY, safe='')}" for words in (
        "queues?q=", "queue?name=queue://", "messages?name=queue://A&selector=", "send?name=", "why?name=",
        "trace?dry_run=true&name=", "do/queues/purge?name=queue://", "login?next=/admin/",
    )]  # fmt: skip
    waiting, seen, faults, shown = list(reversed(begins)), set[str](), dict[str, object](), 0
    with browser() as window:
        log_in(window, base)
        while waiting and len(seen) < MAX_PAGES:
            path = waiting.pop()
            if kind_of(path) in seen:
                continue
            seen.add(kind_of(path))
            window.get(base + path)
            for width in WIDTHS:
                resize(window, width, 900)
                ran, elements, wide, has_canary = window.execute_script(LOOK)
                if ran or elements or wide > width or alert_is_present()(window):
                    faults[f"{path} at {width}"] = (ran, elements, wide)
            shown += bool(has_canary)
            said = [text for text in complaints(window) if "404" not in text and "400" not in text]
            if said:
                faults[path] = said
            waiting += [there for there in links(window) if there.startswith("/admin")]
    assert faults == {}
    assert shown > 30 and 50 < len(seen) < MAX_PAGES
