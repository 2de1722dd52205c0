"""The log of events: which kinds of events are written, and what never is (ActiveMQ, "LoggingBrokerPlugin")."""

from __future__ import annotations

import logging
from typing import Final

import pytest

from spanwire.broker.plugins.event_log import MAX_LOGGERS, EventLog, EventLogSettings
from spanwire.broker.plugins.plugin_settings import PluginSettings
from spanwire.broker.ports import NO_TOKEN
from spanwire.broker.transactions.xa_transactions import XA_RDONLY
from spanwire.model.acks import POISON_ACK
from spanwire.model.destination import parse_destination
from spanwire.model.ids import XaTransactionId
from tests.support.dialogue.broker_dialogue import START_MS, Stage
from tests.support.dialogue.text_format import text_message

Q: Final = "queue://Q"
NOTHING: Final = EventLogSettings(connections=False, sessions=False)
MODULE: Final = "spanwire.broker.event_log"  # the documented logger


def played(log: pytest.LogCaptureFixture, settings: EventLogSettings) -> list[str]:
    """What is written when clients do a little of everything: the kinds of events, in their order."""
    with log.at_level(logging.INFO, MODULE):
        stage = Stage(plugins=PluginSettings(event_log=settings))
        consumer = stage.peer("c", "client", "alice")
        listener = consumer.consumes(Q)
        producer = stage.peer("p")
        info = producer.producer(Q)
        producer.sends(Q, "SECRET")
        producer.sends(Q, "late", expiration_ms=START_MS - 1)
        stage.settle()
        listener.acknowledges("SECRET", ack_type=POISON_ACK, count=1)
        producer.begins(1)
        producer.rolls_back(1)
        producer.begins(2)
        producer.commits(2)
        xid = XaTransactionId(1, b"g", b"b")
        xa = stage.broker.xa
        xa.begin(producer.state, xid)
        assert xa.prepare(producer.state, xid, NO_TOKEN, stage.now) == XA_RDONLY
        xa.begin(producer.state, xid)
        xa.rollback(producer.state, xid, NO_TOKEN, stage.now)
        xa.begin(producer.state, xid)
        xa.commit(producer.state, xid, True, NO_TOKEN, stage.now)
        stage.broker.remove_producer(producer.state, info.producer_id, stage.now)
        listener.pulls(10)
        listener.leaves()
        producer.creates("queue://NEW")
        producer.removes("queue://NEW")
        consumer.leaves()
        stage.broker.stop(stage.now)
    return [record.getMessage().partition(":")[0] for record in log.records if record.name.startswith(MODULE)]


CONNECTIONS: Final = ["adding connection", "adding connection", "removing connection", "removing connection"]
SESSIONS: Final = ["adding session", "adding session"]
PRODUCERS: Final = ["adding producer", "sending message", "sending message", "removing producer"]
CONSUMERS: Final = ["adding consumer", "dispatching message", "acknowledging", "pulling", "removing consumer"]
TRANSACTIONS: Final = [
    *["beginning transaction"] * 5, "preparing transaction", *["rolling back transaction"] * 2,
    *["committing transaction"] * 2,
]  # fmt: skip
INTERNAL: Final = [
    *["adding destination"] * 3, "message has expired", "message was given up", "removing destination", "stopping",
]  # fmt: skip


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (NOTHING, []),
        (EventLogSettings(), [*CONNECTIONS, *SESSIONS]),
        (EventLogSettings(sessions=False), CONNECTIONS),
        (EventLogSettings(connections=False), SESSIONS),
        (EventLogSettings(connections=False, sessions=False, producers=True), PRODUCERS),
        (EventLogSettings(connections=False, sessions=False, consumers=True), CONSUMERS),
        (EventLogSettings(connections=False, sessions=False, transactions=True), TRANSACTIONS),
        (EventLogSettings(connections=False, sessions=False, internal=True), INTERNAL),
        (
            EventLogSettings(everything=True, connections=False),
            [*CONNECTIONS, *SESSIONS, *PRODUCERS, *CONSUMERS, *TRANSACTIONS, *INTERNAL],
        ),
    ],
)
def test_the_kinds_of_events_that_are_asked_for_are_written(
    caplog: pytest.LogCaptureFixture, settings: EventLogSettings, expected: list[str]
) -> None:
    assert sorted(played(caplog, settings)) == sorted(expected)


def test_bodies_and_passwords_are_not_in_it(caplog: pytest.LogCaptureFixture) -> None:
    played(caplog, EventLogSettings(everything=True))
    assert "alice" in caplog.text
    assert "SECRET" not in caplog.text
    assert "secret" not in caplog.text


def test_a_client_s_words_stay_on_one_line(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, MODULE):
        Stage(plugins=PluginSettings(event_log=EventLogSettings())).peer("c", "a\nb\x1b[31m" + "x" * 500)
    lines = [record.getMessage() for record in caplog.records]
    assert any("xxx" in line for line in lines)
    assert all(line.isprintable() and len(line) < 500 for line in lines)


def test_each_destination_has_a_logger_of_its_own_up_to_a_limit(caplog: pytest.LogCaptureFixture) -> None:
    log = EventLog(EventLogSettings(producers=True, per_destination=True))
    with caplog.at_level(logging.INFO, MODULE):
        for number in range(MAX_LOGGERS + 1):
            log.sending(text_message(parse_destination(f"topic://T.{number}"), 1))
    names = [record.name for record in caplog.records]
    assert names[0] == f"{MODULE}.Topic.T.0"
    assert names[-1] == MODULE
    assert len(set(names)) == MAX_LOGGERS + 1
