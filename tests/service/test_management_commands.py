"""`spanwire queue`, `topic`, `subscription` and their like, against a running broker."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Iterator

import pytest

from spanwire.cli.main import main
from spanwire.client.blocking import connect
from tests.service.started import Started

Told = Callable[..., str]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Started]:
    with Started(tmp_path_factory.mktemp("nouns"), attributes=' schedulerSupport="true"') as started:
        yield started


@pytest.fixture
def told(broker: Started, capsys: pytest.CaptureFixture[str]) -> Told:
    """Run a command in this process to its end; return what it prints."""

    def run(*words: str, status: int = 0) -> str:
        assert main([*words, "--data-directory", str(broker.data)]) == status
        printed = capsys.readouterr()
        assert (printed.err == "") == (status == 0)
        return printed.out + printed.err

    return run


def sent(broker: Started, destination: str, count: int, delay_ms: int | None = None) -> None:
    with connect(broker.broker_url) as connection, connection.session() as session:
        producer = session.create_producer(destination)
        for number in range(count):
            producer.send(f"{number}", {"number": number}, delay_ms=delay_ms)


def test_queues_are_created_listed_by_conditions_shown_and_deleted(broker: Started, told: Told) -> None:
    assert told("queue", "create", "LISTED.A") == "queue://LISTED.A: created true\n"
    told("queue", "create", "LISTED.B")
    sent(broker, "queue://LISTED.B", 3)
    lines = told("queue", "list", "LISTED.*").splitlines()
    assert lines[0].split()[:3] == ["destination", "pending", "in_flight"]
    assert [line.split()[:2] for line in lines[1:3]] == [["queue://LISTED.A", "0"], ["queue://LISTED.B", "3"]]
    assert lines[3:] == ["2 queues"]
    rows = json.loads(told("queue", "list", "LISTED.*", "--where", "pending>2", "--json"))
    assert [row["destination"] for row in rows] == ["queue://LISTED.B"]
    assert told(
        "queue", "list", "LISTED.*", "--limit", "1", "--sort", "pending", "--descending", "--view", "destination"
    ).splitlines() == [
        "destination",
        "queue://LISTED.B",
        "1 of 2 queues",
    ]
    shown = dict(line.split(None, 1) for line in told("queue", "show", "LISTED.B").splitlines())
    assert (shown["destination"], shown["pending"], shown["paused"]) == ("queue://LISTED.B", "3", "false")
    assert "average_size_bytes" in json.loads(told("queue", "show", "LISTED.B", "--json"))  # an attribute of one alone
    assert told("queue", "delete", "LISTED.A", "--yes").startswith("queue://LISTED.A: ")
    assert told("queue", "list", "LISTED.*").endswith("1 queue\n")
    assert re.fullmatch(r"none of \d+ queues? matches\n", told("queue", "list", "NOWHERE"))


def test_a_purge_shows_before_what_it_removes_and_asks(
    broker: Started, told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent(broker, "queue://PURGED.A", 4)
    sent(broker, "queue://PURGED.B", 2)
    effect = "purge queue://PURGED.A (4 pending), queue://PURGED.B (2 pending): 2 queues, 6 pending messages"
    assert told("queue", "purge", "PURGED.>", "--dry-run") == f"{effect}; nothing was changed\n"
    assert told("queue", "purge", "PURGED.>", "--yes", "--dry-run") == f"{effect}; nothing was changed\n"
    assert f"{effect}: nobody can be asked here, so give --yes" in told("queue", "purge", "PURGED.>", status=1)

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr("sys.stdin", Terminal("n\n"))
    assert f"{effect}\ngo on? [y/N] " in told("queue", "purge", "PURGED.>", status=1)
    monkeypatch.undo()
    assert told("purge", "PURGED.B", "--msgsel", "number = 0", "--reset") == "queue://PURGED.B: 1 messages removed\n"
    assert json.loads(told("queue", "show", "PURGED.B", "--json"))["enqueued"] == 0
    assert told("queue", "purge", "PURGED.>", "--selector", "number = 1", "--yes").splitlines() == [
        "queue://PURGED.A: removed 1",
        "queue://PURGED.B: removed 1",
    ]


def test_messages_are_sent_copied_moved_and_retried(
    broker: Started, told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("from standard input"))
    words = ("--property", "region=EU", "--property", "count=3", "--priority", "7")
    assert "message id ID:" in told("queue", "send", "FROM", "--body", "-", *words)
    assert told("queue", "copy", "FROM", "--target", "COPIES").startswith("queue://FROM: ")
    assert told("queue", "move", "FROM", "--target", "topic://GONE", "--selector", "region = 'EU' and count = 3")
    assert json.loads(told("queue", "show", "FROM", "--json"))["pending"] == 0
    (copy,) = [json.loads(line) for line in told("browse", "COPIES", "--json").splitlines()]
    assert (copy["body"], copy["priority"], copy["properties"]["count"]) == ("from standard input", 7, 3)


def test_subscriptions_consumers_connections_and_jobs_are_listed_and_ended(broker: Started, told: Told) -> None:
    assert told("subscription", "create", "billing", "invoices", "INVOICES", "--selector", "region = 'EU'")
    assert told("subscription", "show", "billing", "invoices").splitlines()[2].split() == ["topic", "topic://INVOICES"]
    assert told("subscription", "remove", "billing", "invoices", "--dry-run") == (
        "remove subscription billing invoices; nothing was changed\n"
    )
    assert told("subscription", "remove", "billing", "invoices", "--yes")
    assert told("subscription", "list") == "0 subscriptions\n"
    sent(broker, "queue://LATER", 1, delay_ms=3_600_000)
    (job,) = json.loads(told("job", "list", "--json"))
    assert told("job", "remove", job["job_id"], "--yes")
    assert told("job", "list") == "0 jobs\n"
    sent(broker, "queue://LATER", 2, delay_ms=3_600_000)
    assert told("job", "remove_all", "--dry-run") == "remove all job of 2 jobs; nothing was changed\n"
    assert told("job", "remove_all", "--yes").startswith("job: ")
    assert told("job", "list") == "0 jobs\n"
    with connect(broker.broker_url, client_id="ended") as connection, connection.session() as session:
        session.create_consumer("queue://ENDED")
        (row,) = json.loads(told("consumer", "list", "--where", "client_id=ended", "--json"))
        assert told("consumer", "end", row["consumer_id"], "--yes")
        assert told("connection", "list", "--where", "client_id=ended").endswith("1 connection\n")
        assert told("connection", "disconnect", "ended", "--yes")
        assert told("connection", "list", "--where", "client_id=ended") == "0 connections\n"


def test_advisory_topics_are_left_out_unless_a_pattern_names_them(broker: Started, told: Told) -> None:
    with connect(broker.broker_url) as connection, connection.session() as session:
        session.create_consumer("topic://ActiveMQ.Advisory.Connection")
        assert "advisory topics are left out: a pattern shows them" in told("topic", "list")
        assert "topic://ActiveMQ.Advisory.Connection" in told("topic", "list", "ActiveMQ.Advisory.*")


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (("queue", "show", "NOWHERE"), "there is no queue queue://NOWHERE; spanwire queue list shows all"),
        (("queue", "list", "--where", "pendin>1"), "there is no attribute 'pendin', did you mean pending?"),
        (("queue", "list", "--where", "pending"), "write ATTRIBUTE=VALUE"),
        (("queue", "list", "--view", "destinatio"), "--view: there is no attribute 'destinatio'"),
        (("queue", "send", "Q", "--body", "x", "--property", "alone"), "--property alone: write NAME=VALUE"),
        (("queue", "purge", "NOWHERE.>"), "purge: no queue matches queue://NOWHERE.>; spanwire queue list shows all\n"),
    ],
)
def test_a_mistake_is_one_line(told: Told, words: tuple[str, ...], part: str) -> None:
    line = told(*words, status=1)
    assert part in line
    assert line.count("\n") == 1


def test_an_unknown_action_is_answered_with_the_nearest_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["queue", "purg"]) == 2
    assert capsys.readouterr().err == "spanwire queue: there is no command 'purg'; did you mean purge?\n"
