"""`spanwire why` against a running broker, over the control socket and HTTP API's operation."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import pytest

from spanwire.cli.main import main
from spanwire.client.blocking import connect
from spanwire.management.control_client import ControlClient
from tests.service.started import Started

Told = Callable[..., str]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Started]:
    links = '<networkConnectors><networkConnector name="away" uri="static:(tcp://127.0.0.1:9)"/></networkConnectors>'
    with Started(tmp_path_factory.mktemp("why"), inside=links) as started:
        yield started


@pytest.fixture
def told(broker: Started, capsys: pytest.CaptureFixture[str]) -> Told:
    """Run a command in this process to its end; return what it prints."""

    def run(*words: str, status: int = 0) -> str:
        assert main([*words, "--data-directory", str(broker.data)]) == status
        printed = capsys.readouterr()
        return printed.out + printed.err

    return run


def sent(broker: Started, destination: str) -> None:
    with connect(broker.broker_url) as connection, connection.session() as session:
        session.create_producer(destination).send("a")


def id_in(broker: Started, queue: str) -> str:
    """The id of the only message of a queue."""
    answer = ControlClient(broker.data).ask("browse", destination=queue)
    assert isinstance(answer, dict)
    (message,) = answer["messages"]
    return str(message["message_id"])


def test_a_message_is_explained_freed_by_the_advice_and_then_unknown_to_the_broker(broker: Started, told: Told) -> None:
    told("queue", "create", "WHY.A")
    told("queue", "pause", "WHY.A")
    sent(broker, "queue://WHY.A")
    message_id = id_in(broker, "queue://WHY.A")
    lines = told("why", message_id).splitlines()
    assert lines[0].startswith(f"message {message_id}: queue://WHY.A is paused since ")
    assert lines[0].endswith("[paused]")
    assert any("tested, queue://WHY.A: paused by an operator" in line for line in lines)
    assert "  do: spanwire queue resume 'WHY.A'" in lines
    told("queue", "resume", "WHY.A")
    answer = json.loads(told("why", "message", message_id, "--json"))
    (explanation,) = answer["explanations"]
    assert (answer["kind"], explanation["cause"], explanation["broker"]) == ("message", "link-down", "tested")
    assert any(one["object"] == "link away to tcp://127.0.0.1:9" for one in explanation["evidence"])
    with connect(broker.broker_url) as connection, connection.session() as session:
        assert session.create_consumer("queue://WHY.A").receive(10) is not None
    assert "has taken it, and has it no more" in told("why", message_id)


def test_a_name_without_its_kind_is_found_and_others_are_refused_with_words(broker: Started, told: Told) -> None:
    sent(broker, "topic://WHY.T")
    assert told("why", "WHY.T").startswith("topic topic://WHY.T: topic://WHY.T has no subscriber")
    assert told("why", "link", "away").startswith("link away to tcp://127.0.0.1:9: link away to tcp://127.0.0.1:9 is ")
    assert "this broker has no connection nobody" in told("why", "connection", "nobody", status=1)
    assert "has no message, and no queue or topic or" in told("why", "nothing", status=3)
    with pytest.raises(SystemExit):
        told("why", "quue", "WHY.T")


def test_a_connection_and_a_durable_subscription_are_explained(broker: Started, told: Told) -> None:
    with connect(broker.broker_url, client_id="billing") as connection, connection.session() as session:
        session.create_durable_subscriber("topic://WHY.D", "invoices")
        assert "nothing holds connection" in told("why", "connection", "billing")
        assert "subscription invoices of client billing has no messages" in told("why", "subscription", "invoices")
    sent(broker, "topic://WHY.D")
    text = told("why", "subscription", "invoices", "--clientId", "billing")
    assert "subscription invoices of client billing has no subscriber since" in text
