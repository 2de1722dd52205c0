"""The programs of the pages for newcomers run, each against a broker of its own."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from spanwire.testing import Broker

FOLDER = Path(__file__).parents[2] / "docs/coming-from"
PROGRAMS = [
    (page.name, number, text)
    for page in sorted(FOLDER.glob("*.md"))
    for number, text in enumerate(re.findall(r"```python[^\n]*\n(.*?)```", page.read_text("utf-8"), re.DOTALL))
]
OF_STOMP_PY = "import stomp\n"


@pytest.mark.parametrize(("page", "number", "text"), PROGRAMS, ids=[f"{page}-{number}" for page, number, _ in PROGRAMS])
def test_a_program_of_a_page_runs(
    page: str, number: int, text: str, spanwire_broker_factory: Callable[..., Broker]
) -> None:
    broker = spanwire_broker_factory(users={"shop": "secret"})
    text = text.replace("tcp://localhost:61616", broker.url)
    text = text.replace('("localhost", 61613)', f"({broker.host!r}, {broker.stomp_port})")
    exec(compile(text, f"{page}-{number}", "exec"), {"__name__": "program"})  # noqa: S102
    consumed = "acknowledge()" in text
    broker.queue("ORDERS").wait_for(enqueued=1, pending=0 if consumed else 1)
    if not consumed:
        (message,) = broker.queue("ORDERS").messages()
        assert message.persistent
        assert message.body in ("one book", b"one book")
        assert message.properties == {"shop": "north"}


def test_every_page_with_a_client_of_its_own_shows_a_program() -> None:
    assert {page for page, _, _ in PROGRAMS} == {"rabbitmq.md", "stomp-py.md"}
    assert any(text.startswith(OF_STOMP_PY) for _, _, text in PROGRAMS)
