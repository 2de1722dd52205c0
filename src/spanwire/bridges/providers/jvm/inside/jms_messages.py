"""Messages of JMS as headers and blobs of a frame, and back."""

from __future__ import annotations

from typing import Any, Final

import jpype

from spanwire.bridges.model.message import BridgeMessage
from spanwire.bridges.providers.jvm.frames import Header
from spanwire.bridges.providers.jvm.inside.java import Java
from spanwire.model.errors import MessageFormatError
from spanwire.model.message_view import (
    BOOLEAN_VALUE,
    BYTE_VALUE,
    BYTES,
    BYTES_VALUE,
    CHAR_VALUE,
    DOUBLE_VALUE,
    FLOAT_VALUE,
    INT_VALUE,
    LONG_VALUE,
    MAP,
    NULL_VALUE,
    OBJECT,
    PLAIN,
    SHORT_VALUE,
    STREAM,
    STRING_VALUE,
    TEXT,
    PropertyValue,
)
from spanwire.protocols.primitive_map import UNBOUNDED, decode_map, decode_stream, encode_map, encode_stream

GROUP: Final = "JMSXGroupID"
SEQUENCE: Final = "JMSXGroupSeq"
MAX_NAME: Final = 60  # characters of a name in an error
RESERVED: Final = ("JMSX", "JMS_")  # properties of the provider itself
KINDS: Final = (("Text", TEXT), ("Bytes", BYTES), ("Map", MAP), ("Stream", STREAM), ("Object", OBJECT))
OBJECT_FAULT: Final = "an ObjectMessage would have to be deserialized to leave its virtual machine, which is not done"
TYPES: Final = {
    "java.lang.Boolean": (BOOLEAN_VALUE, bool),
    "java.lang.Byte": (BYTE_VALUE, int),
    "java.lang.Short": (SHORT_VALUE, int),
    "java.lang.Character": (CHAR_VALUE, str),
    "java.lang.Integer": (INT_VALUE, int),
    "java.lang.Long": (LONG_VALUE, int),
    "java.lang.Float": (FLOAT_VALUE, float),
    "java.lang.Double": (DOUBLE_VALUE, float),
    "java.lang.String": (STRING_VALUE, str),
}
SETTERS: Final[dict[int, tuple[str, Any]]] = {
    BOOLEAN_VALUE: ("Boolean", jpype.JBoolean),
    BYTE_VALUE: ("Byte", jpype.JByte),
    SHORT_VALUE: ("Short", jpype.JShort),
    CHAR_VALUE: ("Char", jpype.JChar),
    INT_VALUE: ("Int", jpype.JInt),
    LONG_VALUE: ("Long", jpype.JLong),
    FLOAT_VALUE: ("Float", jpype.JFloat),
    DOUBLE_VALUE: ("Double", jpype.JDouble),
    STRING_VALUE: ("String", jpype.JString),
}


class MessageReader:
    """Reads messages of one JMS package; ``names`` returns the qualified name of a destination."""

    def __init__(self, api: str, names: Any) -> None:
        self._kinds: Final = [(jpype.JClass(f"{api}.{word}Message"), kind) for word, kind in KINDS]
        self._names: Final = names
        self._persistent: Final = int(jpype.JClass(f"{api}.DeliveryMode").PERSISTENT)
        self._end: Final = jpype.JClass(f"{api}.MessageEOFException")

    def read(self, message: Java) -> tuple[Header, list[bytes]]:
        """Return header and blobs of a received message."""
        kind = next((kind for java, kind in self._kinds if isinstance(message, java)), PLAIN)
        fault = OBJECT_FAULT if kind == OBJECT else None
        try:
            body = self._body(message, kind)
        except MessageFormatError as error:
            body, fault = None, str(error)
        properties, group, sequence, damage = encoded_properties(message)
        reply = message.getJMSReplyTo()
        header = {
            "id": _text(message.getJMSMessageID()) or "",
            "kind": kind,
            "null": body is None,
            "fault": fault,
            "property_fault": damage,
            "correlation": _text(message.getJMSCorrelationID()),
            "type": _text(message.getJMSType()),
            "reply": None if reply is None else self._names(reply),
            "persistent": int(message.getJMSDeliveryMode()) == self._persistent,
            "priority": int(message.getJMSPriority()),
            "expiration": int(message.getJMSExpiration()),
            "timestamp": int(message.getJMSTimestamp()),
            "group": group,
            "sequence": sequence,
            "redelivered": bool(message.getJMSRedelivered()),
        }
        return header, [properties, body or b""]

    def _body(self, message: Java, kind: int) -> bytes | None:
        if kind == TEXT:
            text = message.getText()
            return None if text is None else str(text).encode("utf-8", "replace")
        if kind == BYTES:
            octets = jpype.JArray(jpype.JByte)(int(message.getBodyLength()))
            message.readBytes(octets)
            return bytes(octets)
        if kind == MAP:
            entries: dict[str, PropertyValue] = {}
            names = message.getMapNames()
            while names.hasMoreElements():
                name = str(names.nextElement())
                entries[name] = _typed(message.getObject(name))
            return encode_map(entries)
        return encode_stream(self._stream(message)) if kind == STREAM else None

    def _stream(self, message: Java) -> list[PropertyValue]:
        values: list[PropertyValue] = []
        while True:  # the stream ends with an exception
            try:
                values.append(_typed(message.readObject()))
            except self._end:
                return values


def encoded_properties(message: Java) -> tuple[bytes, str | None, int, str | None]:
    """Return the encoded properties, the group, the position in the group, and the fault.

    A property without a form is at fault.

    An error would let the broker deliver the message again without end; with a fault the message is a dead letter.
    """
    fault = None
    values: dict[str, PropertyValue] = {}
    group, sequence = None, 0
    names = message.getPropertyNames()
    while names.hasMoreElements():
        name = str(names.nextElement())
        if name not in (GROUP, SEQUENCE) and name.startswith(RESERVED):
            continue
        try:
            typed = _typed(message.getObjectProperty(name))
        except MessageFormatError as error:
            fault = f"the property {name[:MAX_NAME]}: {error}"
            continue
        if name == GROUP:
            group = _text(typed[1])
        elif name == SEQUENCE:
            sequence = typed[1] if isinstance(typed[1], int) else 0
        else:
            values[name] = typed
    try:
        return encode_map(values) if values else b"", group, sequence, fault
    except MessageFormatError as error:
        return b"", group, sequence, str(error)


def _typed(value: Java) -> PropertyValue:
    """Return a value with its JMS type."""
    if value is None:
        return NULL_VALUE, None
    name = "java.lang.String" if isinstance(value, str) else str(value.getClass().getName())
    known = TYPES.get(name)
    if known is not None:
        return known[0], known[1](value)
    if name == "[B":
        return BYTES_VALUE, bytes(value)
    raise MessageFormatError(f"a value of the Java class {name} is no value of a JMS message")


def _text(value: Java) -> str | None:
    return None if value is None else str(value)


def write_message(session: Java, message: BridgeMessage, destinations: Any) -> Java:
    """Return a message of JMS; ``destinations`` returns the destination of a qualified name.

    Raises:
        MessageFormatError: body or properties have no form in JMS.
        JavaError: the reply destination is gone.
    """
    written = _with_body(session, message.kind, message.content.neutral_body())
    for name, typed in message.property_values().items():
        if not name.startswith(RESERVED):
            _set(written, "Property", name, typed)
    if message.group_id is not None:
        written.setStringProperty(GROUP, message.group_id)
        written.setIntProperty(SEQUENCE, jpype.JInt(message.group_sequence))
    if message.correlation_id is not None:
        written.setJMSCorrelationID(message.correlation_id)
    if message.message_type is not None:
        written.setJMSType(message.message_type)
    if message.reply_to is not None:
        written.setJMSReplyTo(destinations(message.reply_to))
    return written


def _with_body(session: Java, kind: int, body: bytes | None) -> Java:
    if kind == TEXT:
        return session.createTextMessage(None if body is None else jpype.JString(_decoded(body)))
    if kind == BYTES:
        written = session.createBytesMessage()
        written.writeBytes(jpype.JArray(jpype.JByte)(body or b""))
        return written
    if kind == MAP:
        written = session.createMapMessage()
        for name, typed in decode_map(body or b"", UNBOUNDED).items():
            _set(written, "", name, typed)
        return written
    if kind == STREAM:
        written = session.createStreamMessage()
        for typed in decode_stream(body or b"", UNBOUNDED):
            word, value = _java_value(typed, "an entry")
            getattr(written, f"write{word}")(value)
        return written
    if kind == OBJECT:
        raise MessageFormatError("the object of an ObjectMessage cannot be made without its Java class")
    return session.createMessage()


def _set(written: Java, suffix: str, name: str, typed: PropertyValue) -> None:
    word, value = _java_value(typed, name)
    if word == "Char" and suffix:  # a property is no character, but a text of one letter
        word, value = "String", str(value)
    getattr(written, f"set{word}{suffix}")(name, value)


def _decoded(octets: bytes) -> str:
    try:
        return octets.decode("utf-8")
    except UnicodeDecodeError:
        raise MessageFormatError("the text of a message is not UTF-8") from None


def _java_value(typed: PropertyValue, name: str) -> tuple[str, Java]:
    """Return the word of the setter and the value in Java."""
    kind, value = typed
    if kind == NULL_VALUE:
        return "String", None
    if kind == BYTES_VALUE and isinstance(value, bytes):
        return "Bytes", jpype.JArray(jpype.JByte)(value)
    known = SETTERS.get(kind)
    if known is None:
        raise MessageFormatError(f"{name[:60]} is a map or a list, which JMS has in no message")
    return known[0], known[1](value)
