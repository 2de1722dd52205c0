"""The JMS bridge between brokers: bodies of all kinds, headers, and messages that cannot be sent."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spanwire.client import Body, blocking
from spanwire.client.messages.message import Message
from spanwire.client.messages.message_encoder import Outgoing
from spanwire.client.messages.typed_values import Byte, Serialized, Short
from spanwire.model.errors import ConfigurationError
from spanwire.pipeline.routes.query import AVAILABLE_NOW
from spanwire.pipeline.routes.route_runner import run_routes
from spanwire.pipeline.routes.supervisor import RouteEvent
from tests.spark.test_routes import END_S, routes, run
from tests.support.broker_process import BrokerProcess
from tests.support.queues import take_all

BRIDGE = """
- jmsBridge:
    name: kinds
    source: {uri: "jms:queue:BRIDGED?brokerURL={{from}}"}
    target: {uri: "jms:queue:BRIDGED?brokerURL={{to}}"}
    addMessageIDInHeader: true
"""
JAVA_OBJECT = b"\xac\xed\x00\x05t\x00\x05hello"
BODIES: list[Body] = [
    "a text",
    "",
    b"\x00\xff",
    {"byte": Byte(1), "short": Short(2), "text": "x", "octets": b"\x01", "none": None},
    {},
    [Byte(1), "x", b"\x02"],
    Serialized(JAVA_OBJECT),
    None,
]
BRIDGES_OWN = ("ACTIVEMQ_BRIDGE_MSG_ID_LIST", "_AMQ_DUPL_ID")
YEAR_MS = 31_536_000_000


def send_all_kinds(url: str) -> list[Message]:
    """Each body once as it is and once compressed, with headers and properties; as a browser shows them."""
    for compresses in ("false", "true"):
        with (
            blocking.connect(f"{url}?jms.useCompression={compresses}") as connection,
            connection.session(acknowledge="transacted") as session,
        ):
            producer = session.create_producer("queue://BRIDGED")
            for number, body in enumerate(BODIES):
                producer.send(
                    body,
                    properties={"n": number, "flag": True, "share": 0.5, "small": Byte(3)},
                    message_type="order",
                    correlation_id=f"c{number}",
                    reply_to="queue://ANSWERS",
                    persistent=number % 2 == 0,
                    priority=number,
                    group_id="g",
                    group_sequence=number + 1,
                    time_to_live_ms=YEAR_MS,
                )
            session.commit()
    with blocking.connect(url) as connection, connection.session() as session:
        return list(session.create_browser("queue://BRIDGED"))


def described(message: Message) -> dict[str, object]:
    headers = message.headers
    properties = {name: value for name, value in message.typed_properties.items() if name not in BRIDGES_OWN}
    return {
        "kind": message.kind,
        "body": message.body,
        "octets": None if message.kind == "map" else message.neutral_body(),  # names of maps have no order
        "properties": properties,
        "type": message.message_type,
        "correlation": message.correlation_id,
        "reply": str(message.reply_to),
        "persistent": headers.persistent,
        "priority": headers.priority,
        "group": (headers.group_id, headers.group_sequence),
        "expiration": headers.expiration,
    }


def test_a_jms_bridge_delivers_all_kinds_of_bodies_with_their_headers(
    spark: SparkSession, spanwire: BrokerProcess, classic: BrokerProcess, tmp_path: Path
) -> None:
    ours, theirs = spanwire.openwire_uri(), classic.openwire_uri()
    for number, (source, target) in enumerate(((ours, theirs), (theirs, ours))):
        sent = send_all_kinds(source)
        assert len(sent) == 2 * len(BODIES)
        run(spark, routes(BRIDGE, **{"from": source, "to": target}), tmp_path / str(number))
        arrived = {str(one.properties["ACTIVEMQ_BRIDGE_MSG_ID_LIST"]): one for one in take_all(target, "BRIDGED")}
        assert take_all(source, "BRIDGED") == []
        assert len(arrived) == len(sent)
        for message in sent:
            assert described(arrived[message.message_id]) == described(message)


TOPIC = """
- jmsBridge:
    name: news
    source: {uri: "jms:topic:NEWS?brokerURL={{from}}"}
    target: {uri: "jms:queue:NEWS.COPY?brokerURL={{to}}"}
"""


@pytest.mark.long
def test_a_bridge_from_a_topic_without_a_subscription_forwards_while_it_runs_and_no_temporary_reply_to(
    spark: SparkSession, spanwire: BrokerProcess, classic: BrokerProcess, tmp_path: Path
) -> None:
    ours, theirs = spanwire.openwire_uri(), classic.openwire_uri()
    file = routes(TOPIC, **{"from": ours, "to": theirs})
    with pytest.raises(ConfigurationError, match="topic://NEWS stores no messages for a non-durable subscription"):
        run(spark, file, tmp_path)
    stop = threading.Event()
    news: list[RouteEvent] = []

    def produce() -> None:
        """Send until the bridge has forwarded something; what is sent before it has subscribed is for nobody."""
        try:
            with blocking.connect(ours) as connection, connection.session() as session:
                producer = session.create_producer("topic://NEWS")
                answers = session.create_temporary_queue()
                deadline = time.monotonic() + END_S
                count = 0
                while not news and time.monotonic() < deadline:
                    producer.send(f"text {count}", reply_to=answers, properties={"n": count})
                    count += 1
                    stop.wait(0.1)
        finally:
            stop.set()

    thread = threading.Thread(target=produce)
    thread.start()
    # Spark looks for data sources in the session of the thread, so the route runs in this one.
    assert run_routes(spark, file, tmp_path, "100 milliseconds", {}, news.append, stop)
    thread.join(END_S)
    assert not thread.is_alive()
    with blocking.connect(ours) as connection, connection.session() as session:
        session.create_producer("topic://NEWS").send("after the end", properties={"n": -1})
    arrived = take_all(theirs, "NEWS.COPY")
    numbers = sorted(int(str(message.properties["n"])) for message in arrived)
    assert numbers and numbers == list(range(numbers[0], numbers[0] + len(numbers)))
    assert {message.reply_to for message in arrived} == {None}


REFUSED = """
- errorHandler: {deadLetterChannel: {deadLetterUri: "jms:queue:REFUSED.DEAD?brokerURL={{url}}"}}
"""
TO_REFUSED = """
- jmsBridge:
    name: refused
    source: {uri: "jms:queue:REFUSED?brokerURL={{url}}"}
    target: {uri: "jms:queue:REFUSED.COPY?brokerURL={{url}}"}
    maxRetries: 0
"""
PRIORITIES = """
- from:
    uri: "jms:queue:REFUSED?brokerURL={{url}}"
    id: priorities
    steps:
      - setHeader: {name: JMSPriority, sql: "properties['n']::int"}
      - to: "jms:queue:REFUSED.COPY?brokerURL={{url}}"
"""


@pytest.mark.long
def test_a_message_that_cannot_be_sent_waits_in_the_state_until_there_are_dead_letters(
    spark: SparkSession, spanwire: BrokerProcess, tmp_path: Path
) -> None:
    url = spanwire.openwire_uri()
    with blocking.connect(url) as connection, connection.session(acknowledge="transacted") as session:
        producer = session.create_producer("queue://REFUSED")
        producer.send_all([Outgoing("good"), Outgoing("bad", b"\xff\xff"), Outgoing("good", {"n": 2})])
        session.commit()
    news: list[RouteEvent] = []
    file = routes(TO_REFUSED, url=url)
    assert not run_routes(spark, file, tmp_path, AVAILABLE_NOW, {}, news.append, threading.Event())
    assert "could not be read cannot be sent; filter such rows out, or give a route a deadLetter" in news[-1].text
    assert take_all(url, "REFUSED.COPY") == []
    run(spark, routes(REFUSED + TO_REFUSED, url=url), tmp_path)
    assert [message.body for message in take_all(url, "REFUSED.COPY")] == ["good", "good"]
    (dead,) = take_all(url, "REFUSED.DEAD")
    assert isinstance(dead.body, bytes) and dead.body.endswith(b"bad")
    assert "could not be read" in str(dead.properties["dlqDeliveryFailureCause"])


def test_a_row_of_which_no_message_can_be_made_becomes_a_dead_letter_in_json(
    spark: SparkSession, spanwire: BrokerProcess, tmp_path: Path
) -> None:
    url = spanwire.openwire_uri()
    with blocking.connect(url) as connection, connection.session() as session:
        for number in (4, 11):
            session.create_producer("queue://REFUSED").send(b"\x00\x01", properties={"n": number})
    run(spark, routes(REFUSED + PRIORITIES, url=url), tmp_path)
    (good,) = take_all(url, "REFUSED.COPY")
    assert (good.headers.priority, good.body) == (4, b"\x00\x01")
    (dead,) = take_all(url, "REFUSED.DEAD")
    columns = json.loads(str(dead.body))
    assert (columns["JMSPriority"], columns["bytes"], columns["properties"]["n"]) == (11, "AAE=", 11)
    assert dead.properties["dlqDeliveryFailureCause"] == "JMSPriority is 11; it must lie between 0 and 9"


@pytest.mark.parametrize(
    ("steps", "told"),
    [
        ('{choice: {when: [{sql: "nothing = 1", steps: [{to: "json:/x"}]}]}}', "nothing"),
        ('{filter: {selector: "n = 1", steps: [{setBody: {sql: "nobody"}}, {to: "json:/x"}]}}', "nobody"),
        (
            '{multicast: {steps: [{pipeline: {steps: [{transform: {select: {a: "1"}}}, {to: "jms:X"}]}}]}}',
            "a message needs one of the columns",
        ),
        (
            '{to: "json:/x"}, {transform: {columns: {JMSPriority: "text"}}}, {to: "jms:X"}',
            "the column JMSPriority is string",
        ),
    ],
)
def test_what_is_wrong_behind_a_branch_is_told_before_a_message_is_taken(
    steps: str, told: str, spark: SparkSession, spanwire: BrokerProcess, tmp_path: Path
) -> None:
    url = spanwire.openwire_uri()
    file = routes(f'- from: {{uri: "jms:queue:UNTOUCHED?brokerURL={url}", steps: [{steps}]}}')
    with pytest.raises(ConfigurationError, match=told):
        run_routes(spark, file, tmp_path, AVAILABLE_NOW, {}, lambda _: None, threading.Event())
    assert not list((tmp_path / "route1" / "staging").glob("*"))
