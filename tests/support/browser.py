"""A headless Chromium, driven by selenium with Debian's programs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest
from selenium import webdriver
from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.support.wait import WebDriverWait

CHROMIUM: Final = Path("/usr/bin/chromium")
DRIVER: Final = Path("/usr/bin/chromedriver")
LOAD_S: Final = 60  # seconds for a page, on a machine that runs other tests meanwhile


def require_browser() -> None:
    """Go on only where there is a browser; it is no peer that every machine with tests must have."""
    if not CHROMIUM.exists() or not DRIVER.exists():
        pytest.skip(f"no {CHROMIUM} or no {DRIVER} (apt packages chromium, chromium-driver)")


@contextmanager
def browser(
    width: int = 1280, height: int = 900, *, accepts_any_certificate: bool = False
) -> Iterator[webdriver.Chrome]:
    """Run a browser with a window of this size."""
    options = webdriver.ChromeOptions()
    options.accept_insecure_certs = accepts_any_certificate
    options.binary_location = str(CHROMIUM)
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", f"--window-size={width},{height}"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options, Service(str(DRIVER)))
    try:
        driver.set_page_load_timeout(LOAD_S)
        resize(driver, width, height)
        yield driver
    finally:
        driver.quit()


def resize(driver: webdriver.Chrome, width: int, height: int) -> None:
    """Give the page another size; a window has a least width, a page has none."""
    size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)


def await_notice(driver: webdriver.Chrome, text: str) -> None:
    """Wait for the page to which a form leads, and for what it says of the result."""
    WebDriverWait(driver, LOAD_S, ignored_exceptions=[StaleElementReferenceException]).until(
        lambda page: [one.text for one in page.find_elements(By.CSS_SELECTOR, ".notice.good[role=status]")] == [text]
    )


def complaints(driver: webdriver.Chrome) -> list[str]:
    """Return errors and warnings of the browser's console since the last call."""
    return [entry["message"] for entry in driver.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")]
