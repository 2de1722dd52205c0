"""`spanwire query` with ActiveMQ's names of beans and their operations, and `spanwire stop` with several names."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from spanwire.cli.main import main
from spanwire.client.blocking import connect
from tests.service.started import Started, spanwire

Told = Callable[..., tuple[str, str]]
BROKER = "org.apache.activemq:type=Broker,brokerName=tested"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Started]:
    with Started(tmp_path_factory.mktemp("beans")) as started:
        yield started


@pytest.fixture
def told(broker: Started, capsys: pytest.CaptureFixture[str]) -> Told:
    """Run ``spanwire query`` in this process; return its output and its errors."""

    def run(*words: str, status: int = 0) -> tuple[str, str]:
        assert main(["query", *words, "--data-directory", str(broker.data)]) == status
        printed = capsys.readouterr()
        return printed.out, printed.err

    return run


def sent(broker: Started, name: str, count: int) -> None:
    with connect(broker.broker_url) as connection, connection.session() as session:
        producer = session.create_producer(f"queue://{name}")
        for number in range(count):
            producer.send(f"{number}", {"n": number})


def test_beans_are_chosen_by_properties_and_left_out(broker: Started, told: Told) -> None:
    for name in ("CHOSEN.A", "CHOSEN.B", "CHOSEN.TEST"):
        sent(broker, name, 1)
    out, _ = told(
        "--objname", "destinationType=Queue,destinationName=CHOSEN.*",
        "--xobjname", f"{BROKER},destinationType=Queue,destinationName=CHOSEN.TEST",
        "--view", "Name,QueueSize",
    )  # fmt: skip
    names = [line.partition("destinationName=")[2] for line in out.splitlines() if line.startswith("ObjectName = ")]
    assert names == ["CHOSEN.A", "CHOSEN.B"]
    assert sorted(line for line in out.splitlines() if line and not line.startswith("ObjectName")) == [
        "Name = CHOSEN.A", "Name = CHOSEN.B", "QueueSize = 1", "QueueSize = 1",
    ]  # fmt: skip


def test_the_words_of_older_names_and_of_q_choose_too(told: Told) -> None:
    by_old_name, _ = told("--objname", "Type=Broker,BrokerName=tested", "--xobjname", "destinationType=*", "--json")
    assert BROKER in [one["objectName"] for one in json.loads(by_old_name)]
    by_type, _ = told("-QConnector=*", "--xobjname", "connectorName=stomp", "--view", "Name", "--json")
    assert [one["attributes"] for one in json.loads(by_type)] == [{"Name": "openwire"}]


def test_a_detail_of_a_bean_can_be_viewed(broker: Started, told: Told) -> None:
    sent(broker, "DETAIL", 1)
    out, _ = told("--objname", f"{BROKER},destinationType=Queue,destinationName=DETAIL", "--view", "MaxBrowsePageSize")
    assert "MaxBrowsePageSize = 400" in out


def test_a_single_bean_is_shown_with_all_attributes_and_several_without_details(broker: Started, told: Told) -> None:
    for name in ("SINGLE.A", "SINGLE.B"):
        sent(broker, name, 1)
    out, _ = told("--objname", f"{BROKER},destinationType=Queue,destinationName=SINGLE.A")
    assert {"MaxBrowsePageSize = 400", "QueueSize = 1"} <= set(out.splitlines())
    assert "AverageEnqueueTime = " in out
    out, _ = told("--objname", f"{BROKER},destinationType=Queue,destinationName=SINGLE.*")
    assert (out.count("QueueSize = 1"), "MaxBrowsePageSize" in out) == (2, False)


def test_an_operation_is_invoked_on_each_chosen_bean(broker: Started, told: Told) -> None:
    sent(broker, "PURGED.A", 3)
    sent(broker, "PURGED.B", 2)
    planned, _ = told("-QQueue=PURGED.*", "--invoke", "purge", "--dry-run")
    assert planned.count("purge would be invoked") == 2
    out, _ = told("-QQueue=PURGED.*", "--invoke", "purge()")
    assert [line.partition("destinationName=")[2] for line in out.splitlines()] == ["PURGED.A: done", "PURGED.B: done"]
    sizes, _ = told("-QQueue=PURGED.*", "--objname", "destinationName=NOTHING", "--view", "QueueSize", "--json")
    assert [one["attributes"]["QueueSize"] for one in json.loads(sizes)] == [0, 0]


def test_arguments_reach_the_operation(broker: Started, told: Told) -> None:
    sent(broker, "MOVED", 4)
    out, _ = told(
        "-QQueue=MOVED", "--invoke", "moveMatchingMessagesTo(k IN ('x', 'y') OR n BETWEEN 1 AND 2, TARGET)", "--json"
    )
    assert [one["value"] for one in json.loads(out)] == [2]
    out, _ = told("-QQueue=MOVED", "--invoke", 'sendTextMessage({"JMSType": "t", "k": "a,b"}, "Hello, world")')
    assert out.startswith(f"{BROKER},destinationType=Queue,destinationName=MOVED: ID:")
    browsed, _ = told("-QQueue=MOVED", "--invoke", "browse(JMSType = 't')", "--json")
    (message,) = json.loads(browsed)[0]["value"]
    assert message["Text"] == "Hello, world" and message["StringProperties"]["k"]["value"] == "a,b"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("-QQueue=REFUSED", "--invoke", "destroyEverything"), "is not allowed; it has browse, browseAsTable"),
        (("-QQueue=REFUSED", "--invoke", "purge(1,2,3)"), "purge takes 0 or 1 arguments here"),
        (("-QQueue=REFUSED", "--invoke", "purge(many)"), "the number of messages is no whole number"),
        (("--objname", "type=Broker,brokerName=tested,service=Health", "--invoke", "stop"), "it has health"),
        (("-QConnector=openwire", "--invoke", "getClass"), "is not allowed"),
    ],
)
def test_what_is_not_allowed_is_one_clear_line(
    broker: Started, told: Told, words: tuple[str, ...], message: str
) -> None:
    sent(broker, "REFUSED", 1)
    out, err = told(*words, status=1)
    assert (
        out == "" and err.count("\n") == 1 and err.startswith("spanwire query: org.apache.activemq:") and message in err
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--invoke", "purge"), "choose the beans with -Q or --objname"),
        (("--objname", "destinationName=ABSENT", "--invoke", "purge"), "no bean has such a name"),
        (("-QQueue=A", "--invoke", "purge("), "write OPERATION or OPERATION(ARGUMENT, ARGUMENT)"),
        (("-QQueue=A", "--invoke", "purge('a)"), "' is missing at the end"),
        (("--objname", "Queue"), "write properties of a name"),
        (("--objname", "a=*****,b=*"), "a pattern has at most"),
        (("--objname", "destinationType=Queue", "--view", "QueueSiz"), "did you mean QueueSize?"),
    ],
)
def test_a_wrong_choice_is_one_clear_line(broker: Started, told: Told, words: tuple[str, ...], message: str) -> None:
    sent(broker, "A", 1)
    out, err = told(*words, status=1)
    assert out == "" and err.count("\n") == 1 and message in err


def test_several_brokers_are_stopped_by_name_and_an_unknown_one_is_said(tmp_path: Path) -> None:
    environment = {"XDG_RUNTIME_DIR": str(tmp_path)}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
        with Named(tmp_path / "one") as one, Named(tmp_path / "two") as two:
            answer = spanwire("stop", "one", "absent", "two", environment=environment)
            assert answer.stdout.splitlines() == ["one: stopped", "two: stopped"]
            assert answer.returncode == 1 and "absent: no running broker is named absent" in answer.stderr
            assert one.ended() == two.ended() == 0


class Named(Started):
    """A broker with the name of its directory."""

    def text(self) -> str:
        return super().text().replace('"tested"', f'"{self.directory.name}"')
