"""The command inside an advisory as a neutral tree, with XStream's names and order of fields.

Other protocols write the tree as text for clients without OpenWire. Transient fields in Java, such as
``networkSubscription``, are not in the tree.
"""

from __future__ import annotations

from typing import Final

from librt.strings import BytesWriter

from spanwire.model.message_view import CommandTree, TreeValue
from spanwire.protocols.openwire.codec._marshallers import TYPE_NAMES
from spanwire.protocols.openwire.codec.errors import OpenWireProtocolError
from spanwire.protocols.openwire.codec.loose import LooseReader, LooseWriter
from spanwire.protocols.openwire.codec.schema import LATEST_VERSION, DataStructure
from spanwire.protocols.openwire.xstream._fields import (
    ARRAY,
    BOOLEAN,
    BYTE,
    DESTINATIONS,
    FIELDS,
    INT,
    LONG,
    MAGIC,
    NESTED,
    SHORT,
    STRING,
    THROWABLE,
)

MAGIC_OCTETS: Final = 8  # of a WireFormatInfo
NUMBERS: Final = (BYTE, SHORT, INT, LONG)
_CONNECTION_INFO: Final = 3
_CONSUMER_INFO: Final = 5
_PRODUCER_INFO: Final = 6
_DESTINATION_INFO: Final = 8
_PRODUCER_ID: Final = 123
# the order of the fields in Java, where the wire has another one; fields that are not named are left out
ORDER: Final[dict[int, tuple[str, ...]]] = {
    _CONNECTION_INFO: (
        "commandId", "responseRequired", "connectionId", "clientId", "clientIp", "userName", "password", "brokerPath",
        "brokerMasterConnector", "manageable", "clientMaster", "faultTolerant", "failoverReconnect",
    ),
    _CONSUMER_INFO: (
        "commandId", "responseRequired", "consumerId", "destination", "prefetchSize", "maximumPendingMessageLimit",
        "browser", "dispatchAsync", "selector", "clientId", "subscriptionName", "noLocal", "exclusive", "retroactive",
        "priority", "brokerPath", "optimizedAcknowledge", "noRangeAcks", "additionalPredicate",
    ),
    _PRODUCER_INFO: (
        "commandId", "responseRequired", "producerId", "destination", "brokerPath", "dispatchAsync", "windowSize",
        "sentCount",
    ),
    _DESTINATION_INFO: (
        "commandId", "responseRequired", "connectionId", "destination", "operationType", "timeout", "brokerPath",
    ),
    _PRODUCER_ID: ("connectionId", "sessionId", "value"),
}  # fmt: skip


def command_tree(structure: DataStructure) -> CommandTree:
    """Return a command or message as a tree.

    Raises `OpenWireProtocolError` for a command or message without a form as a tree.
    """
    out = BytesWriter()
    writer = LooseWriter(LATEST_VERSION, True)
    writer.begin(out)
    structure.write(writer)
    octets = out.getvalue()
    reader = LooseReader(LATEST_VERSION, True)
    reader.data = octets
    reader.position = 0
    reader.end = len(octets)
    type_id = structure.type_id()
    return _tree(reader, _name(type_id), "", type_id)


def _name(type_id: int) -> str:
    name = TYPE_NAMES.get(type_id)
    if name is None:
        raise OpenWireProtocolError(f"unknown data structure type {type_id}")
    return name


def _tree(reader: LooseReader, name: str, class_name: str, type_id: int) -> CommandTree:
    fields: list[tuple[str, TreeValue]] = []
    if type_id in DESTINATIONS:
        text = reader.read_string()
        fields.append(("null", None) if text is None else ("string", text))
        fields.append(("null", None))
        return CommandTree(name, class_name, fields)
    for field, kind, declared in FIELDS[type_id]:
        value = _value(reader, field, kind, declared)
        if value is not None:
            fields.append((field, value))
    if type_id == _PRODUCER_INFO:
        fields.append(("sentCount", 0))
    order = ORDER.get(type_id)
    if order is not None:
        by_name = dict(fields)
        fields = [(field, by_name[field]) for field in order if field in by_name]
    return CommandTree(name, class_name, fields)


def _value(reader: LooseReader, field: str, kind: int, declared: int) -> TreeValue:
    """Return the value of a field, None for an absent value."""
    if kind == NESTED:
        return _nested(reader, field, declared)
    if kind == STRING:
        return reader.read_string()
    if kind == BOOLEAN:
        return reader.read_boolean()
    if kind in NUMBERS:
        return _number(reader, kind)
    if kind == ARRAY:
        return _array(reader)
    if kind == MAGIC:
        return reader.read_octets(MAGIC_OCTETS)
    if kind == THROWABLE:
        reader.read_throwable()
        return None
    return reader.read_octet_array()


def _number(reader: LooseReader, kind: int) -> int:
    if kind == INT:
        return reader.read_int()
    if kind == LONG:
        return reader.read_long()
    return reader.read_byte() if kind == BYTE else reader.read_short()


def _nested(reader: LooseReader, field: str, declared: int) -> CommandTree | None:
    if not reader.read_boolean():
        return None
    reader.enter()
    type_id = reader.read_unsigned_byte()
    tree = _tree(reader, field, "" if type_id == declared else _name(type_id), type_id)
    reader.leave()
    return tree


def _array(reader: LooseReader) -> list[CommandTree] | None:
    if not reader.read_boolean():
        return None
    trees: list[CommandTree] = []
    for _ in range(reader.read_count(1)):
        if not reader.read_boolean():
            raise OpenWireProtocolError("an array of structures holds null")
        reader.enter()
        type_id = reader.read_unsigned_byte()
        trees.append(_tree(reader, _name(type_id), "", type_id))
        reader.leave()
    return trees
