"""bstat, query, purge and dlq retry against a running broker."""

from __future__ import annotations

import json
import socket
import subprocess
from collections.abc import Iterator

import pytest

from spanwire.management.control_client import ControlClient
from tests.service.started import TIMEOUT_S, Started, StompClient, spanwire


class WithClosedConnector(Started):
    """A broker with a third connector, closed until an operator starts it."""

    def text(self) -> str:
        closed = '<transportConnector name="later" uri="stomp://127.0.0.1:0" autoStart="false"/>'
        return super().text().replace("</transportConnectors>", f"{closed}</transportConnectors>")


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Started]:
    with WithClosedConnector(tmp_path_factory.mktemp("operations")) as started:
        yield started


def asked(broker: Started, *arguments: str) -> subprocess.CompletedProcess[str]:
    return spanwire(*arguments, "--data-directory", str(broker.data))


def told(broker: Started, *arguments: str) -> list[str]:
    done = asked(broker, *arguments)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout.splitlines()


def sends(broker: Started, queue: str, *headers: str) -> None:
    """One persistent message for each line of headers."""
    with broker.stomp() as client:
        for number, header in enumerate(headers):
            client.transact(
                f"SEND\ndestination:/queue/{queue}\npersistent:true\nreceipt:{number}\n{header}\n\nx", str(number)
            )


def dies(broker: Started, queue: str) -> None:
    """One message that its consumer refuses."""
    sends(broker, queue, "mine:kept")
    with broker.stomp() as client:
        client.send(f"SUBSCRIBE\nid:1\ndestination:/queue/{queue}\nack:client-individual\n\n")
        message = client.receive()
        ack = next(line for line in message.split("\n") if line.startswith("ack:"))
        client.transact(f"NACK\nid:{ack.removeprefix('ack:')}\nreceipt:n\n\n", "n")


def pending(broker: Started, queue: str) -> int:
    (found,) = json.loads("\n".join(told(broker, "query", f"-QQueue={queue}", "--json")))
    return int(found["attributes"]["QueueSize"])


def test_purge_removes_what_the_selector_chooses(broker: Started) -> None:
    sends(broker, "P.1", "n:1", "n:2", "n:3")
    assert told(broker, "purge", "P.1", "--msgsel", "n = '2'") == ["queue://P.1: 1 messages removed"]
    assert pending(broker, "P.1") == 2
    assert told(broker, "purge", "queue://P.1") == ["queue://P.1: 2 messages removed"]
    assert pending(broker, "P.1") == 0


def test_purge_takes_patterns_and_several_names(broker: Started) -> None:
    for name in ("W.1", "W.2", "V"):
        sends(broker, name, "n:1")
    assert told(broker, "purge", "W.>", "V") == [
        "queue://W.1: 1 messages removed",
        "queue://W.2: 1 messages removed",
        "queue://V: 1 messages removed",
    ]


def test_a_dead_letter_is_sent_back(broker: Started) -> None:
    dies(broker, "MORTAL")
    assert pending(broker, "ActiveMQ.DLQ") == 1
    assert told(broker, "dlq", "retry") == ["queue://ActiveMQ.DLQ: 1 messages retried"]
    assert pending(broker, "ActiveMQ.DLQ") == 0
    with broker.stomp() as client:
        client.send("SUBSCRIBE\nid:1\ndestination:/queue/MORTAL\n\n")
        message = client.receive()
    assert "\nmine:kept\n" in message
    assert "redelivered" not in message
    assert "dlqDeliveryFailureCause" not in message
    assert "original" not in message


def test_what_is_no_dead_letter_is_told(broker: Started) -> None:
    sends(broker, "MY.DLQ", "n:1", "n:2")
    assert told(broker, "dlq", "retry", "MY.DLQ", "--msgsel", "n = '1'") == [
        "queue://MY.DLQ: 0 messages retried, 1 left without an original destination"
    ]


def test_query_chooses_objects_and_attributes(broker: Started) -> None:
    for name in ("QQ.1", "QQ.2", "QQ.TEST"):
        sends(broker, name, "n:1")
    lines = told(broker, "query", "-QQueue=QQ.*", "-xQ", "Queue=*.TEST", "--view", "QueueSize,EnqueueCount")
    assert lines == [
        "type = Queue", "Name = QQ.1", "QueueSize = 1", "EnqueueCount = 1", "",
        "type = Queue", "Name = QQ.2", "QueueSize = 1", "EnqueueCount = 1",
    ]  # fmt: skip


def test_query_without_a_choice_gives_everything(broker: Started) -> None:
    with broker.stomp() as client:
        client.transact("SEND\ndestination:/topic/T\nreceipt:1\n\nx", "1")
        found = json.loads("\n".join(told(broker, "query", "--json")))
    assert {each["type"] for each in found} >= {"Broker", "Connector", "Connection", "Topic"}
    assert found[0]["name"] == "tested"


def test_bstat_leaves_the_advisory_topics_out(broker: Started) -> None:
    lines = told(broker, "bstat")
    assert lines[:2] == ["type = Broker", "Name = tested"]
    assert "type = Connector" in lines
    assert not any("ActiveMQ.Advisory." in line for line in lines)


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (("purge", "NOWHERE"), "there is no queue NOWHERE; spanwire dstat queues lists them"),
        (("purge", "topic://T"), "topic://T is no queue"),
        (("query", "-QQueues=*"), "there is no type Queues; did you mean Queue?"),
        (("query", "-QQueue"), "write -QTYPE=NAME"),
        (("query", "-QBroker=*", "--view", "Uptme"), "has an attribute Uptme; did you mean Uptime?"),
        (("dlq", "retry", "NOWHERE"), "there is no queue NOWHERE"),
    ],
)
def test_a_refusal_is_one_line(broker: Started, arguments: tuple[str, ...], part: str) -> None:
    done = asked(broker, *arguments)
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert part in done.stderr


def test_a_bad_selector_is_refused_and_nothing_is_removed(broker: Started) -> None:
    sends(broker, "S", "n:1")
    done = asked(broker, "purge", "S", "--msgsel", "n = = 1")
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert pending(broker, "S") == 1


def test_dlq_alone_says_what_there_is(broker: Started) -> None:
    done = asked(broker, "dlq")
    assert done.returncode == 2
    assert "name an action: retry" in done.stderr


def test_a_paused_queue_takes_messages_in_and_dispatches_none_until_it_is_resumed(broker: Started) -> None:
    sends(broker, "HALTED", "n:1")
    assert told(broker, "pause", "HALTED") == ["queue://HALTED: paused, 1 messages wait"]
    sends(broker, "HALTED", "n:2")
    (found,) = json.loads("\n".join(told(broker, "query", "-QQueue=HALTED", "--json")))
    assert (found["attributes"]["Paused"], found["attributes"]["QueueSize"]) == (True, 2)
    assert any(line.startswith("queue://HALTED") and line.endswith("paused") for line in told(broker, "dstat"))
    with broker.stomp() as client:
        client.send("SUBSCRIBE\nid:1\ndestination:/queue/HALTED\n\n")
        client.transact("SEND\ndestination:/queue/OTHER\nreceipt:r\n\nx", "r")  # no message came before the receipt
        assert told(broker, "resume", "HALTED")[0].startswith("queue://HALTED: dispatching")
        assert "\nn:1\n" in client.receive()
        assert "\nn:2\n" in client.receive()
    refused = asked(broker, "pause", "NOWHERE")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr == "spanwire pause: there is no queue NOWHERE; spanwire dstat queues lists them\n"


def subscribes_and_leaves(broker: Started, client_id: str, name: str, topic: str) -> None:
    """One durable subscription, and one message that waits for it."""
    with StompClient(broker.ports["stomp"], login=False) as client:
        client.send(f"CONNECT\naccept-version:1.2\nhost:localhost\nclient-id:{client_id}\n\n")
        assert client.receive().startswith("CONNECTED")
        client.transact(
            f"SUBSCRIBE\nid:1\ndestination:/topic/{topic}\nactivemq.subscriptionName:{name}\nreceipt:1\n\n", "1"
        )
        client.transact("DISCONNECT\nreceipt:2\n\n", "2")
    with broker.stomp() as client:
        client.transact(f"SEND\ndestination:/topic/{topic}\npersistent:true\nreceipt:3\n\nx", "3")


def test_durable_subscriptions_are_shown_everywhere_and_can_be_removed(broker: Started) -> None:
    subscribes_and_leaves(broker, "billing", "invoices", "EO")
    (row,) = json.loads("\n".join(told(broker, "subscription", "list", "--json")))
    assert (row["client_id"], row["name"], row["topic"], row["pending"]) == ("billing", "invoices", "topic://EO", 1)
    for words in (("dstat",), ("dstat", "topics"), ("subscription", "list"), ("bstat",)):
        assert any("invoices" in line for line in told(broker, *words)), words
    lines = told(broker, "query", "-QDurableSubscription=billing:*", "--view", "PendingQueueSize,Active")
    assert lines == ["type = DurableSubscription", "Name = billing:invoices", "Active = False", "PendingQueueSize = 1"]
    (message,) = map(json.loads, told(broker, "subscription", "browse", "billing", "invoices"))
    assert (message["destination"], message["body"]) == ("topic://EO", "x")
    assert told(broker, "subscription", "remove", "billing", "invoices", "--yes") == [
        "billing: name invoices, removed 1"
    ]
    broker.awaits("spanwire.audit: control socket, process")
    assert told(broker, "subscription", "list") == ["0 subscriptions"]


def test_the_status_says_how_full_the_broker_is(broker: Started) -> None:
    status = told(broker, "status")
    for name in ("memory: 0 % of", "store: ", "temp: ", "disk: "):
        assert any(line.startswith(name) for line in status), name
    (found,) = json.loads("\n".join(told(broker, "query", "-QBroker=*", "--json")))
    names = ("StorePercentUsage", "MemoryPercentUsage", "TempPercentUsage", "StoreLimit", "DiskFreeByteCount")
    assert all(found["attributes"][name] >= 0 for name in names)
    assert found["attributes"]["StoreUsageByteCount"] > 0


def test_an_empty_queue_is_deleted_and_one_with_messages_is_not(broker: Started) -> None:
    sends(broker, "OLD", "n:1")
    refused = asked(broker, "delete", "OLD")
    assert (refused.returncode, refused.stderr) == (1, "spanwire delete: queue://OLD has 1 messages: purge it first\n")
    told(broker, "purge", "OLD")
    assert told(broker, "delete", "OLD") == ["queue://OLD: deleted"]
    assert not any("OLD" in line for line in told(broker, "dstat", "queues"))


def test_a_client_is_listed_with_its_consumers_and_disconnected(broker: Started) -> None:
    with StompClient(broker.ports["stomp"], login=False) as client:
        client.send("CONNECT\naccept-version:1.2\nhost:localhost\nclient-id:unwanted\n\n")
        assert client.receive().startswith("CONNECTED")
        client.transact("SUBSCRIBE\nid:1\ndestination:/queue/C\nreceipt:1\n\n", "1")
        lines = told(broker, "query", "-QSubscription=*", "--view", "ClientId,DestinationName")
        assert lines[2:] == ["ClientId = unwanted", "DestinationName = queue://C"]
        (line,) = told(broker, "disconnect", "unwanted")
        assert line.endswith(": disconnected")
        assert "an operator has disconnected this client" in client.receive()
        assert client.at_end()


def test_a_queue_is_browsed_over_the_control_socket(broker: Started) -> None:
    sends(broker, "LOOK", "colour:red", "colour:blue")
    dies(broker, "POOR")
    lines = told(broker, "browse", "LOOK", "--selector", "colour = 'blue'")
    assert lines[0].endswith("TextMessage persistent priority=4 x")
    assert lines[1:] == ["1 of 2 waiting messages in queue://LOOK"]
    assert "  property colour: red" in told(broker, "browse", "LOOK", "--verbose")
    rows = [json.loads(line) for line in told(broker, "browse", "ActiveMQ.DLQ", "--json")]
    assert any("dlqDeliveryFailureCause" in row["properties"] and row["body"] == "x" for row in rows)
    assert any(line.startswith("  died of: ") for line in told(broker, "browse", "ActiveMQ.DLQ", "--verbose"))
    refused = asked(broker, "browse", "NOWHERE")
    assert (refused.returncode, "there is no queue NOWHERE" in refused.stderr) == (1, True)


def test_a_connector_is_stopped_with_its_connections_and_started_again(broker: Started) -> None:
    port = broker.ports["stomp"]
    with broker.stomp() as client:
        assert told(broker, "connector", "stop", "stomp") == [
            f"connector stomp: stomp://127.0.0.1:{port} stopped, 0 connections"
        ]
        with pytest.raises((EOFError, ConnectionError, AssertionError)):
            client.receive()
    with pytest.raises(ConnectionRefusedError):
        broker.stomp()
    assert told(broker, "connector", "start", "stomp", "stomp")[0].startswith("connector stomp: ")
    sends(broker, "AFTER", "n:1")
    listed = told(broker, "connector", "list")
    assert [line.split(",")[0].rpartition(" ")[2] for line in listed[:2]] == ["started", "started"]
    refused = asked(broker, "connector", "stop", "other")
    assert (refused.returncode, refused.stderr) == (
        1, "spanwire connector: unknown connector other; known are openwire, stomp, later\n",
    )  # fmt: skip
    broker.awaits('connector-stop {"connectors": ["stomp"]} done')


def test_a_connector_that_does_not_start_with_the_broker_is_opened_by_an_operator(broker: Started) -> None:
    closed = ["connector later: stomp://127.0.0.1:0 stopped, 0 connections"]
    assert told(broker, "connector", "list")[2:] == closed
    said = "Connector later is closed, because of autoStart: spanwire connector start later"
    assert any(line.endswith(said) for line in broker.output)
    (opened,) = told(broker, "connector", "start", "later")
    port = int(opened.split(":")[3].split(" ")[0])
    with StompClient(port) as client:
        client.transact("SEND\ndestination:/queue/LATER\nreceipt:1\n\nx", "1")
    assert told(broker, "connector", "stop", "later") == [closed[0].replace(":0 ", f":{port} ")]
    with pytest.raises(ConnectionRefusedError):
        StompClient(port)


def rows(answer: object) -> list[dict[str, object]]:
    assert isinstance(answer, list)
    return answer


def part(client: ControlClient, name: str) -> object:
    """A part of the broker's status."""
    status = client.ask("status")
    assert isinstance(status, dict)
    return status[name]


def test_a_connector_that_is_added_takes_clients_until_it_is_removed(broker: Started) -> None:
    client = ControlClient(broker.data)
    (added,) = rows(client.ask("connector-add", uri="stomp://127.0.0.1:0", name="more"))
    port = int(str(added["uri"]).rpartition(":")[2])
    with StompClient(port):
        shown = {row["name"]: row for row in rows(part(client, "connectors"))}
        assert (shown["more"]["connections"], shown["more"]["started"]) == (1, True)
    client.ask("connector-remove", connectors=["more"])
    assert "more" not in {row["name"] for row in rows(part(client, "connectors"))}
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(("127.0.0.1", port), TIMEOUT_S)


def test_limits_of_a_running_broker_are_changed(broker: Started) -> None:
    client = ControlClient(broker.data)
    client.ask("limits", memory_limit_bytes=123_456_789, maximum_uncommitted=7)
    statistics = part(client, "statistics")
    assert isinstance(statistics, dict)
    assert (statistics["memory_limit_bytes"], statistics["maximum_uncommitted"]) == (123_456_789, 7)
    sends(broker, "LIMITED", "n:1")
    client.ask("settings", destinations=["queue://LIMITED"], memory_limit_bytes=4_000_000)
    limited = client.ask("destination", destination="queue://LIMITED")
    assert isinstance(limited, dict)
    assert limited["memory_limit_bytes"] == 4_000_000
