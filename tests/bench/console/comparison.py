"""Ten usual tasks of an operator in three consoles: clicks, fields and seconds, in the same browser.

    python -m tests.bench.console.comparison [--only spanwire] [--rounds 3]

Each task begins on the first page after the login of a broker with 120 queues, and ends when the page shows its result.
Clicks, fields and characters are counted as they are done. The seconds are those of a practised user by the keystroke-
level model of Card, Moran and Newell (Communications of the ACM 23:7, 1980): 1.2 s to think before each click or
field, 1.1 s to point, 0.2 s to click, 0.4 s to move the hand to the keyboard, 0.2 s for a character; a dialog of the
browser is answered with one key. The waits for pages are added as measured, as the median of some rounds. A task that
a console cannot do has a dash and the reason. Prints a table in Markdown.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

from selenium import webdriver
from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.expected_conditions import alert_is_present
from selenium.webdriver.support.wait import WebDriverWait

from tests.bench.console.compared_brokers import QUEUE, TARGET, Fill, activemq, rabbitmq, spanwire
from tests.service.started import TIMEOUT_S
from tests.support.browser import browser

THINK_S: Final = 1.2
POINT_S: Final = 1.1
CLICK_S: Final = 0.2
HOME_S: Final = 0.4
KEY_S: Final = 0.2
PART: Final = "077"
TRIES: Final = 5  # to click on an element of a page that follows changes
AS_NEW: Final = """
    for (const key of Object.keys(localStorage)) if (!/auth|cred|login|user/i.test(key)) localStorage.removeItem(key);
"""
TASKS: Final = (
    "see how many messages wait in one of 120 queues",
    "see who consumes from it",
    "send a text message to it",
    "read the first message",
    "find the message with a certain property",
    "move all its messages to another queue",
    "remove all its messages",
    "create a queue",
    "stop its consumers from getting more",
    "send a dead letter back to where it died",
)


@dataclass
class Hand:
    """Does what a user does, and counts it."""

    window: webdriver.Chrome
    clicks: int = 0
    fields: int = 0
    thought_s: float = 0.0
    waited_s: float = 0.0
    _since: float = field(default=0.0)

    def click(self, how: str, what: str) -> None:
        """Click on an element, once it is there."""
        for _ in range(TRIES):
            with suppress(StaleElementReferenceException):  # the page has been drawn anew in between
                self.find(how, what).click()
                break
        self._acted(THINK_S + POINT_S + CLICK_S)
        self.clicks += 1

    def write(self, how: str, what: str, text: str, *, enter: bool = False) -> None:
        """Click into a field, write, and press Enter."""
        element = self.find(how, what)
        element.clear()
        element.send_keys(text + (Keys.ENTER if enter else ""))
        self._acted(THINK_S + POINT_S + CLICK_S + HOME_S + KEY_S * (len(text) + enter))
        self.fields += 1

    def choose(self, how: str, what: str, option: str) -> None:
        """Open a list, and choose an entry."""
        self.find(how, what).click()
        self.find(By.XPATH, f"//option[normalize-space(.)='{option}']").click()
        self._acted(2 * (POINT_S + CLICK_S) + THINK_S)
        self.clicks += 2

    def agree(self) -> None:
        """Answer a dialog of the browser with a key."""
        WebDriverWait(self.window, TIMEOUT_S).until(alert_is_present()).accept()
        self._acted(THINK_S + KEY_S)
        self.clicks += 1

    def find(self, how: str, what: str) -> WebElement:
        """Wait for an element that can be seen; the wait counts."""
        began = self._since or time.monotonic()

        def shown(window: webdriver.Chrome) -> WebElement | bool:
            return next((one for one in window.find_elements(how, what) if one.is_displayed()), False)

        waiting = WebDriverWait(self.window, TIMEOUT_S, 0.02, [StaleElementReferenceException])
        found: WebElement = waiting.until(shown)
        if self._since:
            self.waited_s += time.monotonic() - began
            self._since = 0.0
        return found

    def _acted(self, seconds: float) -> None:
        self.thought_s += seconds
        self._since = time.monotonic()


Task = Callable[[Hand], None]


@dataclass(frozen=True)
class Console:
    """A console: how to reach its first page, and how it does each task, or why not."""

    name: str
    start: Callable[[webdriver.Chrome], None]
    tasks: tuple[Task | str, ...]


def xpath_link(text: str) -> tuple[str, str]:
    """The link or button with a text."""
    return By.XPATH, f"//*[self::a or self::button][normalize-space(.)='{text}']"


def s_find(hand: Hand, end: Callable[[Hand], object] = lambda hand: hand.find(*xpath_link(QUEUE))) -> None:
    hand.click(*xpath_link("Queues"))
    hand.write(By.ID, "q", PART, enter=True)
    end(hand)


def s_queue(hand: Hand) -> None:
    s_find(hand, lambda hand: hand.click(*xpath_link(QUEUE)))


def s_consumers(hand: Hand) -> None:
    s_queue(hand)
    hand.find(By.XPATH, "//section[h2='Consumers']//tbody/tr")


def s_send(hand: Hand) -> None:
    s_find(hand, lambda hand: hand.click(By.CSS_SELECTOR, "td.actions a[href^='/admin/send']"))
    hand.write(By.ID, "body", "hello")
    hand.click(By.CSS_SELECTOR, "main .buttons button")
    hand.find(By.XPATH, "//*[contains(., 'Sent 1 message')]")


def s_browse(hand: Hand) -> None:
    s_find(hand, lambda hand: hand.click(*xpath_link("Browse")))
    hand.find(By.CSS_SELECTOR, ".excerpt")


def s_property(hand: Hand) -> None:
    s_browse(hand)
    hand.write(By.ID, "selector", "number = '17'", enter=True)
    hand.find(By.XPATH, "//*[contains(., 'The selector was compared')]")


def s_move(hand: Hand) -> None:
    s_queue(hand)
    hand.click(*xpath_link("Move"))
    hand.write(By.ID, "target", TARGET, enter=True)
    hand.find(By.XPATH, "//*[contains(@class, 'notice') and starts-with(., 'Moved')]")


def s_purge(hand: Hand) -> None:
    s_find(hand, lambda hand: hand.click(By.CSS_SELECTOR, "td.actions a[href*='purge']"))
    hand.click(By.CSS_SELECTOR, "button.danger")
    hand.find(By.XPATH, "//*[contains(@class, 'notice') and starts-with(., 'Removed')]")


def s_create(hand: Hand) -> None:
    hand.click(*xpath_link("Queues"))
    hand.click(*xpath_link("Create a queue"))
    hand.write(By.ID, "name", f"new.{time.monotonic_ns()}"[:10], enter=True)
    hand.find(By.XPATH, "//*[contains(@class, 'notice') and contains(., 'exists now')]")


def s_pause(hand: Hand) -> None:
    s_queue(hand)
    hand.click(By.XPATH, "//button[.='Pause' or .='Resume']")
    hand.find(By.CSS_SELECTOR, ".notice.good")


def s_retry(hand: Hand) -> None:
    hand.click(*xpath_link("Dead letters"))
    hand.click(*xpath_link("Retry"))
    hand.click(By.CSS_SELECTOR, "main form button")
    hand.find(By.CSS_SELECTOR, ".notice.good")


def a_find(hand: Hand, end: Callable[[Hand], object] = lambda hand: hand.find(*xpath_link(QUEUE))) -> None:
    hand.click(*xpath_link("Queues"))
    hand.write(By.NAME, "QueueFilter", PART, enter=True)
    hand.find(By.XPATH, "//h2[contains(., 'filter')]")
    end(hand)


def a_link(hand: Hand, text: str) -> None:
    a_find(hand, lambda hand: hand.click(By.XPATH, f"//table[@id='queues']//a[normalize-space(.)='{text}']"))


def a_consumers(hand: Hand) -> None:
    a_link(hand, "Active Consumers")
    hand.find(By.XPATH, "//h2[contains(., 'Consumer')]")


def a_send(hand: Hand) -> None:
    a_link(hand, "Send To")
    hand.write(By.NAME, "JMSText", "hello")
    hand.click(By.CSS_SELECTOR, "input[value=Send]")
    hand.find(By.ID, "queues")


def a_read(hand: Hand) -> None:
    a_link(hand, "Browse")
    hand.click(By.CSS_SELECTOR, "#messages tbody td a")
    hand.find(By.XPATH, "//*[contains(., 'Message Details')]")


def a_purge(hand: Hand) -> None:
    a_link(hand, "Purge")
    hand.find(By.ID, "queues")


def a_create(hand: Hand) -> None:
    hand.click(*xpath_link("Queues"))
    hand.write(By.NAME, "JMSDestination", f"new.{time.monotonic_ns()}"[:10], enter=True)
    hand.find(By.ID, "queues")


def a_pause(hand: Hand) -> None:
    a_find(hand, lambda hand: hand.click(By.XPATH, "//table[@id='queues']//a[.='Pause' or .='Resume']"))
    hand.find(By.ID, "queues")


def a_retry(hand: Hand) -> None:
    hand.click(*xpath_link("Queues"))
    hand.click(By.XPATH, "//table[@id='queues']//td[1]/a[contains(@href, 'ActiveMQ.DLQ')]")
    hand.click(By.CSS_SELECTOR, "#messages tbody td a")
    hand.click(*xpath_link("Retry"))
    hand.agree()
    hand.find(By.XPATH, "//table[@id='messages' or @id='queues']")


def r_find(hand: Hand, end: Callable[[Hand], object] = lambda hand: hand.find(*xpath_link(QUEUE))) -> None:
    hand.click(By.XPATH, "//ul[@id='tabs']//a[.='Queues']")
    hand.write(By.ID, "queues-name", PART, enter=True)
    hand.find(By.XPATH, "//h2[contains(., 'Filtered: 1') or contains(., '(1')]")
    end(hand)


def r_queue(hand: Hand) -> None:
    r_find(hand, lambda hand: hand.click(*xpath_link(QUEUE)))


def r_open(hand: Hand, section: str) -> None:
    """Go to the queue, and open one of its sections, if it is not open from the last time."""
    r_queue(hand)
    hand.click(By.XPATH, f"//h2[starts-with(normalize-space(.), '{section}')]")


def r_consumers(hand: Hand) -> None:
    r_open(hand, "Consumers")
    hand.find(By.XPATH, "//h2[starts-with(normalize-space(.), 'Consumers')]/following-sibling::div//table")


def r_send(hand: Hand) -> None:
    r_open(hand, "Publish message")
    hand.write(By.NAME, "payload", "hello")
    hand.click(By.CSS_SELECTOR, "input[value='Publish message']")
    hand.find(By.XPATH, "//*[contains(., 'Message published')]")


def r_read(hand: Hand) -> None:
    r_open(hand, "Get messages")
    hand.click(By.CSS_SELECTOR, "input[value='Get Message(s)']")
    hand.find(By.CSS_SELECTOR, "pre.msg-payload")


def r_move(hand: Hand) -> None:
    r_open(hand, "Move messages")
    hand.write(By.NAME, "dest-queue", TARGET)
    hand.click(By.CSS_SELECTOR, "input[value='Move messages']")
    hand.find(By.ID, "queues-name")


def r_purge(hand: Hand) -> None:
    r_open(hand, "Purge")
    hand.click(By.CSS_SELECTOR, "input[value='Purge Messages']")
    hand.agree()
    hand.find(By.XPATH, "//*[contains(., 'Queue purged') or contains(., 'purged')]")


def r_create(hand: Hand) -> None:
    hand.click(By.XPATH, "//ul[@id='tabs']//a[.='Queues']")
    hand.click(By.XPATH, "//h2[starts-with(normalize-space(.), 'Add a new queue')]")
    hand.write(By.CSS_SELECTOR, "form[action='#/queues'] input[name=name]", f"new.{time.monotonic_ns()}"[:10])
    hand.click(By.CSS_SELECTOR, "input[value='Add queue']")
    hand.find(By.ID, "queues-name")


def s_start(base: str, window: webdriver.Chrome) -> None:
    window.get(f"{base}/admin")
    if window.find_elements(By.ID, "user"):
        window.find_element(By.ID, "user").send_keys("anna")
        window.find_element(By.ID, "password").send_keys("a-4711", Keys.ENTER)
        WebDriverWait(window, TIMEOUT_S).until(lambda page: page.current_url == f"{base}/admin")


def a_start(base: str, window: webdriver.Chrome) -> None:
    window.get(base.replace("//", "//admin:admin@"))


def r_start(base: str, window: webdriver.Chrome) -> None:
    window.get(base)
    window.execute_script(AS_NEW)  # sections and filters of the last round
    window.get("about:blank")
    window.get(base)
    waiting = WebDriverWait(window, TIMEOUT_S)
    waiting.until(lambda page: page.find_elements(By.NAME, "username") or page.find_elements(By.ID, "tabs"))
    if window.find_elements(By.NAME, "username"):
        window.find_element(By.NAME, "username").send_keys("guest")
        window.find_element(By.NAME, "password").send_keys("guest", Keys.ENTER)
    waiting.until(lambda page: page.find_elements(By.ID, "tabs"))


SPANWIRE_TASKS: Final = (
    s_find, s_consumers, s_send, s_browse, s_property, s_move, s_purge, s_create, s_pause, s_retry,
)  # fmt: skip
ACTIVEMQ_TASKS: Final = (
    a_find, a_consumers, a_send, a_read, "no search in messages", "one message at a time", a_purge, a_create,
    a_pause, a_retry,
)  # fmt: skip
RABBITMQ_TASKS: Final = (
    r_find, r_consumers, r_send, r_read, "no search in messages", r_move, r_purge, r_create,
    "the console cannot", "no retry; all can be moved to a queue that one names",
)  # fmt: skip


def cell(console: Console, number: int, window: webdriver.Chrome, fill: Fill, rounds: int) -> str:
    """Clicks, fields and seconds of a task."""
    task = console.tasks[number]
    if isinstance(task, str):
        return f"– ({task})"
    hands = []
    for _ in range(rounds):
        fill()
        console.start(window)
        hands.append(Hand(window))
        task(hands[-1])
    waited = statistics.median(hand.waited_s for hand in hands)
    hand = hands[0]
    return f"{hand.clicks} + {hand.fields}, {hand.thought_s + waited:.1f} s ({waited:.1f})"


def main() -> int:
    parser = argparse.ArgumentParser(description="Ten tasks in three consoles.")
    parser.add_argument("--only", choices=("spanwire", "activemq", "rabbitmq"))
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    columns: dict[str, list[str]] = {}
    made = (
        ("spanwire", spanwire, s_start, SPANWIRE_TASKS), ("activemq", activemq, a_start, ACTIVEMQ_TASKS),
        ("rabbitmq", rabbitmq, r_start, RABBITMQ_TASKS),
    )  # fmt: skip
    for name, broker, start, tasks in made:
        if options.only not in (None, name):
            continue
        with tempfile.TemporaryDirectory() as folder, broker(Path(folder)) as (base, fill), browser() as window:
            console = Console(name, partial(start, base), tasks)
            cells = columns.setdefault(name, [])
            for number, task in enumerate(TASKS):
                cells.append(cell(console, number, window, fill, options.rounds))
                sys.stderr.write(f"{name}: {task}: {cells[-1]}\n")
    sys.stdout.write(f"| task | {' | '.join(columns)} |\n|---|{'---|' * len(columns)}\n")
    for number, task in enumerate(TASKS):
        sys.stdout.write(f"| {task} | {' | '.join(cells[number] for cells in columns.values())} |\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
