"""STOMP clients read advisories as text, from Spanwire as from ActiveMQ."""

from __future__ import annotations

import json
import re
from typing import Final

import pytest

from spanwire.client import blocking
from tests.support.broker_process import BrokerProcess
from tests.support.stomp_socket import StompSocket

QUEUE: Final = "ADVISED"
PATIENCE_S: Final = 30.0


@pytest.fixture(params=["spanwire", pytest.param("newest_classic", marks=pytest.mark.long)])
def broker(request: pytest.FixtureRequest) -> BrokerProcess:
    found: BrokerProcess = request.getfixturevalue(request.param)
    return found


def heard(broker: BrokerProcess, asked: str) -> tuple[str | None, str]:
    """The header and the body of the advisory about a consumer, with the transformation that was asked for."""
    with StompSocket(broker.stomp_port) as client:
        client.connect("1.2")
        topic = f"/topic/ActiveMQ.Advisory.Consumer.Queue.{QUEUE}{asked}"
        header = f"transformation:{asked}\n" if asked else ""
        client.type(f"SUBSCRIBE\nid:1\ndestination:{topic}\n{header}receipt:r\n\n\0")
        receipt = client.receive(PATIENCE_S)
        assert receipt is not None and receipt.command == "RECEIPT"
        with blocking.connect(broker.openwire_uri()) as connection, connection.session() as session:
            with session.create_consumer(f"queue://{QUEUE}{asked}?consumer.prefetchSize=7", selector="a = 'b'"):
                frame = client.receive(PATIENCE_S)
                assert frame is not None and frame.command == "MESSAGE"
                return frame.headers.get("transformation"), frame.body.decode()


def test_an_advisory_is_json_unless_xml_is_asked_for(broker: BrokerProcess) -> None:
    names = []
    for asked, form in (
        ("", "jms-advisory-json"), ("jms-advisory-json", "jms-advisory-json"), ("jms-json", "jms-advisory-json"),
        ("jms-advisory-xml", "jms-advisory-xml"), ("jms-xml", "jms-advisory-xml"),
    ):  # fmt: skip
        header, body = heard(broker, asked)
        assert header == form
        if form == "jms-advisory-json":
            consumer = json.loads(body)["ConsumerInfo"]
            assert consumer["destination"] == {"@class": "ActiveMQQueue", "string": QUEUE + asked, "null": ""}
            assert (consumer["prefetchSize"], consumer["selector"], consumer["browser"]) == (7, "a = 'b'", False)
            names.append(list(consumer))
        else:
            assert body.startswith("<ConsumerInfo>\n  <commandId>")
            assert f'  <destination class="ActiveMQQueue">\n    <string>{QUEUE}{asked}</string>\n    <null/>\n' in body
            names.append(re.findall(r"^  <(\w+)[ >]", body, re.MULTILINE))
    # Spanwire names the client of each consumer, ActiveMQ that of a durable subscriber
    assert [name for name in names[0] if name != "clientId"] == [
        "commandId", "responseRequired", "consumerId", "destination", "prefetchSize", "maximumPendingMessageLimit",
        "browser", "dispatchAsync", "selector", "noLocal", "exclusive", "retroactive", "priority",
        "optimizedAcknowledge", "noRangeAcks",
    ]  # fmt: skip
    assert all(each == names[0] for each in names)
