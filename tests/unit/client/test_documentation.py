"""The page about the client shows what there is: its programs run, its options are known, and none is left out."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from spanwire.client.addressing.address import parse_url
from spanwire.client.addressing.options import JMS, SOCKET, TLS
from spanwire.client.addressing.reconnect_policy import FAILOVER

DOCS = Path(__file__).resolve().parents[3] / "docs"
PAGES = [*sorted((DOCS / "guides/client").glob("*.md")), DOCS / "reference/client-urls.md"]
PAGE = "\n".join(path.read_text("utf-8") for path in PAGES)
PROGRAMS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize("program", PROGRAMS, ids=range(len(PROGRAMS)))
def test_every_program_is_python(program: str) -> None:
    compile(program, "client.md", "exec")


def test_every_option_that_can_be_set_is_told() -> None:
    told = set(re.findall(r"[\w.]+", PAGE))
    names = {name for name, (_, only) in {**JMS, **SOCKET, **TLS, **FAILOVER}.items() if not only}
    short = {name.rpartition(".")[2] for name in names}
    silent = {"reconnectSupported", "useReconnectDelay"}
    assert {name for name in short - silent if not any(word.endswith(name) for word in told)} == set()


@pytest.mark.parametrize("url", re.findall(r"`((?:tcp|ssl|vm|failover):\S+?)`", PAGE))
def test_every_address_is_understood(url: str) -> None:
    assert parse_url(url.replace("?options", "")).addresses
