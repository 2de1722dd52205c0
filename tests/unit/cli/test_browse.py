"""How ``spanwire browse`` shows a message."""

from __future__ import annotations

from spanwire.cli.messages.browse import described, paragraph, row_of
from spanwire.client.messages.message import Message
from spanwire.model.message import FORMAT_OPENWIRE_10
from spanwire.protocols.openwire.codec import _marshallers as wire
from spanwire.protocols.openwire.messages.message_format import OpenWireMessageFormat
from spanwire.protocols.openwire.messages.message_layout import MessageScanner


def shown(path: list[str]) -> str:
    structure = wire.ActiveMQBytesMessage()
    structure.destination = wire.ActiveMQQueue("Q")
    structure.message_id = wire.MessageId(
        producer_id=wire.ProducerId(connection_id="ID:p", session_id=1, value=1), producer_sequence_id=1
    )
    structure.content = b"12345"
    structure.priority = 4
    structure.broker_path = [wire.BrokerId(one) for one in path] or None
    raw = OpenWireMessageFormat(FORMAT_OPENWIRE_10).octets_of(structure)
    scanner = MessageScanner(12)
    scanner.scan(raw)
    return described(row_of(Message(raw, 12, scanner, b"", 0)))


def test_a_message_is_one_line() -> None:
    assert shown([]) == "ID:p:1:1:1 BytesMessage non-persistent priority=4 (5 bytes)"


def test_the_brokers_that_it_came_through_are_shown_as_activemq_shows_them() -> None:
    assert " priority=4 BrokerPath=[A, ID:vm-1-2-0:1] (5 bytes)" in shown(["A", "ID:vm-1-2-0:1"])


def test_the_id_of_a_broker_steers_no_terminal() -> None:
    assert "BrokerPath=[a\\u001b[2J]" in shown(["a\x1b[2J"])


def test_a_paragraph_has_times_properties_and_the_cause_of_death() -> None:
    row: dict[str, object] = {
        "message_id": "ID:p:1:1:1",
        "kind": "BytesMessage",
        "persistent": True,
        "priority": 4,
        "timestamp_ms": 1_700_000_000_000,
        "original_destination": "queue://ORDERS",
        "redelivery_count": 0,
        "properties": {"region": "EU\x1b", "n": 3, "dlqDeliveryFailureCause": "too often"},
        "body": "five",
    }
    lines = paragraph(row).splitlines()
    assert lines[0] == "ID:p:1:1:1 BytesMessage persistent priority=4 (4 bytes)"
    assert lines[1].startswith("  sent: 2023-11-1")
    assert lines[2:] == [
        "  original destination: queue://ORDERS",
        "  died of: too often",
        "  property n: 3",
        "  property region: EU\\u001b",
        "  body: five",
    ]
