"""The demo pages in a real browser over https: send, browse, receive."""

from __future__ import annotations

import re
from pathlib import Path

from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.support.wait import WebDriverWait

from tests.service.started import TIMEOUT_S, Started
from tests.support.browser import browser, complaints, require_browser
from tests.support.certificates import Authority

LISTENING = re.compile(r"Listening for web requests at: (https://127\.0\.0\.1:\d+)")
STRANGE = "Köln & <b>7 > 5</b>"


class Encrypted(Started):
    """A broker whose web port has TLS, and the demo pages at another path."""

    def text(self) -> str:
        self.key_store = Authority().issue().write_pem(self.directory / "broker.pem")
        keys = f'<sslContext><sslContext keyStore="file:{self.key_store}"/></sslContext>'
        web = '<web port="0" tls="true" mounts="demo=/activemq-web-demo"/>'
        return super().text().replace("<transportConnectors>", f"{keys}\n  {web}\n  <transportConnectors>")


def shows(window: webdriver.Chrome, words: str) -> None:
    """Wait until a page shows ``words``: a click may return before the answer is there."""
    WebDriverWait(window, TIMEOUT_S).until(lambda driver: words in driver.page_source)


def test_a_message_is_sent_browsed_and_received_by_the_demo_pages_over_https(tmp_path: Path) -> None:
    require_browser()
    with Encrypted(tmp_path) as broker, browser(accepts_any_certificate=True) as window:
        broker.awaits("Listening for web requests at")
        (url,) = [match[1] for line in broker.errors if (match := LISTENING.search(line))]
        welcome = f"{url}/activemq-web-demo"
        window.get(welcome)
        assert window.current_url == f"{welcome}/"
        window.find_element(By.LINK_TEXT, "Send a message").click()
        window.find_element(By.NAME, "body").send_keys(STRANGE)
        window.find_element(By.CSS_SELECTOR, "input[type=submit]").click()
        shows(window, "Message sent")
        assert complaints(window) == []
        window.get(welcome)
        window.find_element(By.LINK_TEXT, "Browse a queue as XML").click()
        shows(window, "Köln &amp; ")
        assert window.find_element(By.TAG_NAME, "text").text == STRANGE
        window.get(welcome)
        window.find_element(By.LINK_TEXT, "Receive a message").click()
        shows(window, "Köln &amp; ")
        window.get(f"{welcome}/queueBrowse/FOO/BAR")
        assert "message id" not in window.page_source
