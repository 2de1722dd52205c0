"""The page of the ledger: sums with their terms, the verdict, and rows without messages."""

from __future__ import annotations

from starlette.testclient import TestClient

from spanwire.management.tables.ledger_tables import CAME, WENT
from spanwire.web.routes import application
from tests.support.fake_broker_link import FakeBrokerLink

HOST = "http://127.0.0.1:8161"


def row(name: str, difference: int = 0, **counts: int) -> dict[str, object]:
    terms: dict[str, object] = dict.fromkeys((*CAME, *WENT), 0)
    return {"destination": name, "scope": "stored", **terms, **counts, "difference": difference,
            "adds_up": not difference, "duplicates": 0, "suspects": []}  # fmt: skip


def page_of(*rows: dict[str, object], query: str = "") -> str:
    link = FakeBrokerLink()
    link.answers["ledger"] = list(rows)
    client = TestClient(application(link, is_loopback=True), base_url=HOST)
    text: str = client.get(f"/admin/ledger{query}", auth=("vera", "v-word")).text
    return text


def test_a_row_has_both_sums_with_their_terms_and_the_verdict() -> None:
    text = page_of(row("queue://A", sent=1_200, moved_in=34, acknowledged=1_000, expired=4, pending=230))
    assert 'data-label="Came in">1,234 <small>1,200 sent, 34 moved here</small>' in text
    assert 'data-label="Left">1,004 <small>1,000 acknowledged, 4 expired</small>' in text
    assert 'data-label="Pending">230<' in text
    assert 'class="state good">adds up</span>' in text


def test_an_equation_that_does_not_add_up_says_by_how_many() -> None:
    text = page_of(row("queue://A", 3, sent=3), row("queue://B", -2, purged=2))
    assert 'class="state bad">3 missing</span>' in text and 'class="state bad">2 too many</span>' in text


def test_rows_that_never_had_a_message_are_shown_when_asked_for() -> None:
    rows = (row("queue://A", sent=1, pending=1), row("removed destinations"))
    assert "removed destinations" not in page_of(*rows)
    assert "1 row<" in page_of(*rows)
    assert "removed destinations" in page_of(*rows, query="?all=1")
    assert "removed destinations" in page_of(row("removed destinations", sent=1, acknowledged=1))
    assert "No message has come" in page_of(row("removed destinations"))


def test_messages_lost_with_the_memory_are_counted_or_unknown_since_the_start() -> None:
    recent = {"scope": "since start"}
    stopped = page_of({**row("queue://A"), **recent, "lost": 1_200, "lost_is_known": True}, row("queue://A", sent=1))
    assert 'data-label="Lost with the memory">1,200<' in stopped  # also where nothing else has happened
    assert 'data-label="Lost with the memory">–<' in stopped
    crashed = page_of({**row("queue://A", sent=1), **recent, "lost": 0, "lost_is_known": False})
    assert 'data-label="Lost with the memory">unknown<' in crashed
