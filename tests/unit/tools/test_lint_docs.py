"""The lint of the documentation, shown with planted faults that it sees each of them, and nothing where nothing is."""

from __future__ import annotations

import pytest

from tools.lint_docs import check, loaded_from_network

DOCS = "docs"  # apart, for the lint looks for paths of pages in tests, too
PAGE = f"{DOCS}/internals/page.md"


@pytest.mark.parametrize(
    ("path", "text"),
    [
        (PAGE, "`spanwire.client.nothing`"),
        (PAGE, "`spanwire.client.aio.nothing`"),
        (PAGE, "`tests.soak.nothing`"),
        (PAGE, "`broker/queue/nothing.py`"),
        (PAGE, "see\n`nothing.py`"),
        (PAGE, "`MessageNothing`"),
        (PAGE, "`Queue.nothing`"),
        (PAGE, "```python\nfrom spanwire.client import connect, nothing\n```"),
        ("README.md", f"[a page]({DOCS}/nothing.md#there)"),
    ],
)
def test_a_name_without_a_definition_is_a_fault(path: str, text: str) -> None:
    faults = list(check(path, text))
    assert len(faults) == 1
    assert "nothing" in faults[0].lower()


@pytest.mark.parametrize("begin", ["```python\nprint()\n```", "| a |", "- a", "## A"])
def test_a_page_without_a_first_sentence_is_a_fault(begin: str) -> None:
    assert len(list(check(PAGE, f"# Title\n\n{begin}\n"))) == 1
    for sentence in ("A sentence.", "`spanwire.client.aio` is a module.", "**Bold**", "[Link](a.md)"):
        assert list(check(PAGE, f"# Title\n\n{sentence}\n\n{begin}\n")) == []


@pytest.mark.parametrize(
    ("path", "text"),
    [
        (PAGE, "`spanwire.client.aio` `spanwire.client.connect` `spanwire.audit` `tests.soak.flood`"),
        (PAGE, "`broker/queue/queue.py` `tests/soak/flood.py` `queue.py` `datasource/source.py`"),
        (PAGE, "`Queue.accept` `MessageAck` `JMSRedelivered`"),
        (PAGE, "```python\nfrom spanwire.client import connect\n```"),
        (PAGE, '`hello.py`\n```python title="hello.py"\nprint()\n```'),
        (f"{DOCS}/guides/page.md", "`ActiveMQConnectionFactory`"),
        (f"{DOCS}/internals/adr/0001.md", "`spanwire.gone`"),
        ("README.md", "[a page](docs/README.md#there) [a site](https://spanwire.example)"),
    ],
)
def test_what_is_defined_is_no_fault(path: str, text: str) -> None:
    assert list(check(path, text)) == []


@pytest.mark.parametrize(
    "element",
    [
        '<script src="https://cdn.example/nothing.js">',
        "<link rel=stylesheet href=//fonts.example/nothing.css>",
        '<img alt="x" src="http://example/nothing.png">',
    ],
)
def test_a_page_that_loads_from_a_network_is_a_fault(element: str) -> None:
    assert len(loaded_from_network(f"<html>{element}</html>")) == 1


def test_links_and_files_of_the_site_are_no_fault() -> None:
    page = '<script src="../search.js"></script><a href="https://example">x</a><img src="report.png">'
    assert loaded_from_network(page) == []
