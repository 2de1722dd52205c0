"""What the page about testing promises is there."""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path

import pytest

from spanwire.testing import Broker, plugin
from spanwire.testing.queue import DestinationLook

pytest_plugins = ["pytester"]

GUIDES = Path(__file__).resolve().parents[3] / "docs/guides/testing"
FIRST = (GUIDES / "fixtures.md").read_text("utf-8")
PAGE = "\n".join([FIRST, *(path.read_text("utf-8") for path in GUIDES.glob("*.md") if path.name != "fixtures.md")])
BLOCKS = re.findall(r"```python(?: title=\S+)?\n(.*?)```", PAGE, re.DOTALL)


def test_every_example_is_python() -> None:
    assert len(BLOCKS) >= 6
    for block in BLOCKS:
        ast.parse(block.replace("…", "..."))


def test_the_first_example_runs(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_it=BLOCKS[0])
    quick = ("-p", "no:cacheprovider", "-p", "no:hypothesispytest")
    result = pytester.runpytest_subprocess(*quick, "-W", "error", timeout=120)
    result.assert_outcomes(passed=1)


def test_every_fixture_that_the_plugin_has_is_on_the_page_and_the_other_way_round() -> None:
    fixtures = {name for name in vars(plugin) if name.startswith("spanwire_")}
    named = set(re.findall(r"`(spanwire_\w+)`", PAGE.replace("`…_", "`spanwire_")))
    options = {"spanwire_configuration", "spanwire_open_clients", "spanwire_report_messages"}
    assert named == fixtures | options
    assert {option for option in options if f'"{option}"' in inspect.getsource(plugin)} == options


def test_every_attribute_of_a_broker_on_the_page_exists() -> None:
    used = set(re.findall(r"(?:spanwire_\w*broker|broker|network\[\"\w\"\])\.(\w+)", PAGE))
    assert {"url", "stomp_url", "purge", "restart", "vm_url", "clients", "links"} <= used
    unknown = {name for name in used if not hasattr(Broker, name)}
    assert unknown == {"persistent"}, "that one is an option of a vm: URL"
    for name in set(re.findall(r"queue\.(\w+)", PAGE)):
        assert hasattr(DestinationLook, name), name
