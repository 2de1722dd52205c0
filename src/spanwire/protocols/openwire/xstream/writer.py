"""Converts a frame to the XML of the command: version 12 of OpenWire, loose and uncached.

The text is XML for XStream. All fields are named, because XStream leaves an absent field without a value. The text has
no references: a repeated value is written twice.

The XStream of ActiveMQ creates exceptions of few packages only, and ends the connection at others, such as the
exceptions of JMS. So such exceptions are written as `CARRIER`, with the own class beside the carrier for readers
without classes.
"""

from __future__ import annotations

import binascii
import re
from typing import Final

from spanwire.protocols.openwire.codec._marshallers import TYPE_NAMES
from spanwire.protocols.openwire.codec.errors import OpenWireProtocolError
from spanwire.protocols.openwire.codec.frames import SIZE_OCTETS
from spanwire.protocols.openwire.codec.loose import LooseReader
from spanwire.protocols.openwire.codec.schema import LATEST_VERSION, StackElement, Throwable
from spanwire.protocols.openwire.xstream._fields import (
    ARRAY,
    BOOLEAN,
    BYTE,
    DESTINATIONS,
    EXTRA,
    FIELDS,
    INT,
    LONG,
    MAGIC,
    NESTED,
    OCTETS,
    PACKAGE,
    SEQUENCE,
    SHORT,
    STRING,
    THROWABLE,
)
from spanwire.protocols.openwire.xstream.elements import MAX_ATTRIBUTE, REAL_NAME
from spanwire.protocols.openwire.xstream.values import MAGIC_OCTETS, NATIVE, NATIVE_LINE

SPECIAL: Final = re.compile("[&<>\"'\x00-\x08\x0b-\x1f\ufffe\uffff]")
REFERENCES: Final = {
    **{code: f"&#x{code:x};" for code in (*range(9), *range(11, 32), 0xFFFE, 0xFFFF)},
    ord("&"): "&amp;",
    ord("<"): "&lt;",
    ord(">"): "&gt;",
    ord('"'): "&quot;",
    ord("'"): "&apos;",
}
UNNAMED_EXCEPTION: Final = "java.lang.Exception"
CARRIER: Final = "java.lang.RuntimeException"  # a JMS client reports it as a JMSException with the same text
MAX_REMEMBERED: Final = 128  # octets of one structure; ids and destinations are shorter
CREATED: Final = re.compile(
    r"(?:java\.lang|org\.apache\.activemq)(?:\.\w+)+", re.ASCII
)  # exceptions that XStream creates


class WrittenStructure:
    """A structure's octets and text."""

    def __init__(self, octets: bytes, text: str) -> None:
        self.octets: Final[bytes] = octets
        self.text: Final[str] = text


class XmlWriter:
    """Converts frames, one after the other.

    The writer remembers the last short structure of each field. The next one mostly has the same octets: messages of
    one producer, to one destination, for one consumer.
    """

    def __init__(self) -> None:
        self._reader: Final[LooseReader] = LooseReader(LATEST_VERSION, True)
        self._parts: list[str] = []
        self._remembered: Final[dict[str, WrittenStructure]] = {}

    def text(self, frame: bytes) -> bytes:
        """Return the XML of a frame with its size, in UTF-8.

        Raises:
            OpenWireProtocolError: the frame is malformed.
        """
        reader = self._reader
        type_id = reader.begin(frame, SIZE_OCTETS, len(frame))
        self._parts = []
        tag = class_name(type_id)
        self._write_structure(tag, "", type_id)
        if reader.remaining() > 0:
            raise OpenWireProtocolError(f"{reader.remaining()} bytes are left over in a frame of type {type_id}")
        reader.data = b""
        text = "".join(self._parts).encode("utf-8", "replace")
        self._parts = []
        return text

    def _write_structure(self, tag: str, attribute: str, type_id: int) -> None:
        parts = self._parts
        parts.append(f"<{tag}{attribute}>")
        if type_id in DESTINATIONS:
            name = self._reader.read_string()
            parts.append("<null/><null/>" if name is None else f"<string>{escape(name)}</string><null/>")
        else:
            for name, kind, declared in FIELDS[type_id]:
                self._write_field(name, kind, declared)
            parts.append(EXTRA.get(type_id, ""))
        parts.append(f"</{tag}>")

    def _write_field(self, name: str, kind: int, declared: int) -> None:
        reader = self._reader
        value = ""
        if kind == NESTED:
            self._write_nested(name, declared)
            return
        if kind == STRING:
            text = reader.read_string()
            if text is None:
                return
            value = escape(text)
        elif kind == BOOLEAN:
            value = "true" if reader.read_boolean() else "false"
        elif kind == INT:
            value = str(reader.read_int())
        elif kind == LONG:
            value = str(reader.read_long())
        elif kind == BYTE:
            value = str(reader.read_byte())
        elif kind == SHORT:
            value = str(reader.read_short())
        else:
            self._write_long_field(name, kind, declared)
            return
        self._parts.append(f"<{name}>{value}</{name}>")

    def _write_long_field(self, name: str, kind: int, declared: int) -> None:
        reader = self._reader
        parts = self._parts
        if kind == ARRAY:
            self._write_array(name)
        elif kind == THROWABLE:
            throwable = reader.read_throwable()
            if throwable is not None:
                self._write_throwable(name, throwable)
        elif kind == MAGIC:
            parts.append(f"<{name}>{base64(reader.read_octets(MAGIC_OCTETS))}</{name}>")
        else:
            octets = reader.read_octet_array()
            if octets is None:
                return
            if kind == OCTETS:
                parts.append(f"<{name}>{base64(octets)}</{name}>")
            else:
                assert kind == SEQUENCE
                parts.append(f"<{name}><data>{base64(octets)}</data><offset>0</offset>")
                parts.append(f"<length>{len(octets)}</length></{name}>")

    def _write_nested(self, name: str, declared: int) -> None:
        reader = self._reader
        start = reader.position
        if not reader.read_boolean():
            return
        remembered = self._remembered.get(name)
        if remembered is not None:
            end = start + len(remembered.octets)
            if end <= reader.end and reader.data[start:end] == remembered.octets:
                reader.position = end
                self._parts.append(remembered.text)
                return
        count = len(self._parts)
        reader.enter()
        type_id = reader.read_unsigned_byte()
        attribute = "" if type_id == declared else f' class="{class_name(type_id)}"'
        self._write_structure(name, attribute, type_id)
        reader.leave()
        if reader.position - start <= MAX_REMEMBERED:
            octets = reader.data[start : reader.position]
            self._remembered[name] = WrittenStructure(octets, "".join(self._parts[count:]))

    def _write_array(self, name: str) -> None:
        reader = self._reader
        if not reader.read_boolean():
            return
        self._parts.append(f"<{name}>")
        for _ in range(reader.read_count(1)):
            if not reader.read_boolean():
                raise OpenWireProtocolError("an array of structures holds null")
            reader.enter()
            type_id = reader.read_unsigned_byte()
            self._write_structure(class_name(type_id), "", type_id)
            reader.leave()
        self._parts.append(f"</{name}>")

    def _write_throwable(self, name: str, throwable: Throwable) -> None:
        parts = self._parts
        real_name = throwable.class_name or UNNAMED_EXCEPTION
        if CREATED.fullmatch(real_name):
            parts.append(f'<{name} class="{real_name}">')
        else:
            parts.append(f'<{name} class="{CARRIER}" {REAL_NAME}="{escape(real_name[:MAX_ATTRIBUTE])}">')
        if throwable.message is not None:
            parts.append(f"<detailMessage>{escape(throwable.message)}</detailMessage>")
        if throwable.cause is not None:
            self._write_throwable("cause", throwable.cause)
        parts.append("<stackTrace>")
        for element in throwable.stack:
            parts.append(f"<trace>{escape(_trace(element))}</trace>")
        parts.append(f'</stackTrace><suppressedExceptions class="empty-list"/></{name}>')


def class_name(type_id: int) -> str:
    """Return the Java class of a type; raises `OpenWireProtocolError` for an unknown type."""
    name = TYPE_NAMES.get(type_id)
    if name is None:
        raise OpenWireProtocolError(f"unknown data structure type {type_id}")
    return PACKAGE + name


def escape(text: str) -> str:
    """Return a text as XML, with the references that XStream writes for control characters."""
    return text if SPECIAL.search(text) is None else text.translate(REFERENCES)


def base64(octets: bytes) -> str:
    """Return bytes in Base64, in one line."""
    return binascii.b2a_base64(octets, newline=False).decode("ascii")


def _trace(element: StackElement) -> str:
    """Return a line of a stack trace as Java prints it."""
    if element.line == NATIVE_LINE:
        source = NATIVE
    elif not element.file:
        source = "Unknown Source"
    else:
        source = element.file if element.line < 0 else f"{element.file}:{element.line}"
    return f"{element.class_name or ''}.{element.method or ''}({source})"
