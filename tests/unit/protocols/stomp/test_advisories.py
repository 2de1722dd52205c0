"""Commands inside advisories as XML and JSON: octet by octet what ActiveMQ writes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest

from spanwire.model.message_view import CommandTree
from spanwire.protocols.openwire.codec import _marshallers as wire
from spanwire.protocols.openwire.codec.schema import DataStructure
from spanwire.protocols.openwire.messages.command_tree import command_tree
from spanwire.protocols.stomp.bodies.advisories import ADVISORY_JSON, ADVISORY_XML, advisory_text

VECTORS: Final = Path(__file__).parents[3] / "vectors" / "stomp-advisories.json"
ADVISORIES: Final[list[dict[str, Any]]] = json.loads(VECTORS.read_text(encoding="utf-8"))["advisories"]
CONNECTION: Final = "ID:host-1-2-3:4"
COMMANDS: Final[dict[str, DataStructure]] = {
    "ConnectionInfo": wire.ConnectionInfo(
        connection_id=wire.ConnectionId(CONNECTION), client_id="me",
        client_ip="tcp://127.0.0.1:50000", password="",
    ),
    "ConsumerInfo": wire.ConsumerInfo(
        destination=wire.ActiveMQQueue("Q"), prefetch_size=7,
        consumer_id=wire.ConsumerId(connection_id=CONNECTION, session_id=1, value=1), dispatch_async=True,
        selector="a = 'b'",
    ),
    "ProducerInfo": wire.ProducerInfo(
        destination=wire.ActiveMQQueue("Q"), dispatch_async=True,
        producer_id=wire.ProducerId(connection_id=CONNECTION, session_id=1, value=1),
    ),
    "DestinationInfo": wire.DestinationInfo(
        connection_id=wire.ConnectionId(CONNECTION), destination=wire.ActiveMQQueue("Q")
    ),
    "DestinationInfo.temporary": wire.DestinationInfo(
        connection_id=wire.ConnectionId(CONNECTION),
        destination=wire.ActiveMQTempQueue(f"{CONNECTION}:1"),
    ),
    "RemoveInfo": wire.RemoveInfo(
        object_id=wire.ConnectionId(CONNECTION), last_delivered_sequence_id=-2
    ),
}  # fmt: skip
NUMBERS: Final = {"ConnectionInfo": 1, "ConsumerInfo": 2, "ProducerInfo": 3, "DestinationInfo.temporary": 5}
for _name, _command in COMMANDS.items():
    assert isinstance(_command, wire.BaseCommand)
    _command.command_id = NUMBERS.get(_name, 0)
    _command.response_required = _name != "DestinationInfo"


@pytest.mark.parametrize("vector", ADVISORIES, ids=lambda one: f"{one['command']} {one['transformation']}")
def test_a_command_is_written_as_activemq_writes_it(vector: dict[str, Any]) -> None:
    written = advisory_text(command_tree(COMMANDS[vector["command"]]), vector["transformation"]).decode()
    # how many messages a producer has sent so far is in no command of the wire
    assert written == vector["body"].replace("<sentCount>1<", "<sentCount>0<").replace('"sentCount":1', '"sentCount":0')


def test_fields_that_java_calls_transient_are_left_out() -> None:
    command = wire.ConsumerInfo(network_subscription=True, network_consumer_path=[wire.ConsumerId()])
    assert b"network" not in advisory_text(command_tree(command), ADVISORY_XML)


def test_lists_of_ids_and_messages_have_a_form() -> None:
    command = wire.ProducerInfo(broker_path=[wire.BrokerId("a"), wire.BrokerId("b")])
    assert (
        '"brokerPath":{"BrokerId":[{"value":"a"},{"value":"b"}]}'
        in advisory_text(command_tree(command), ADVISORY_JSON).decode()
    )
    xml = advisory_text(command_tree(command), ADVISORY_XML).decode()
    assert "  <brokerPath>\n    <BrokerId>\n      <value>a</value>\n    </BrokerId>\n" in xml
    message = wire.ActiveMQTextMessage()
    message.content = b"\0\0\0\1x"
    message.destination = wire.ActiveMQTopic("T")
    inside = json.loads(advisory_text(command_tree(message), ADVISORY_JSON))["ActiveMQTextMessage"]
    assert inside["destination"] == {"@class": "ActiveMQTopic", "string": "T", "null": ""}
    assert inside["content"] == "AAAAAXg="


def test_texts_of_clients_are_escaped_and_stay_texts() -> None:
    tree = CommandTree("X", "", [("name", "<&>\"'\r"), ("number", "17"), ("empty", None)])
    assert advisory_text(tree, ADVISORY_XML).decode() == (
        "<X>\n  <name>&lt;&amp;&gt;&quot;&apos;&#xd;</name>\n  <number>17</number>\n  <empty/>\n</X>"
    )
    assert json.loads(advisory_text(tree, ADVISORY_JSON)) == {
        "X": {"name": '<&>"\'\r', "number": "17", "empty": ""}
    }  # fmt: skip
