"""Dead letters of both brokers, by cause and back. Spark itself is not needed."""

from __future__ import annotations

import pytest

from spanwire.cli.main import main
from spanwire.client import Body, Properties, blocking
from spanwire.client.messages.typed_values import Byte, Long
from spanwire.model.errors import ConfigurationError
from spanwire.pipeline.archive.redrive import Group, group_dead_letters, redrive
from spanwire.pipeline.options import ReadOptions, read_options
from tests.support.queues import TIMEOUT_S, numbered, send, take_all

pytestmark = pytest.mark.long

DEAD = "ActiveMQ.DLQ"


def poison(url: str, queue: str, body: Body, properties: Properties) -> None:
    """Send a message and have it end among the dead letters: its consumer rejects it at the first delivery."""
    options = "?jms.redeliveryPolicy.maximumRedeliveries=0"
    with blocking.connect(url + options) as connection, connection.session(acknowledge="transacted") as session:
        producer = session.create_producer(f"queue://{queue}")
        producer.send(body, properties=properties)
        session.commit()
        consumer = session.create_consumer(f"queue://{queue}")
        assert consumer.receive(timeout=TIMEOUT_S) is not None
        session.rollback()
        assert consumer.receive(timeout=0.5) is None


def of(url: str, **options: str) -> ReadOptions:
    return read_options({"url": url, "destination": f"queue://{DEAD}", **options})


def test_dead_letters_are_told_by_cause_and_go_back_as_they_were(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    take_all(url, DEAD)
    poison(url, "REDRIVEN.A", "text", {"n": 1, "b": Byte(3)})
    poison(url, "REDRIVEN.A", {"k": Long(1), "b": Byte(2)}, {"n": 2})
    poison(url, "REDRIVEN.B", b"\x00", {"n": 3})
    found = group_dead_letters(of(url))
    assert {(group.destination, group.count) for group in found} == {
        ("queue://REDRIVEN.A", 2),
        ("queue://REDRIVEN.B", 1),
    }
    assert all("#" in group.cause or "olicy" in group.cause for group in found)
    assert main(["pipeline", "redrive", "--url", url, "--dry-run"]) == 0
    assert capsys.readouterr().out.startswith("2 to queue://REDRIVEN.A: ")
    assert redrive(of(url, selector="n < 3"), None, None, None, lambda: 0.0, lambda seconds: False) == 2
    text, mapped = take_all(url, "REDRIVEN.A")
    assert (text.body, text.typed_properties) == ("text", {"n": ("int", 1), "b": ("byte", 3)})
    assert mapped.body == {"k": 1, "b": 2} and mapped.kind == "map"
    assert group_dead_letters(of(url)) == [Group(found[-1].cause, "queue://REDRIVEN.B", 1)]
    assert main(["pipeline", "redrive", "--url", url, "--to", "REDRIVEN.C"]) == 0
    assert [message.body for message in take_all(url, "REDRIVEN.C")] == [b"\x00"]


def test_what_does_not_tell_its_destination_stays(url: str) -> None:
    take_all(url, DEAD)
    send(url, DEAD, numbered(2))
    with pytest.raises(ConfigurationError, match="has no original destination; name a destination with --to"):
        redrive(of(url), None, None, None, lambda: 0.0, lambda seconds: False)
    assert redrive(of(url), "REDRIVEN.D", 1, None, lambda: 0.0, lambda seconds: False) == 1
    assert len(take_all(url, DEAD)) == 1
    assert len(take_all(url, "REDRIVEN.D")) == 1
