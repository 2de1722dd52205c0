"""Every page and every operation of the console in a real browser, beside a broker that has one of everything."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlencode, urlsplit

import pytest
from selenium import webdriver
from selenium.common.exceptions import StaleElementReferenceException, TimeoutException
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.select import Select
from selenium.webdriver.support.wait import WebDriverWait

from spanwire.client import blocking
from spanwire.management.control_client import ControlClient
from spanwire.model.ids import XaTransactionId
from spanwire.web.console.operations.actions import OFFERED, path_of
from spanwire.web.console.operations.prompts import PROMPTS
from tests.bench.console.filled_broker import PASSWORD, USER, Filled, filled
from tests.bench.console.filled_network import BRIDGE, trace, until
from tests.service.started import TIMEOUT_S
from tests.service.test_console_access import axe, log_in, violations
from tests.support.browser import browser, complaints, require_browser
from tests.support.ports import free_port

MAX_PAGES: Final = 400
LONG_TASK: Final = 400  # messages of a task that goes on at one a second until it is cancelled
WORDS: Final = {
    "name",
    "id",
    "destination",
    "did",
    "count",
}  # of a query, whose values do not make another kind of page
RESULT: Final = ".notice[role=status], .notice[role=alert]"
AUDITED: Final = re.compile(rf"spanwire\.audit: .* for user {USER} at http://127\.0\.0\.1:\d+: (\S+) \{{.*\}} done")
TOPIC: Final = "topic://prices.eur"


@dataclass(frozen=True)
class Deed:
    """One operation by its form: words of the link to it, and what is written into its fields."""

    words: Mapping[str, str] = field(default_factory=dict)
    fields: Mapping[str, str] = field(default_factory=dict)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Filled]:
    """A broker with everything, and its network."""
    require_browser()
    with filled(tmp_path_factory.mktemp("everything")) as broker:
        yield broker


@pytest.fixture(scope="module")
def window(broker: Filled) -> Iterator[webdriver.Chrome]:
    """A browser that is logged in."""
    with browser() as window:
        log_in(window, broker.base, USER, PASSWORD)
        yield window


@pytest.mark.long
def test_every_page_that_links_lead_to_is_whole_and_breaks_no_rule_of_accessibility(
    window: webdriver.Chrome, broker: Filled
) -> None:
    source = axe()
    begins = ["/admin", f"/admin/trace?trace={broker.trace}", "/admin/trace?dry_run=true&name=shop.berlin.invoices"]
    begins += [path_of(operation) + ("?name=queue://A" if operation.subject else "") for operation in OFFERED]
    waiting, seen, faults = list(reversed(begins)), set[str](), dict[str, object]()
    while waiting and len(seen) < MAX_PAGES:
        path = waiting.pop()
        if kind_of(path) in seen:
            continue
        seen.add(kind_of(path))
        window.get(broker.base + path)
        wrong = violations(window, source)
        if window.execute_script("return document.documentElement.scrollWidth > innerWidth"):
            wrong.append("is wider than its window")
        wrong += [text for text in complaints(window) if "404" not in text and "400" not in text]
        if wrong:
            faults[path] = wrong
        waiting += [there for there in links(window) if there.startswith("/admin")]
    assert faults == {}
    assert 60 < len(seen) < MAX_PAGES


def kind_of(path: str) -> str:
    """A page with the words of its query, and with the values of those that make another page."""
    parts = urlsplit(path)
    pairs = (pair.partition("=") for pair in parts.query.split("&"))
    words = sorted(name if name in WORDS else name + mark + value[:8] for name, mark, value in pairs if name != "back")
    return f"{parts.path}?{'&'.join(words)}"


def links(window: webdriver.Chrome) -> list[str]:
    """The links of a page; of a table those of the first rows, as the others lead to pages of the same kind."""
    found = window.execute_script(
        "return [...document.querySelectorAll('a[href]')].map((one) => one.getAttribute('href'))"
    )
    return [str(one) for one in found if not re.search(r"logout|sort=|size=|page=|do/.*/(?:delete|purge)", str(one))]


@pytest.mark.long
def test_every_operation_is_done_by_its_form_without_javascript_and_is_audited(
    window: webdriver.Chrome, broker: Filled
) -> None:
    with ExitStack() as stack:
        deeds = all_deeds(broker, stack)
        assert set(deeds) == {path_of(operation).removeprefix("/admin/do") for operation in OFFERED}
        window.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
        results = {path: done(window, broker, path, deed) for path, deed in deeds.items()}
        window.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
    expected = {path_of(one).removeprefix("/admin/do"): pattern(PROMPTS[one.command].done) for one in OFFERED}
    wrong = {path: text for path, text in results.items() if not re.fullmatch(expected[path], text)}
    assert wrong == {}
    assert [text for text in complaints(window) if "409" not in text] == []
    until(lambda: {operation.command for operation in OFFERED} <= audited(broker))


def audited(broker: Filled) -> set[str]:
    """The commands of the lines of the audit with user and address."""
    found = (AUDITED.search(line) for line in list(broker.errors))
    return {match[1] for match in found if match}


@pytest.mark.long
def test_parameters_of_a_bridge_are_set_on_its_page(window: webdriver.Chrome, broker: Filled) -> None:
    control = ControlClient(broker.data, TIMEOUT_S)
    definition = BRIDGE.format(url=broker.broker_url, name="changed-here", target="refunds")
    control.ask("bridge-create", definition=definition)
    for name, text in (("maxBatchSize", "7"), ("maxBatchSize", "0"), ("selector", "region = 'zagreb'")):
        field = found_on(window, f"{broker.base}/admin/bridge?name=changed-here", name)
        field.clear()
        field.send_keys(text)
        button = window.find_element(By.CSS_SELECTOR, "main form .buttons button")
        button.click()
        WebDriverWait(window, TIMEOUT_S).until(lambda page: page.find_elements(By.CSS_SELECTOR, RESULT))
        result = window.find_element(By.CSS_SELECTOR, RESULT).text
        assert ("maxBatchSize" in result) if text == "0" else (result == "The parameters are set.")
    answer = control.ask("bridge-parameters", name="changed-here")
    assert isinstance(answer, dict)
    found = answer["parameters"]
    assert (found["maxBatchSize"], found["selector"]) == (7, "region = 'zagreb'")
    assert [text for text in complaints(window) if "409" not in text and "404" not in text] == []
    control.ask("bridge-delete", bridges=["changed-here"])


def found_on(window: webdriver.Chrome, address: str, name: str) -> WebElement:
    """Load a page until it has an element: the web process shares what the broker has said for a second."""

    def loaded(page: webdriver.Chrome) -> list[WebElement]:
        page.get(address)
        return list(page.find_elements(By.ID, name))

    return WebDriverWait(window, TIMEOUT_S).until(loaded)[0]


def pattern(text: str) -> str:
    """The result of an operation, with any number of messages; a task that goes on is one as well."""
    named = re.escape(text).replace(re.escape("{count}"), r"[\d,]+ messages?")
    return f"{named}|The task goes on; this page shows its progress\\."


def done(window: webdriver.Chrome, broker: Filled, path: str, deed: Deed) -> str:
    """Fill the form of an operation, send it, and return what the next page says."""
    window.get(f"{broker.base}/admin/do{path}?{urlencode(deed.words)}")
    for name, text in deed.fields.items():
        element = window.find_element(By.ID, name)
        if element.tag_name == "select":
            Select(element).select_by_visible_text(text)
        else:
            element.send_keys(text)
    button = window.find_element(By.CSS_SELECTOR, "main form .buttons button")
    button.click()

    def answer(page: webdriver.Chrome) -> str:
        return next((one.text for one in page.find_elements(By.CSS_SELECTOR, RESULT)), "")

    try:
        return str(WebDriverWait(window, TIMEOUT_S, ignored_exceptions=[StaleElementReferenceException]).until(answer))
    except TimeoutException:
        return f"nothing at {window.current_url}: {window.find_element(By.TAG_NAME, 'main').text[:200]}"


def all_deeds(broker: Filled, stack: ExitStack) -> dict[str, Deed]:
    """One deed for each operation, in an order in which none takes away what the next one needs."""
    control = ControlClient(broker.data, TIMEOUT_S)
    orders, dead = {"name": "queue://shop.zagreb.orders"}, {"name": "queue://DLQ.shop.lyon.payments"}
    topic, connector = {"name": TOPIC}, {"connectors": "further"}
    address = f"stomp://127.0.0.1:{free_port()}"
    bridge = {"bridges": "made-here"}
    definition = BRIDGE.format(url=broker.broker_url, name="made-here", target="refunds")
    move = task(control, "move", destinations=["queue://shop.tampere.orders"], target="kept.tampere")
    client = stack.enter_context(blocking.connect(broker.broker_url, USER, PASSWORD))
    session = client.session()
    producing = session.create_producer("queue://made.long")
    for _ in range(LONG_TASK):
        producing.send("x")
    slow = [task(control, "copy", destinations=["queue://made.long"], target=f"kept.{number}", rate=1)
            for number in range(2)]  # fmt: skip
    ended(control, move)
    control.ask("task-cancel", id=slow[1])
    ended(control, slow[1])
    link = next(row for row in rows(control, "status", "network_connectors") if row["name"] == "to-billing")
    trace(broker, "shop.lyon.orders")
    for _ in range(2):
        session.create_consumer("queue://ENDS")
    consumer, producer = rows(control, "consumers"), rows(control, "producers")
    ending = next(str(row["consumer_id"]) for row in consumer if row["destination"] == "queue://ENDS")
    waiting = next(str(row["producer_id"]) for row in producer)
    for number in range(2):
        prepare(broker, number)
    branches = [str(row["xid"]) for row in rows(control, "branches")]
    jobs = rows(control, "jobs")
    leaving = stack.enter_context(blocking.connect(broker.broker_url, USER, PASSWORD, client_id="leaving"))
    leaving.session()
    return {
        "/queues/create": Deed({}, {"name": "made.here"}),
        "/topics/create": Deed({}, {"name": "made.here"}),
        "/queues/pause": Deed(orders),
        "/queues/resume": Deed(orders),
        "/queues/statistics": Deed(orders, {"enabled": "yes"}),
        "/topics/statistics": Deed(topic, {"enabled": "no"}),
        "/queues/settings": Deed(orders, {"memory_limit_bytes": "1000000", "producer_flow_control": "no"}),
        "/topics/settings": Deed(topic, {"blocked_warning_ms": "1000", "audits_copies": "yes"}),
        "/queues/ungroup": Deed(orders),
        "/queues/copy": Deed(orders, {"target": "made.here", "limit": "2", "follow": "no"}),
        "/queues/move": Deed(orders, {"target": "made.there", "selector": "region = 'zagreb'", "limit": "2"}),
        "/queues/purge": Deed({"name": "queue://made.there"}),
        "/queues/retry": Deed(dead, {"limit": "1", "lifetime_ms": "0"}),
        "/queues/reset": Deed(orders),
        "/topics/reset": Deed(topic),
        "/queues/delete": Deed({"name": "queue://made.there"}),
        "/topics/delete": Deed({"name": "topic://made.here"}),
        "/broker/limits": Deed({}, {"memory_limit_bytes": "500000000"}),
        "/slow_consumer_strategies/change": Deed({"name": "topic://prices.>"}, {"max_slow_count": "-1"}),
        "/producers/reset": Deed({"producer_id": waiting}),
        "/consumers/reset": Deed({"consumer_id": ending}),
        "/consumers/end": Deed({"consumer_id": ending}),
        "/connectors/add": Deed({}, {"uri": address, "name": "further", "settings": "updateClusterClients=true"}),
        "/connectors/reset": Deed(connector),
        "/connectors/rebalance": Deed(connector),
        "/connectors/stop": Deed(connector),
        "/connectors/start": Deed(connector),
        "/connectors/remove": Deed(connector),
        "/subscriptions/create": Deed({}, {"client_id": "archive", "name": "all", "topic": "prices.eur"}),
        "/subscriptions/remove": Deed({"client_id": "archive", "name": "all"}),
        "/branches/commit": Deed({"xid": branches[0]}),
        "/branches/rollback": Deed({"xid": branches[1]}),
        "/jobs/remove": Deed({"job_id": str(jobs[0]["job_id"])}),
        "/jobs/remove_all": Deed(),
        "/connections/disconnect": Deed({"client": "leaving"}),
        "/tasks/undo": Deed({"id": move}),
        "/tasks/cancel": Deed({"id": slow[0]}),
        "/tasks/resume": Deed({"id": slow[1]}),
        "/log/level": Deed({}, {"logger": "spanwire.network", "level": "info"}),
        "/bridges/create": Deed({}, {"definition": definition, "format": "toml"}),
        "/bridges/pause": Deed(bridge),
        "/bridges/resume": Deed(bridge),
        "/bridges/restart": Deed(bridge),
        "/bridges/delete": Deed(bridge),
        "/network_connectors/add": Deed(
            {}, {"uri": f"static:(tcp://127.0.0.1:{free_port()})", "name": "further", "settings": "duplex=true"}
        ),
        "/links/reset": Deed({"name": "to-billing", "uri": str(link["uri"])}),
        "/links/stop": Deed(connector),
        "/links/start": Deed(connector),
        "/links/drain": Deed({"connectors": "to-billing"}),
        "/network_connectors/remove": Deed(connector),
        "/network_connectors/drain": Deed(
            {}, {"uri": str(link["uri"]), "queues": "made.here", "settings": "userName=anna\npassword=a-4711"}
        ),
    }  # fmt: skip


def rows(control: ControlClient, command: str, part: str = "") -> list[dict[str, object]]:
    """The rows of a view, or of a part of an answer."""
    answer = control.ask(command)
    if part:
        assert isinstance(answer, dict)
        answer = answer[part]
    assert isinstance(answer, list)
    return answer


def task(control: ControlClient, command: str, **arguments: object) -> str:
    """Begin an operation as a task, and return its id."""
    answer = control.ask(command, as_task=True, **arguments)
    assert isinstance(answer, dict)
    return str(answer["task"])


def ended(control: ControlClient, name: str) -> None:
    """Wait for the end of a task."""
    is_ended: Callable[[], bool] = lambda: next(  # noqa: E731
        row["state"] != "running" for row in rows(control, "tasks") if row["id"] == name
    )
    until(is_ended)


def prepare(broker: Filled, number: int) -> None:
    """Prepare a branch with a message, and leave it to an operator."""
    with blocking.connect(broker.broker_url, USER, PASSWORD) as connection:
        session = connection.session("xa")
        xid = XaTransactionId(7, b"everything", b"%d" % number)
        session.xa.start(xid)
        session.create_producer("queue://made.branches").send("in a branch")
        session.xa.end(xid)
        assert session.xa.prepare(xid)
