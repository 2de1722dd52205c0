"""Pages of the console for everybody: rules of accessibility in light and dark, without a mouse, without JavaScript."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from selenium import webdriver
from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.wait import WebDriverWait

from spanwire.management.control_client import ControlClient
from tests.bench.console.filled_broker import LONG
from tests.bench.console.filled_network import bridge
from tests.bench.console.large_maps import reports, served_map
from tests.service.started import TIMEOUT_S
from tests.service.test_console_browser import Guarded, served
from tests.support.browser import await_notice, browser, complaints, require_browser, resize
from tests.support.fake_broker_link import FakeBrokerLink
from tests.support.ports import free_port

PATHS: Final = (
    "/admin", "/admin/queues", "/admin/queue?name=queue://ORDERS", "/admin/messages?name=queue://ORDERS",
    "/admin/topics?all=1", "/admin/subscribers", "/admin/connections", "/admin/consumers", "/admin/producers",
    "/admin/connectors", "/admin/network", "/admin/network-map", "/admin/network-map?destination=ORDERS",
    "/admin/network-lint", "/admin/network-connectors", "/admin/bridges", "/admin/branches", "/admin/pipelines",
    "/admin/scheduled", "/admin/dead-letters", "/admin/dead-letters?by=age", "/admin/send", "/admin/tasks",
    "/admin/do/queues/move?name=queue://ORDERS", "/admin/do/queues/retry?name=queue://ORDERS",
    "/admin/do/queues/create", "/admin/queue?name=queue://none", "/admin/ledger", "/admin/ledger?all=1", "/admin/why",
    "/admin/trace", "/admin/trace?dry_run=true&name=ORDERS", "/admin/trace?trace=none", "/admin/do/bridges/create",
    "/admin/do/bridges/delete?bridges=one", "/admin/do/network_connectors/add", "/admin/do/network_connectors/drain",
    "/admin/why?kind=queue&name=ORDERS", "/admin/why?name=nothing", "/admin/topic?name=topic://ActiveMQ.Advisory.Queue",
    "/admin/bridge?name=one",
)  # fmt: skip

# For each address of a broker in a table: the number of lines that it takes.
LINES_OF_ADDRESSES: Final = """
const lines = [];
const walker = document.createTreeWalker(document.querySelector("table tbody"), NodeFilter.SHOW_TEXT);
while (walker.nextNode()) {
  for (const found of walker.currentNode.data.matchAll(/tcp:[^ ]+/g)) {
    const range = document.createRange();
    range.setStart(walker.currentNode, found.index);
    range.setEnd(walker.currentNode, found.index + found[0].length);
    lines.push(range.getClientRects().length);
  }
}
return lines;
"""


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    """A broker with users."""
    require_browser()
    with Guarded(tmp_path_factory.mktemp("access")) as started:
        yield started


@pytest.fixture(scope="module")
def console(started: Guarded, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of its console."""
    with served(started, tmp_path_factory.mktemp("log")) as base:
        yield base


@pytest.fixture(scope="module")
def bridged(started: Guarded, console: str) -> str:
    """The address of the console, once the broker has a bridge."""
    bridge(started, "one", "refunds")
    return console


def log_in(window: webdriver.Chrome, console: str, user: str = "anna", password: str = "a-4711") -> None:
    window.get(f"{console}/")
    window.find_element(By.ID, "user").send_keys(user)
    window.find_element(By.ID, "password").send_keys(password)
    window.find_element(By.CSS_SELECTOR, "main button").click()
    WebDriverWait(window, TIMEOUT_S).until(lambda page: page.current_url == f"{console}/admin")


def axe() -> str:
    """The source of axe-core, where npm has installed it; it is no peer that every machine with tests must have."""
    folders = [folder for folder in os.environ.get("NODE_PATH", "").split(os.pathsep) if folder]
    if shutil.which("npm"):
        done = subprocess.run(["npm", "root", "--global"], capture_output=True, text=True, timeout=60, check=False)
        folders.append(done.stdout.strip())
    for folder in folders:
        path = Path(folder) / "axe-core" / "axe.min.js"
        if path.exists():
            return path.read_text("utf-8")
    pytest.skip("no axe-core (npm install --global axe-core, or NODE_PATH)")


def violations(window: webdriver.Chrome, source: str) -> list[object]:
    """The rules that the present page breaks, each with the first element; ``source`` is that of axe-core."""
    # The policy of the pages runs no foreign script, but the protocol of the browser's developers does.
    window.execute_cdp_cmd("Runtime.evaluate", {"expression": source})
    answer = window.execute_cdp_cmd(
        "Runtime.evaluate",
        {"expression": "axe.run().then(r => JSON.stringify(r.violations.map(v => [v.id, v.nodes[0].html])))",
         "awaitPromise": True, "returnByValue": True},
    )  # fmt: skip
    found = json.loads(answer["result"]["value"])
    assert isinstance(found, list)
    return found


@pytest.mark.long
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_page_breaks_a_rule_of_accessibility(bridged: str, scheme: str) -> None:
    source = axe()
    with browser() as window:
        log_in(window, bridged)
        feature = {"name": "prefers-color-scheme", "value": scheme}
        window.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})
        found = {}
        for path in PATHS:
            window.get(bridged + path)
            broken = violations(window, source)
            if broken:
                found[path] = broken
        assert found == {}


def test_reading_and_the_main_operations_need_no_javascript(console: str) -> None:
    with browser() as window:
        window.implicitly_wait(TIMEOUT_S)  # a click does not wait for the page that it leads to
        window.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
        log_in(window, console)
        window.get(f"{console}/admin/send")
        window.find_element(By.ID, "destination").send_keys("PLAIN")
        window.find_element(By.ID, "body").send_keys("hello")
        window.find_element(By.CSS_SELECTOR, "main .buttons button").click()
        await_notice(window, "Sent 1 message.")
        window.get(f"{console}/admin/messages?name=queue://PLAIN")
        assert [cell.text for cell in window.find_elements(By.CSS_SELECTOR, ".excerpt")] == ["hello"]
        window.find_element(By.CSS_SELECTOR, "td.check input").click()
        window.find_element(By.XPATH, "//button[.='Move']").click()
        window.find_element(By.ID, "target").send_keys("OTHER")
        window.find_element(By.CSS_SELECTOR, "main .buttons button").click()
        await_notice(window, "Moved 1 message.")
        window.get(f"{console}/admin/queue?name=queue://OTHER")
        window.find_element(By.XPATH, "//button[.='Pause']").click()
        assert window.find_element(By.CSS_SELECTOR, "h1 .state").text == "paused"
        window.find_element(By.LINK_TEXT, "Purge").click()
        window.find_element(By.CSS_SELECTOR, "button.danger").click()
        await_notice(window, "Removed 1 message.")
        window.get(f"{console}/admin/network-map?destination=OTHER&from=tested")
        assert window.find_element(By.TAG_NAME, "h1").text == "Network map"


def test_a_queue_is_purged_with_the_keyboard_alone(console: str) -> None:
    queue = f"KEYS.{time.monotonic_ns()}"  # a further attempt finds no message of the one before
    with browser() as window:
        log_in(window, console)
        window.get(f"{console}/admin/send?name=queue://{queue}")
        window.find_element(By.ID, "body").send_keys("x")
        window.find_element(By.CSS_SELECTOR, "main .buttons button").send_keys(Keys.ENTER)
        await_notice(window, "Sent 1 message.")
        window.get(f"{console}/admin/queue?name=queue://{queue}")
        press_until(window, "Skip to the content")
        assert active(window) == "content"
        press_until(window, "Purge")
        WebDriverWait(window, TIMEOUT_S).until(lambda page: "/purge" in page.current_url)
        press_until(window, "Remove 1 message")
        await_notice(window, "Removed 1 message.")


@pytest.mark.long
def test_parameters_of_a_bridge_are_set_with_the_keyboard_alone(bridged: str, started: Guarded) -> None:
    with browser() as window:
        log_in(window, bridged)
        window.get(f"{bridged}/admin/bridge?name=one")
        tab_to(window, "maxBatchSize")
        webdriver.ActionChains(window).send_keys("7").perform()  # a field that Tab has reached is chosen whole
        press_until(window, "Set parameters")
        await_notice(window, "The parameters are set.")
    answer = ControlClient(started.data, TIMEOUT_S).ask("bridge-parameters", name="one")
    assert isinstance(answer, dict) and answer["parameters"]["maxBatchSize"] == 7


def test_the_question_why_is_asked_and_its_advice_taken_without_javascript(console: str) -> None:
    with browser() as window:
        window.implicitly_wait(TIMEOUT_S)
        window.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
        log_in(window, console)
        window.get(f"{console}/admin/send?name=queue://STUCK")
        window.find_element(By.ID, "body").send_keys("x")
        window.find_element(By.CSS_SELECTOR, "main .buttons button").click()
        await_notice(window, "Sent 1 message.")
        window.get(f"{console}/admin/queue?name=queue://STUCK")
        window.find_element(By.XPATH, "//button[.='Pause']").click()
        window.find_element(By.PARTIAL_LINK_TEXT, "Why do its messages").click()
        assert window.find_element(By.CSS_SELECTOR, ".answer .state").text == "paused"
        window.find_element(By.PARTIAL_LINK_TEXT, "spanwire queue resume").click()
        window.find_element(By.CSS_SELECTOR, "main .buttons button").click()
        await_notice(window, "The dispatch goes on.")
        window.get(f"{console}/admin/why?kind=queue&name=STUCK")
        assert window.find_element(By.CSS_SELECTOR, ".answer .state").text == "no-consumer"


@pytest.mark.long
def test_an_open_page_says_that_its_session_has_ended(tmp_path: Path) -> None:
    require_browser()
    port = free_port()
    with Guarded(tmp_path / "broker") as started, browser() as window:
        with served(started, tmp_path, port) as console:
            log_in(window, console)
            WebDriverWait(window, TIMEOUT_S).until(lambda page: "follows" in page.find_element(By.ID, "live").text)
        with served(started, tmp_path, port):  # sessions are kept in memory alone
            WebDriverWait(window, TIMEOUT_S).until(lambda page: "has ended" in page.find_element(By.ID, "live").text)


def test_an_open_page_says_that_its_queue_is_gone(console: str) -> None:
    with browser() as window:
        log_in(window, console)
        window.get(f"{console}/admin/do/queues/create")
        window.find_element(By.ID, "name").send_keys("GONE", Keys.ENTER)
        await_notice(window, "It exists now.")
        window.get(f"{console}/admin/queue?name=queue://GONE")
        WebDriverWait(window, TIMEOUT_S).until(lambda page: "follows" in page.find_element(By.ID, "live").text)
        watching = window.current_window_handle
        window.switch_to.new_window("tab")
        window.get(f"{console}/admin/do/queues/delete?name=queue://GONE")
        window.find_element(By.CSS_SELECTOR, "button.danger").click()
        await_notice(window, "It is deleted.")
        window.switch_to.window(watching)
        WebDriverWait(window, TIMEOUT_S).until(lambda page: "is gone" in page.find_element(By.ID, "live").text)


def press_until(window: webdriver.Chrome, text: str) -> None:
    """Press Tab until an element with this text has the focus, then Enter."""
    for _ in range(60):
        webdriver.ActionChains(window).send_keys(Keys.TAB).perform()
        if window.switch_to.active_element.text == text:
            webdriver.ActionChains(window).send_keys(Keys.ENTER).perform()
            return
    raise AssertionError(f"no Tab leads to {text}")


def tab_to(window: webdriver.Chrome, name: str) -> None:
    """Press Tab until the element with this id has the focus."""
    for _ in range(60):
        webdriver.ActionChains(window).send_keys(Keys.TAB).perform()
        if active(window) == name:
            return
    raise AssertionError(f"no Tab leads to {name}")


def active(window: webdriver.Chrome) -> str:
    return str(window.execute_script("return document.activeElement.id"))


@pytest.mark.long
@pytest.mark.parametrize("width", [360, 1280, 3840])
def test_every_page_fits_its_window(bridged: str, width: int) -> None:
    with browser() as window:
        log_in(window, bridged)
        resize(window, width, 800)
        wide = {}
        for path in PATHS:
            window.get(bridged + path)
            shown = window.execute_script("return document.documentElement.scrollWidth")
            if shown > width:
                wide[path] = shown
        assert wide == {}
        window.get(f"{bridged}/admin/ledger?all=1")
        ends = window.execute_script(
            "return [...document.querySelectorAll('td .state')].map((one) => one.getBoundingClientRect().right)"
        )
        assert ends and max(ends) <= width  # the verdict is behind no scroll bar
        assert [one for one in complaints(window) if "404" not in one] == []


@pytest.mark.long
def test_a_wide_map_begins_with_the_broker_that_it_is_about_in_the_middle() -> None:
    require_browser()
    with served_map(60) as base, browser(360, 800) as window:
        window.get(f"{base}/admin/network-map")
        box = window.find_element(By.CSS_SELECTOR, "[aria-label=Map]")
        place = window.find_element(By.CSS_SELECTOR, ".map [data-middle]")
        assert float(str(place.get_attribute("cx"))) > 240  # it would stand at the right edge, or not be seen
        WebDriverWait(window, TIMEOUT_S).until(lambda page: int(str(box.get_attribute("scrollLeft"))) > 0)
        assert 120 < place.rect["x"] < 240


@pytest.mark.long
def test_a_map_that_grows_keeps_its_broker_in_the_middle_until_somebody_scrolls() -> None:
    require_browser()
    link = FakeBrokerLink(is_open=True)
    with served_map(40, link) as base, browser(360, 800) as window:

        def shown() -> tuple[float, int]:
            """Return the place of the broker in the window, and how far the map is scrolled."""
            place = window.find_element(By.CSS_SELECTOR, ".map [data-middle]")
            box = window.find_element(By.CSS_SELECTOR, "[aria-label=Map]")
            return place.rect["x"], int(str(box.get_attribute("scrollLeft")))

        def await_brokers(count: int) -> None:
            link.answers["network"] = {"brokers": reports(count)}
            WebDriverWait(window, TIMEOUT_S, ignored_exceptions=[StaleElementReferenceException]).until(
                lambda page: f"{count} brokers and" in page.find_element(By.ID, "map").text
            )

        window.get(f"{base}/admin/network-map")
        before, scrolled = shown()
        await_brokers(60)
        assert (140 < before < 200, 140 < shown()[0] < 200) == (True, True)
        assert shown()[1] != scrolled  # the broker has another place on the larger map
        window.execute_script("document.querySelector('[aria-label=Map]').scrollLeft = 7")
        await_brokers(50)
        assert shown()[1] == 7


@pytest.mark.long
def test_an_address_in_the_list_of_bridges_is_not_broken(bridged: str, started: Guarded) -> None:
    bridge(started, f"returns-{time.monotonic_ns()}", LONG)  # a further attempt has another name
    with browser() as window:
        log_in(window, bridged)
        resize(window, 1280, 800)
        window.get(f"{bridged}/admin/bridges")
        lines = window.execute_script(LINES_OF_ADDRESSES)
        assert lines and set(lines) == {1}
