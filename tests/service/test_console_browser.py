"""The console in a real browser, beside a real broker."""

from __future__ import annotations

import base64
import re
import signal
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from pathlib import Path
from urllib.parse import quote

import pytest
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.support.expected_conditions import alert_is_present
from selenium.webdriver.support.wait import WebDriverWait

from spanwire.management.control_client import ControlClient
from tests.service.started import TIMEOUT_S, Started, StompClient
from tests.support.announcing_process import AnnouncingProcess
from tests.support.broker_process import COMMAND
from tests.support.browser import await_notice, browser, complaints, require_browser, resize

LISTENING = re.compile(r"Listening for web requests at: (http://127\.0\.0\.1:\d+)")
USERS = """\
  <plugins><simpleAuthenticationPlugin><users>
    <authenticationUser username="anna" password="a-4711" groups="admins,orders"/>
  </users></simpleAuthenticationPlugin></plugins>
"""
PATHS = (
    "/admin", "/admin/queues", "/admin/queue?name=queue://ORDERS", "/admin/topics?all=1", "/admin/connections",
    "/admin/network", "/admin/network-map", "/admin/tasks", "/admin/send", "/admin/do/queues/move?name=queue://ORDERS",
)  # fmt: skip
STRANGE = "<img src=x onerror=alert(1)>"


class Guarded(Started):
    """A broker with users."""

    def text(self) -> str:
        head, end, tail = super().text().partition("</broker>")
        return head + USERS.replace("{", "{{") + end + tail


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    """A broker with two queues."""
    require_browser()
    with Guarded(tmp_path_factory.mktemp("console")) as started:
        with StompClient(started.ports["stomp"], login=False) as client:
            client.send("CONNECT\naccept-version:1.2\nhost:localhost\nlogin:anna\npasscode:a-4711\n\n")
            assert client.receive().startswith("CONNECTED")
            for name in ("ORDERS", STRANGE):
                client.transact(f"SEND\ndestination:/queue/{name}\npersistent:true\nreceipt:1\n\n{STRANGE}", "1")
        yield started


@pytest.fixture(scope="module")
def console(started: Guarded, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of its console."""
    with served(started, tmp_path_factory.mktemp("log")) as base:
        yield base


@contextmanager
def served(started: Started, directory: Path, port: int = 0) -> Iterator[str]:
    """The address of a web process beside a broker."""
    log: list[str] = []
    command = [*COMMAND, "web", "--data-directory", str(started.data), "--port", str(port)]
    process = AnnouncingProcess(command, directory, log)
    process.wait_until(lambda line: LISTENING.search(line) is not None, TIMEOUT_S)
    yield next(match for line in log if (match := LISTENING.search(line)))[1]
    process.end(signal.SIGTERM)


@pytest.fixture(scope="module")
def window(console: str) -> Iterator[webdriver.Chrome]:
    """A browser that is logged in by the form."""
    with browser() as driver:
        driver.get(f"{console}/")
        driver.find_element(By.ID, "user").send_keys("anna")
        driver.find_element(By.ID, "password").send_keys("a-4711")
        driver.find_element(By.CSS_SELECTOR, "main button").click()
        WebDriverWait(driver, TIMEOUT_S).until(lambda page: page.current_url == f"{console}/admin")
        yield driver


def test_a_queue_is_found_from_the_overview(window: webdriver.Chrome) -> None:
    window.find_element(By.LINK_TEXT, "Queues").click()
    window.find_element(By.NAME, "q").send_keys("img")
    window.find_element(By.CSS_SELECTOR, "form.search button").click()
    window.find_element(By.LINK_TEXT, STRANGE).click()
    assert window.find_element(By.TAG_NAME, "h1").text == STRANGE
    assert complaints(window) == []


def test_an_operator_sends_a_message_and_purges_and_an_open_page_follows(
    window: webdriver.Chrome, console: str
) -> None:
    window.get(f"{console}/admin/queue?name=queue://ORDERS")
    watching = window.current_window_handle
    assert pending(window) == "1"
    WebDriverWait(window, TIMEOUT_S).until(lambda page: "follows" in page.find_element(By.ID, "live").text)
    window.switch_to.new_window("tab")
    window.get(f"{console}/admin/send?name=queue://ORDERS")
    window.find_element(By.ID, "body").send_keys(STRANGE)
    window.find_element(By.CSS_SELECTOR, "main .buttons button").click()
    await_notice(window, "Sent 1 message.")
    window.get(f"{console}/admin/messages?name=queue://ORDERS")
    assert [cell.text for cell in window.find_elements(By.CSS_SELECTOR, ".excerpt")] == [STRANGE] * 2
    window.close()
    window.switch_to.window(watching)
    WebDriverWait(window, TIMEOUT_S).until(lambda page: pending(page) == "2")
    window.find_element(By.LINK_TEXT, "Purge").click()
    window.find_element(By.CSS_SELECTOR, "button.danger").click()
    await_notice(window, "Removed 2 messages.")
    assert complaints(window) == []


@pytest.mark.parametrize("path", ["/admin", "/admin/queues", "/admin/queue?name=queue://LIVE"])
def test_a_send_of_a_client_appears_on_an_open_page(
    window: webdriver.Chrome, console: str, started: Guarded, path: str, record_property: Callable[[str, object], None]
) -> None:
    """Bounds of the wait are those of `tests/unit/web/console/test_age.py`; the seconds seen here are recorded."""
    with StompClient(started.ports["stomp"], login=False) as client:
        client.send("CONNECT\naccept-version:1.2\nhost:localhost\nlogin:anna\npasscode:a-4711\n\n")
        assert client.receive().startswith("CONNECTED")
        text = "SEND\ndestination:/queue/LIVE\npersistent:true\nreceipt:1\n\nx"
        client.transact(text, "1")
        window.get(console + path)
        WebDriverWait(window, TIMEOUT_S).until(lambda page: "follows" in page.find_element(By.ID, "live").text)
        before = pending_at(started, "queue://LIVE")
        WebDriverWait(window, TIMEOUT_S).until(lambda page: sent_to_live(page, path) == before)
        client.transact(text, "1")
        began = time.monotonic()
        WebDriverWait(window, TIMEOUT_S, 0.05).until(lambda page: sent_to_live(page, path) == before + 1)
        record_property("seconds", round(time.monotonic() - began, 2))


def test_a_change_of_the_moment_before_a_page_is_opened_is_shown_without_another_one(
    window: webdriver.Chrome, console: str, started: Guarded
) -> None:
    with StompClient(started.ports["stomp"], login=False) as client:
        client.send("CONNECT\naccept-version:1.2\nhost:localhost\nlogin:anna\npasscode:a-4711\n\n")
        assert client.receive().startswith("CONNECTED")
        client.transact("SEND\ndestination:/queue/LIVE\nreceipt:1\n\nx", "1")
        for _ in range(3):  # not each time is the answer for the page an earlier one than the first of its stream
            window.get("about:blank")  # no page follows changes meanwhile
            WebDriverWait(window, TIMEOUT_S).until(lambda page: is_shared(console))
            client.transact("SEND\ndestination:/queue/LIVE\nreceipt:1\n\nx", "1")
            window.get(f"{console}/admin/queues")
            count = pending_at(started, "queue://LIVE")
            WebDriverWait(window, TIMEOUT_S).until(
                lambda page, count=count: sent_to_live(page, "/admin/queues") == count
            )


def is_shared(console: str) -> bool:
    """Ask for the list, whose answer is shared for a second from then on."""
    request = urllib.request.Request(f"{console}/api/v1/queues")
    request.add_header("Authorization", "Basic " + base64.b64encode(b"anna:a-4711").decode("ascii"))
    with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:
        return bool(answer.status == 200)


def sent_to_live(window: webdriver.Chrome, path: str) -> int:
    """The pending messages of the queue on the overview, in the list of queues, or on its page."""
    if "name=" in path:
        return int(pending(window))
    found = window.execute_script(
        "return [...document.querySelectorAll('tbody tr')]"
        ".filter((row) => row.querySelector('th')?.innerText.trim() === 'LIVE')"
        ".map((row) => row.querySelector('td.number').innerText.trim())"
    )
    return int(found[0]) if found else 0  # a list of the second before the queue came


def pending_at(broker: Started, name: str) -> int:
    """The pending messages of a queue, as its broker says."""
    rows = ControlClient(broker.data, TIMEOUT_S).ask("destinations")
    assert isinstance(rows, list)
    return next(int(row["pending"]) for row in rows if row["destination"] == name)


def test_a_change_is_one_line_of_the_audit_with_user_and_address(
    window: webdriver.Chrome, console: str, started: Guarded
) -> None:
    window.get(f"{console}/admin/queue?name=queue://ORDERS")
    window.find_element(By.XPATH, "//button[.='Pause']").click()
    await_notice(window, "The dispatch is paused.")
    window.find_element(By.XPATH, "//button[.='Resume']").click()
    await_notice(window, "The dispatch goes on.")
    started.awaits('resume {"destinations": ["queue://ORDERS"]} done')
    lines = [line for line in started.errors if "spanwire.audit" in line and '["queue://ORDERS"]} done' in line]
    assert [(" for user anna at " in line, "127.0.0.1" in line) for line in lines] == [(True, True)] * len(lines)
    assert sum(' pause {"destinations"' in line for line in lines) == 1
    assert sum(' resume {"destinations"' in line for line in lines) == 1


def test_times_are_in_the_zone_of_the_viewer_with_utc_on_hover(window: webdriver.Chrome, console: str) -> None:
    window.execute_cdp_cmd("Emulation.setTimezoneOverride", {"timezoneId": "Asia/Kolkata"})
    window.get(f"{console}/admin/connections")
    moment = window.find_element(By.CSS_SELECTOR, "#made time")
    shown, utc = moment.text, str(moment.get_attribute("title"))
    assert utc.endswith(" UTC")
    kolkata = timezone(timedelta(hours=5, minutes=30))
    at = datetime.fromisoformat(str(moment.get_attribute("datetime"))).astimezone(kolkata)
    assert f"{at:%I:%M:%S}".lstrip("0") in shown
    assert "Asia/" in window.find_element(By.ID, "zone").text
    window.execute_cdp_cmd("Emulation.setTimezoneOverride", {"timezoneId": ""})


def test_s21_markup_of_clients_runs_nothing_in_a_browser(window: webdriver.Chrome, console: str) -> None:
    name = quote(f"queue://{STRANGE}", safe="")
    for path in (*PATHS, f"/admin/queue?name={name}", f"/admin/messages?name={name}", f"/admin/send?name={name}",
                 f"/admin/do/queues/purge?name={name}", f"/admin/queues?q={quote(STRANGE)}"):  # fmt: skip
        window.get(console + path)
        assert window.find_elements(By.CSS_SELECTOR, "[onerror], img:not(.brand img)") == [], path
        assert not alert_is_present()(window), path
    assert complaints(window) == []


def test_s23_no_page_is_shown_in_a_frame_of_another_page(window: webdriver.Chrome, console: str) -> None:
    frame = f"<iframe src='{console}/admin/do/queues/purge?name=queue://ORDERS'></iframe>"
    window.get(f"data:text/html,{quote(frame)}")
    window.switch_to.frame(0)
    assert window.find_elements(By.CSS_SELECTOR, "form") == []
    window.switch_to.default_content()
    complaints(window)


def pending(window: webdriver.Chrome) -> str:
    """The number of pending messages on the page of a queue."""
    text = window.execute_script("return document.querySelector('.figure dd').firstChild.textContent.trim()")
    return str(text)


def test_a_link_on_a_page_of_another_site_keeps_the_session(window: webdriver.Chrome, console: str) -> None:
    window.get(f"data:text/html,<a id=link href='{console}/admin/queues?q=img'>a ticket</a>")
    window.find_element(By.ID, "link").click()
    WebDriverWait(window, TIMEOUT_S).until(lambda page: page.find_elements(By.LINK_TEXT, STRANGE))
    assert window.current_url == f"{console}/admin/queues?q=img"


def test_the_form_of_the_demo_sends_a_message(window: webdriver.Chrome, console: str) -> None:
    window.get(f"{console}/demo/send.html")
    window.find_element(By.ID, "body").send_keys("hello")
    window.find_element(By.CSS_SELECTOR, "input[type=submit]").click()
    WebDriverWait(window, TIMEOUT_S).until(lambda page: page.current_url == f"{console}/demo/message/FOO/BAR")
    window.get(f"{console}/admin/messages?name=queue://FOO.BAR")
    assert [cell.text for cell in window.find_elements(By.CSS_SELECTOR, ".excerpt")] == ["hello"]


@pytest.mark.parametrize("width", [360, 3840])
def test_pages_fit_a_phone_and_a_large_screen(window: webdriver.Chrome, console: str, width: int) -> None:
    resize(window, width, 800)
    for path in PATHS:
        window.get(console + path)
        assert window.execute_script("return document.documentElement.scrollWidth") <= width, path
    assert complaints(window) == []
