"""`spanwire trace` against real brokers: one, and three in a chain, with the logins of their links."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from typing import Final

import pytest

from spanwire.cli.main import main
from spanwire.client.blocking import connect
from spanwire.management.control_client import ControlClient, ControlError
from spanwire.testing import Broker
from tests.service.started import TIMEOUT_S, Started
from tests.service.test_native_bridges import Bridged
from tests.service.test_network_reports import Member, until

Row = dict[str, object]
FAR: Final = "queue://FAR"
RIGHTS: Final = """
  <plugins><simpleAuthenticationPlugin><users>
    <authenticationUser username="app" password="app-4711" groups="users"/>
  </users></simpleAuthenticationPlugin>
  <authorizationPlugin><map><authorizationMap><authorizationEntries>
    <authorizationEntry queue="X" read="users" write="users" admin="users"/>
    <authorizationEntry queue="A" read="users" write="users" admin="users"/>
    <authorizationEntry queue="ActiveMQ.Spanwire.Control" read="users" write="users" admin="bridges"/>
    <authorizationEntry topic="ActiveMQ.Advisory.TempQueue" read="users" write="users" admin="users"/>
    <authorizationEntry topic="ActiveMQ.Advisory.TempTopic" read="users" write="users" admin="users"/>
    <authorizationEntry topic="ActiveMQ.Advisory.NetworkBridge" read="users" write="bridges" admin="bridges"/>
  </authorizationEntries></authorizationMap></map></authorizationPlugin></plugins>
"""


def begun(broker: Started, **arguments: object) -> str:
    """Start a trace; return its id."""
    answer = ControlClient(broker.data, TIMEOUT_S).ask("trace", **arguments)
    assert isinstance(answer, dict)
    return str(answer["trace"])


def read(broker: Started, trace: str) -> Row:
    answer = ControlClient(broker.data, TIMEOUT_S).ask("observations", trace=trace)
    assert isinstance(answer, dict)
    return answer


def seen(broker: Started, trace: str, count: int) -> list[Row]:
    """The observations of a trace, as soon as there are so many."""
    deadline = time.monotonic() + TIMEOUT_S
    while True:
        rows = read(broker, trace)["observations"]
        assert isinstance(rows, list)
        rows = [row for row in rows if row["step"] != "stored"]  # a message that is gone sooner is not written
        if len(rows) >= count:
            return rows
        assert time.monotonic() < deadline, rows
        time.sleep(0.1)


def test_a_message_is_followed_live_from_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Started(tmp_path) as broker, connect(broker.broker_url) as connection, connection.session() as session:

        def traffic() -> None:
            deadline = time.monotonic() + TIMEOUT_S
            while time.monotonic() < deadline:
                answer = ControlClient(broker.data, TIMEOUT_S).ask("observations")
                assert isinstance(answer, dict)
                if answer["traces"]:
                    break
                time.sleep(0.05)
            session.create_producer("queue://ORDERS").send("secret body", properties={"n": 7})
            assert session.create_consumer("queue://ORDERS").receive(TIMEOUT_S) is not None

        running = threading.Thread(target=traffic)
        running.start()
        words = ["trace", "ORDERS", "--selector", "n = 7", "--seconds", "3", "--json"]
        status = main([*words, "--data-directory", str(broker.data)])
        running.join()
        printed = capsys.readouterr()
        rows = [json.loads(line) for line in printed.out.splitlines()]
        assert [row["step"] for row in rows] == ["accepted", "stored", "dispatched", "acknowledged"]
        assert {row["broker"] for row in rows} == {"tested"}
        assert status == 0
        assert "secret" not in printed.out + printed.err
        assert main(["trace", "ORDERS", "--seconds", "1", "--data-directory", str(broker.data)]) == 3
        assert "its time is over; 0 messages were marked here" in capsys.readouterr().err
        assert main(["trace", "A.>", "--data-directory", str(broker.data)]) == 1
        assert "one queue or topic" in capsys.readouterr().err
        with pytest.raises(SystemExit):
            main(["trace", "ORDERS", "--rate", "2"])
        assert "--rate '2' is no share" in capsys.readouterr().err
        assert any("spanwire.audit" in line and ": trace {" in line and "n = 7" in line for line in broker.errors)


def test_a_message_is_followed_over_two_links_with_the_offsets_of_clocks(tmp_path: Path) -> None:
    with Member(tmp_path / "c", "c", None) as c, Member(tmp_path / "b", "b", c.ports["tcp"]) as b:
        with Member(tmp_path / "a", "a", b.ports["tcp"]) as a:
            until(a, "a", "b", "c")
            with connect(c.broker_url, "bridge", "br-4711") as far, far.session() as session:
                consumer = session.create_consumer(FAR)
                trace = begun(a, destination=FAR, network=True, seconds=30)
                with connect(a.broker_url, "bridge", "br-4711") as near, near.session() as sender:
                    sender.create_producer(FAR).send("one")
                    assert consumer.receive(TIMEOUT_S) is not None
                rows = seen(a, trace, 9)
            path = [(row["broker"], row["step"]) for row in sorted(rows, key=lambda row: int(str(row["hops"])))]
            for name, hops in (("a", 0), ("b", 1), ("c", 2)):
                steps = [row["step"] for row in rows if row["broker"] == name]
                ending = ["sent-on", "forwarded"] if name != "c" else ["dispatched", "acknowledged"]
                assert sorted(str(step) for step in steps) == sorted(["accepted", *ending]), path
                assert {row["hops"] for row in rows if row["broker"] == name} == {hops}
            assert len({row["message_id"] for row in rows}) == 1
            assert [row["location"] for row in rows if row["step"] == "sent-on" and row["broker"] == "a"] == [
                "broker b"
            ]
            brokers = read(a, trace)["brokers"]
            assert isinstance(brokers, list)
            assert [one["broker"] for one in brokers] == ["a", "b", "c"]
            for one in brokers[1:]:  # all have the clock of this machine
                assert abs(one["offset_ms"]) <= one["uncertain_ms"]
            assert brokers[1]["uncertain_ms"] < brokers[2]["uncertain_ms"]
            ended = ControlClient(a.data, TIMEOUT_S).ask("trace-end", trace=trace)
            assert isinstance(ended, dict)
            assert ended["ended"]
            with pytest.raises(ControlError, match="no trace"):
                read(b, trace)


def hops(broker: Started, **arguments: object) -> tuple[list[Row], bool]:
    """The hops of a dry run, and whether it is delivered."""
    answer = ControlClient(broker.data, TIMEOUT_S).ask("trace-dry-run", destination=FAR, **arguments)
    assert isinstance(answer, dict)
    return answer["hops"], answer["delivered"]


def test_a_dry_run_asks_each_hop_and_delivers_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Member(tmp_path / "c", "c", None) as c, Member(tmp_path / "b", "b", c.ports["tcp"]) as b:
        with Member(tmp_path / "a", "a", b.ports["tcp"]) as a:
            until(a, "a", "b", "c")
            with connect(c.broker_url, "bridge", "br-4711") as far, far.session() as session:
                consumer = session.create_consumer(FAR, selector="n > 5")
                deadline = time.monotonic() + TIMEOUT_S
                while not (found := hops(a, properties='{"n": 6}'))[1]:
                    assert time.monotonic() < deadline, found
                    time.sleep(0.2)
                assert [(one["broker"], one["end"]) for one in found[0]] == [("a", ""), ("b", ""), ("c", "delivered")]
                refused, is_delivered = hops(a, properties='{"n": 5}')  # a conduit looks at no selector
                assert not is_delivered
                assert [(one["broker"], one["end"]) for one in refused] == [("a", ""), ("b", ""), ("c", "held")]
                assert "n > 5" in str(refused[-1]["answers"])
                assert [one["broker"] for one in hops(a, **{"from": "b"}, properties='{"n": 6}')[0]] == ["b", "c"]
                unknown, _ = hops(b, **{"from": "a"})
                assert [(one["broker"], one["end"]) for one in unknown] == [("a", "unknown")]
                words = ["trace", "FAR", "--dry-run", "--property", "n=6", "--data-directory", str(a.data)]
                assert main(words) == 0
                lines = capsys.readouterr().out.splitlines()
                assert lines[0] == "a"
                assert lines[1].startswith("  to broker b: bridge ")
                assert "a -> b -> c" in lines
                assert consumer.receive(0.2) is None
                counts = ControlClient(a.data, TIMEOUT_S).ask("destination", destination=FAR)
                assert isinstance(counts, dict)
                assert counts["enqueued"] == 0


def test_a_message_is_followed_through_a_bridge_and_named_as_the_other_broker_has_it(tmp_path: Path) -> None:
    with Broker() as far, Bridged(tmp_path, far.url) as broker:
        broker.awaits_bridge("state", "running", "far.outbound.X")
        trace = begun(broker, destination="queue://X", selector="n = 2")
        with connect(broker.broker_url) as connection, connection.session() as session:
            producer = session.create_producer("queue://X")
            producer.send("one", properties={"n": 1})
            producer.send("two", properties={"n": 2})
        rows = seen(broker, trace, 5)
        assert {row["message_id"] for row in rows} == {rows[0]["message_id"]}
        by_step = {str(row["step"]): row for row in rows}
        assert set(by_step) == {"accepted", "dispatched", "taken", "bridged", "acknowledged"}
        assert by_step["taken"]["location"] == "bridge far.outbound.X"
        bridged = by_step["bridged"]
        assert (bridged["destination"], bridged["location"]) == ("queue://X", f"queue://X at {far.url}")
        with connect(far.url) as there, there.session() as reader:
            consumer = reader.create_consumer("queue://X")
            two = [consumer.receive(TIMEOUT_S) for _ in range(2)][1]
        assert two is not None
        assert bridged["detail"] == f"by bridge far.outbound.X, as message {two.message_id}"


class BridgedAs(Bridged):
    """A broker whose bridges log in at the other broker as a user."""

    def __init__(self, directory: Path, far_url: str, user: str, password: str) -> None:
        super().__init__(directory, far_url)
        self._login: Final = f'<property name="userName" value="{user}"/><property name="password" value="{password}"/>'

    def text(self) -> str:
        return super().text().replace("</bean>", f"{self._login}</bean>")


def test_a_message_is_followed_at_the_target_of_a_bridge_with_the_login_of_the_bridge(tmp_path: Path) -> None:
    with Member(tmp_path / "far", "far", None) as far:
        with BridgedAs(tmp_path / "near", far.broker_url, "bridge", "br-4711") as broker:
            broker.awaits_bridge("state", "running", "far.outbound.X")
            with connect(far.broker_url, "bridge", "br-4711") as there, there.session() as reader:
                consumer = reader.create_consumer("queue://X")
                reader.create_producer("queue://X").send("of others")
                assert consumer.receive(TIMEOUT_S) is not None
                trace = begun(broker, destination="queue://X", seconds=20)
                reader.create_producer("queue://X").send("of others")
                with connect(broker.broker_url) as connection, connection.session() as session:
                    session.create_producer("queue://X").send("one")
                assert [consumer.receive(TIMEOUT_S) is not None for _ in range(2)] == [True, True]
                rows = seen(broker, trace, 8)
        (bridged,) = [row for row in rows if row["step"] == "bridged"]
        beyond = [row for row in rows if row["broker"] == "far"]
        assert [row["step"] for row in beyond] == ["accepted", "dispatched", "acknowledged"]
        assert {str(row["message_id"]) for row in beyond} == {str(bridged["detail"]).rpartition(" ")[2]}
        assert {row["hops"] for row in beyond} == {1}


def test_a_bridge_whose_login_may_not_ask_says_why_the_trace_ends_there(tmp_path: Path) -> None:
    with Member(tmp_path / "far", "far", None, RIGHTS) as far:
        with BridgedAs(tmp_path / "near", far.broker_url, "app", "app-4711") as broker:
            trace = begun(broker, destination="queue://X", seconds=20)
            brokers = read(broker, trace)["brokers"]
        assert isinstance(brokers, list)
        (silent,) = [one for one in brokers if one["silence"]]
        assert "tells nothing" in silent["silence"]
        assert "only brokers of the network, and administrators, may ask" in silent["silence"]


def test_the_steps_of_the_last_half_second_belong_to_a_trace(tmp_path: Path) -> None:
    with Broker() as far, Bridged(tmp_path, far.url) as broker:
        broker.awaits_bridge("state", "running", "far.outbound.X")
        trace = begun(broker, destination="queue://X", seconds=30)
        with connect(broker.broker_url) as connection, connection.session() as session:
            session.create_producer("queue://X").send("one")
        ControlClient(broker.data, TIMEOUT_S).ask("trace-end", trace=trace)
        deadline = time.monotonic() + TIMEOUT_S
        while not (answer := read(broker, trace))["complete"]:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert {"taken", "bridged"} <= {str(row["step"]) for row in answer["observations"]}  # type: ignore[attr-defined]
