"""Reads the texts of fields: numbers, Base64, and exceptions.

Raises `OpenWireProtocolError`, with the name of the element, for a text without a value.
"""

from __future__ import annotations

import binascii
from typing import Final

from spanwire.protocols.octets import encode_text
from spanwire.protocols.openwire.codec.errors import OpenWireProtocolError
from spanwire.protocols.openwire.codec.loose import LooseWriter
from spanwire.protocols.openwire.codec.schema import StackElement, Throwable
from spanwire.protocols.openwire.xstream._fields import BOOLEAN, BYTE, INT, LONG, MAGIC, OCTETS, SHORT, STRING
from spanwire.protocols.openwire.xstream.elements import Element, Work, resolve, resolve_text

TEXT_BODY: Final = -1  # kind of the text of a text message, beside the kinds of fields
MAGIC_OCTETS: Final = 8
MAX_DIGITS: Final = 20  # of a 64-bit number with its sign
MAX_CAUSES: Final = 16  # exceptions behind each other; Java's have a few
MAX_TRACE: Final = 1_024  # lines of a stack trace; Java's own limit
MAX_SHOWN: Final = 80  # characters of a name in an error
NATIVE: Final = "Native Method"
NATIVE_LINE: Final = -2  # Java's number for a method without source
UNKNOWN_LINE: Final = -1
FIELD_CLASS: Final = "java.lang.Throwable"  # of all exceptions in commands; XStream leaves it out


def write_value(writer: LooseWriter, text: str, kind: int, tag: str) -> None:
    """Write a field that one text holds."""
    if kind == STRING:
        writer.write_string(text)
    elif kind == BOOLEAN:
        writer.write_boolean(text == "true")
    elif kind == INT:
        writer.write_int(number(text, tag))
    elif kind == LONG:
        writer.write_long(number(text, tag))
    elif kind == BYTE:
        writer.write_byte(number(text, tag))
    elif kind == SHORT:
        writer.write_short(number(text, tag))
    elif kind == OCTETS:
        writer.write_octet_array(octets_of(text, tag))
    elif kind == TEXT_BODY:
        writer.write_octet_array(text_content(text))
    else:
        assert kind == MAGIC
        magic = octets_of(text, tag)
        if len(magic) != MAGIC_OCTETS:
            raise OpenWireProtocolError("the magic of a WireFormatInfo in XML has not 8 bytes")
        writer.write_octets(magic)


def number(text: str, tag: str) -> int:
    """Return a whole number."""
    text = text.strip()
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(text) <= MAX_DIGITS):
        raise OpenWireProtocolError(f"<{tag[:MAX_SHOWN]}> of a command is no number")
    return int(text)


def octets_of(text: str, tag: str) -> bytes:
    """Return bytes in Base64, with or without line ends."""
    if "\n" in text or " " in text:
        text = "".join(text.split())
    try:
        return binascii.a2b_base64(text, strict_mode=True)
    except ValueError:
        raise OpenWireProtocolError(f"<{tag[:MAX_SHOWN]}> of a command is not Base64") from None


def part_of(data: str, offset_text: str | None, length_text: str | None, tag: str) -> bytes:
    """Return the bytes of the ByteSequence ``tag``: a part of ``data``, without an offset from its start on."""
    octets = octets_of(data, "data")
    offset = 0 if offset_text is None else number(offset_text, "offset")
    length = len(octets) - offset if length_text is None else number(length_text, "length")
    if offset < 0 or length < 0 or offset + length > len(octets):
        raise OpenWireProtocolError(f"<{tag[:MAX_SHOWN]}> of a command ends beyond its data")
    return octets if length == len(octets) else octets[offset : offset + length]


def text_content(text: str) -> bytes:
    """Return the content of a text message: a 32-bit length and the text."""
    octets = encode_text(text)
    return len(octets).to_bytes(4, "big") + octets


def throwable(element: Element, depth: int, work: Work) -> Throwable:
    """Return an exception as text. The class has no effect."""
    if depth > MAX_CAUSES:
        raise OpenWireProtocolError(f"an exception has more than {MAX_CAUSES} causes")
    source = resolve(element, work)
    message = source.child("detailMessage")
    cause = source.child("cause")
    trace = source.child("stackTrace")
    lines: list[StackElement] = []
    if trace is not None:
        lines = [_stack_element(resolve_text(line, work).text) for line in trace.children[:MAX_TRACE]]
    return Throwable(
        element.real_name or element.type_name or FIELD_CLASS,
        None if message is None else resolve_text(message, work).text,
        lines,
        None if cause is None or cause.reference else throwable(cause, depth + 1, work),
    )


def _stack_element(text: str) -> StackElement:
    """Return a line of a stack trace, written as ``package.Class.method(File.java:12)``."""
    place, _, source = text.partition("(")
    class_name, _, method = place.rpartition(".")
    file, _, line = source.removesuffix(")").partition(":")
    if file == NATIVE:
        return StackElement(class_name, method, None, NATIVE_LINE)
    line_number = int(line) if line.isascii() and line.isdigit() and len(line) < MAX_DIGITS // 2 else UNKNOWN_LINE
    return StackElement(class_name, method, file, line_number)
