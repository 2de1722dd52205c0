"""`spanwire why --network` over a chain of brokers, with the logins of their links."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from spanwire.cli.main import main
from spanwire.client.blocking import connect
from spanwire.management.control_client import ControlClient
from tests.service.started import TIMEOUT_S, Started
from tests.service.test_network_reports import Member, until


def waiting_in(broker: Started, queue: str) -> str:
    """The id of the only message that waits in a queue."""
    deadline = time.monotonic() + TIMEOUT_S
    while True:
        ControlClient(broker.data).ask("create", destinations=[queue])
        answer = ControlClient(broker.data).ask("browse", destination=queue)
        assert isinstance(answer, dict)
        if answer["messages"]:
            return str(answer["messages"][0]["message_id"])
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_a_message_is_followed_over_two_links(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    queue = "queue://FAR"
    with Member(tmp_path / "c", "c", None) as c, Member(tmp_path / "b", "b", c.ports["tcp"]) as b:
        with Member(tmp_path / "a", "a", b.ports["tcp"]) as a:
            until(a, "a", "b", "c")
            with connect(c.broker_url, "bridge", "br-4711") as far, far.session() as session:
                consumer = session.create_consumer(queue, prefetch=1)
                with connect(a.broker_url, "bridge", "br-4711") as near, near.session() as sender:
                    producer = sender.create_producer(queue)
                    producer.send("first")
                    assert consumer.receive(TIMEOUT_S) is not None
                    producer.send("second")
                    producer.send("third")
                message_id = waiting_in(c, queue)
            assert main(["why", message_id, "--network", "--json", "--data-directory", str(a.data)]) == 0
            rows = json.loads(capsys.readouterr().out)["explanations"]
            assert [row["broker"] for row in rows] == ["a", "c", "b"]
            assert rows[1]["cause"] == "no-consumer"
            assert {one["broker"] for one in rows[1]["evidence"]} == {"c"}
            assert main(["why", message_id, "--network", "--data-directory", str(b.data)]) == 0
            assert f"c, {queue}: 0 consumers" in capsys.readouterr().out
