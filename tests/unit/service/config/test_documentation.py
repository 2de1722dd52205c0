"""What the pages show can be started."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from spanwire.service.config.reading import read_configuration

DOCS = Path(__file__).parents[4] / "docs"
FOLDERS = ("guides/configuration", "operations/security")
PAGES = sorted(page.relative_to(DOCS).as_posix() for folder in FOLDERS for page in (DOCS / folder).glob("*.md"))
EXAMPLES = [
    (page, kind, text)
    for page in PAGES
    for kind, text in re.findall(r"```(toml|xml)\n(.*?)```", (DOCS / page).read_text("utf-8"), re.DOTALL)
]


def test_the_page_about_configuring_shows_toml() -> None:
    assert any(page == "guides/configuration/toml.md" and kind == "toml" for page, kind, _ in EXAMPLES)


@pytest.mark.parametrize(("page", "text"), [(page, text) for page, kind, text in EXAMPLES if kind == "toml"])
def test_an_example_in_toml_loads_without_a_warning(page: str, text: str) -> None:
    configuration = read_configuration(text.encode("utf-8"), Path("/srv/b/conf/broker.toml"), {}, {})
    assert configuration.warnings == ()
    assert configuration.connectors


def test_the_obstacles_that_the_page_shows_are_those_that_are_told() -> None:
    shown = " ".join((DOCS / "guides/configuration/take-over-activemq-xml.md").read_text("utf-8").split())
    text = (
        "<broker><transportConnectors><transportConnector uri='amqp://0.0.0.0:5672?x=1'/></transportConnectors>"
        "<plugins><destinationDotFilePlugin/></plugins>"
        "</broker>"
    )
    with pytest.raises(Exception, match="skip-unsupported") as raised:
        read_configuration(text.encode("utf-8"), Path("a.xml"), {}, {})
    for line in str(raised.value).splitlines():
        assert line.removeprefix("a.xml:1: ") in shown
