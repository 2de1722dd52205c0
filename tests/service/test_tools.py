"""producer, consumer and browse against a running broker."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.service.started import Started, spanwire
from tests.support.ports import free_port


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Started]:
    with Started(tmp_path_factory.mktemp("tools")) as started:
        yield started


def told(broker: Started, *arguments: str) -> list[str]:
    done = spanwire(arguments[0], "--brokerUrl", broker.broker_url, *arguments[1:])
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout.splitlines()


@pytest.mark.parametrize(
    "options",
    [
        ("--messageCount", "25"),
        ("--message-count", "25", "--persistent", "false"),
        ("--messageCount=25", "--transactionBatchSize=10"),
    ],
)
def test_what_is_sent_is_received_in_order(broker: Started, options: tuple[str, ...]) -> None:
    (sent,) = told(broker, "producer", "--destination", "queue://T1", *options)
    assert sent.startswith("sent 25 messages in ")
    lines = told(broker, "consumer", "--destination", "T1", "--messageCount", "25", "--timeout", "30000")
    assert lines[:-1] == [f"test message: {number}" for number in range(25)]
    assert lines[-1].startswith("received 25 messages in ")


@pytest.mark.parametrize(
    "mode", ["SESSION_TRANSACTED", "AUTO_ACKNOWLEDGE", "CLIENT_ACKNOWLEDGE", "DUPS_OK_ACKNOWLEDGE"]
)
def test_every_way_to_acknowledge_takes_the_messages(broker: Started, mode: str) -> None:
    queue = f"queue://ACK.{mode}"
    told(broker, "producer", "--destination", queue, "--messageCount", "23")
    lines = told(broker, "consumer", "--destination", queue, "--messageCount", "23", "--ackMode", mode, "--quiet")
    assert lines[0].startswith("received 23 messages")
    assert told(broker, "browse", queue) == [f"0 messages in {queue}"]


def test_a_browse_shows_the_messages_and_leaves_them(broker: Started) -> None:
    told(broker, "producer", "--destination", "queue://B", "--message", "h\u00e9llo \u20ac", "--messageCount", "3")
    lines = told(broker, "browse", "--destination", "queue://B")
    assert len(lines) == 4
    assert all(line.endswith("TextMessage persistent priority=4 h\u00e9llo \u20ac") for line in lines[:3])
    assert lines[3] == "3 messages in queue://B"
    assert told(broker, "browse", "queue://B", "--message-count", "1")[1] == "1 messages in queue://B"
    assert told(broker, "consumer", "--destination", "queue://B", "--messageCount", "3", "--quiet")


def test_a_browse_prints_the_fields_that_activemqs_browse_prints(broker: Started) -> None:
    told(broker, "producer", "--destination", "queue://FIELDS.A", "--message", "one", "--messageCount", "1")
    told(broker, "producer", "--destination", "queue://FIELDS.B", "--message", "two", "--messageCount", "1")
    done = spanwire(
        "browse",
        "--amqurl",
        broker.broker_url,
        "--msgsel",
        "JMSPriority = 4",
        "--view",
        "JMSText",
        "FIELDS.A",
        "FIELDS.B",
    )
    assert done.stdout.splitlines() == [
        "JMS_BODY_FIELD:JMSText = one", "", "1 messages in queue://FIELDS.A",
        "JMS_BODY_FIELD:JMSText = two", "", "1 messages in queue://FIELDS.B",
    ]  # fmt: skip
    lines = told(broker, "browse", "FIELDS.A", "-Vheader,body")
    assert "JMS_HEADER_FIELD:JMSDeliveryMode = persistent" in lines
    assert "JMS_HEADER_FIELD:JMSDestination = FIELDS.A" in lines
    assert lines[-3:] == ["JMS_BODY_FIELD:JMSText = one", "", "1 messages in queue://FIELDS.A"]


def test_many_messages_are_browsed_to_the_end(broker: Started) -> None:
    told(broker, "producer", "--destination", "queue://LONG", "--messageCount", "1200", "--persistent", "false")
    assert told(broker, "browse", "queue://LONG")[-1] == "1200 messages in queue://LONG"


def test_bytes_are_sent_in_the_size_asked_for(broker: Started) -> None:
    told(broker, "producer", "--destination", "queue://BYTES", "--messageSize", "300000", "--messageCount", "2")
    lines = told(broker, "consumer", "--destination", "queue://BYTES", "--messageCount", "2")
    assert lines[:2] == ["(300000 bytes)", "(300000 bytes)"]


def test_bytes_are_printed_as_text_where_that_is_asked_for(broker: Started) -> None:
    told(broker, "producer", "--destination", "queue://TEXTS", "--messageSize", "3", "--messageCount", "1")
    lines = told(broker, "consumer", "--destination", "queue://TEXTS", "--messageCount", "1", "--bytesAsText")
    assert lines[0] == "xxx"


def test_a_text_has_the_size_asked_for(broker: Started) -> None:
    told(broker, "producer", "--destination", "queue://SIZED", "--textMessageSize", "1000", "--messageCount", "1")
    lines = told(broker, "consumer", "--destination", "queue://SIZED", "--messageCount", "1")
    assert len(lines[0]) == 1000
    assert lines[0].startswith("The quick brown fox")


def test_a_text_comes_from_a_file(broker: Started, tmp_path: Path) -> None:
    (tmp_path / "order.json").write_text('{"id": 7}', encoding="utf-8")
    url = f"file:{tmp_path}/order.json"
    told(broker, "producer", "--destination", "queue://FILES", "--payloadUrl", url, "--messageCount", "1")
    assert told(broker, "consumer", "--destination", "queue://FILES", "--messageCount", "1")[0] == '{"id": 7}'


def test_headers_are_sent_as_the_options_say(broker: Started) -> None:
    headers = ("--messagePriority", "7", "--msgTTL", "3600000", "--msgGroupID", "EU", "--disableMessageTimestamp")
    told(broker, "producer", "--destination", "queue://HEADERS", *headers, "--messageCount", "1")
    row = json.loads(told(broker, "browse", "queue://HEADERS", "--json")[0])
    assert (row["priority"], row["group_id"], row["timestamp_ms"]) == (7, "EU", 0)
    assert row["expiration_ms"] > 0


def test_several_sessions_send_and_receive_side_by_side(broker: Started) -> None:
    options = ("--destination", "queue://THREADS", "--parallelThreads", "3", "--messageCount", "20")
    assert told(broker, "producer", *options)[0].startswith("sent 60 messages in ")
    lines = told(broker, "consumer", *options, "--ackMode", "SESSION_TRANSACTED", "--timeout", "30000")
    assert lines[-1].startswith("received ")
    assert sorted(lines[:-1]) == sorted(f"test message: {number}" for number in range(20) for _ in range(3))


def test_a_selector_takes_what_it_selects(broker: Started) -> None:
    told(broker, "producer", "--destination", "queue://S", "--messageCount", "2")
    lines = told(broker, "consumer", "--destination", "queue://S", "--selector", "JMSPriority > 4", "--timeout", "300")
    assert lines[-1].startswith("received 0 messages")


def test_a_text_from_stomp_cannot_steer_the_terminal(broker: Started) -> None:
    with broker.stomp() as client:
        client.transact("SEND\ndestination:/queue/ESC\nreceipt:1\n\n\x1b[2Jx", "1")
    assert told(broker, "consumer", "--destination", "queue://ESC", "--messageCount", "1")[0] == "\\u001b[2Jx"


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (("consumer", "--selector", "a b"), "refuses the selector"),
        (("consumer", "--durable", "--destination", "topic://T"), "--durable needs --clientId and a topic"),
        (("browse", "topic://T"), "only queues can be browsed"),
        (("producer", "--destination", ""), "empty name"),
        (("browse", "Q", "-Vheadr"), "-V headr: the groups of fields are header, custom, body"),
        (("producer", "--messageSize", "5", "--message", "x"), "--message and --messageSize name two bodies"),
        (("producer", "--payloadUrl", "file:/nowhere/x"), "file:/nowhere/x: No such file or directory"),
        (("producer", "--payloadUrl", "http://127.0.0.1:x/"), "--payloadUrl http://127.0.0.1:x/: "),
        (("producer", "--payloadUrl", "http://[::1/"), "--payloadUrl http://[::1/: "),
        (("producer", "--messagePriority", "10"), "priority"),
        (("producer", "--parallelThreads", "2", "--destination", "temp-queue://x"), "temp-queue"),
    ],
)
def test_a_refusal_is_one_line(broker: Started, arguments: tuple[str, ...], part: str) -> None:
    done = spanwire(arguments[0], "--brokerUrl", broker.broker_url, *arguments[1:])
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert part in done.stderr


def test_a_port_that_speaks_something_else_is_told(broker: Started) -> None:
    done = spanwire("producer", "--brokerUrl", f"tcp://127.0.0.1:{broker.ports['stomp']}")
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1


def test_no_broker_is_told() -> None:
    done = spanwire("producer", "--brokerUrl", "tcp://127.0.0.1:1")
    assert done.returncode == 1
    assert "no connection to tcp://127.0.0.1:1" in done.stderr


@pytest.mark.parametrize(
    "url",
    [
        "failover:({0})?randomize=false",
        "failover:(tcp://127.0.0.1:1,{0})?initialReconnectDelay=10",
        "static:({0})",
        "discovery:(static:({0}))",
        "fanout:(static:({0}))?minAckCount=1&fanOutQueues=true",
        "{0}?jms.useCompression=true&wireFormat.tightEncodingEnabled=true",
    ],
)
def test_every_tool_takes_every_kind_of_address(broker: Started, url: str) -> None:
    address = url.format(broker.broker_url)
    for arguments, last in (
        (("producer", "--messageCount", "2"), "sent 2 messages"),
        (("browse",), "2 messages in queue://KINDS"),
        (("consumer", "--messageCount", "2", "--quiet"), "received 2 messages"),
    ):
        done = spanwire(arguments[0], "--brokerUrl", address, "--destination", "queue://KINDS", *arguments[1:])
        assert done.returncode == 0, done.stderr
        assert done.stdout.splitlines()[-1].startswith(last)


def test_a_tool_makes_the_broker_of_a_vm_address_that_there_is_not() -> None:
    done = spanwire("producer", "--brokerUrl", "vm://tools?broker.persistent=false", "--messageCount", "2")
    assert (done.returncode, done.stdout[:15]) == (0, "sent 2 messages"), done.stderr


def test_an_address_of_a_transport_that_is_not_there_yet_is_refused_in_one_line() -> None:
    done = spanwire("browse", "--brokerUrl", f"http://127.0.0.1:{free_port()}", "--destination", "queue://Q")
    assert done.returncode != 0
    assert len(done.stderr.splitlines()) == 1
