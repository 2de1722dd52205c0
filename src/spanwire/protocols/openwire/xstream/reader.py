"""Converts the XML of a command to a frame: version 12 of OpenWire, loose and uncached.

The names of classes and fields are compared with the generated table. A field unknown to the table is skipped, as by
XStream; a class unknown to the table is refused.
"""

from __future__ import annotations

import binascii
from typing import Final

from librt.strings import BytesWriter

from spanwire.protocols.base import MAX_FRAME_SIZE
from spanwire.protocols.octets import encode_text, patch_int
from spanwire.protocols.openwire.codec._marshallers import ACTIVE_MQ_TEXT_MESSAGE
from spanwire.protocols.openwire.codec.errors import OpenWireEncodeError, OpenWireProtocolError
from spanwire.protocols.openwire.codec.frames import SIZE_OCTETS
from spanwire.protocols.openwire.codec.loose import LooseWriter
from spanwire.protocols.openwire.codec.schema import (
    LATEST_VERSION,
    MAX_ARRAY_LENGTH,
    MAX_NESTED_DEPTH,
    MAX_STRUCTURES,
    StackElement,
    Throwable,
)
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
    OCTETS,
    PACKAGE,
    SEQUENCE,
    SHORT,
    STRING,
    THROWABLE,
    TYPES,
)
from spanwire.protocols.openwire.xstream.elements import Element, Work, parse_elements, release, resolve
from spanwire.protocols.openwire.xstream.plain import plain_elements

MAX_DIGITS: Final = 20  # of a 64-bit number with its sign
MAX_CAUSES: Final = 16  # exceptions behind each other; Java's have a few
MAX_TRACE: Final = 1_024  # lines of a stack trace; Java's own limit
MAX_SHOWN: Final = 80  # characters of a name in an error
MAGIC_OCTETS: Final = 8
CONTENT: Final = "content"
NATIVE: Final = "Native Method"
NATIVE_LINE: Final = -2  # Java's number for a method without source
UNKNOWN_LINE: Final = -1
FIELD_CLASS: Final = "java.lang.Throwable"  # of all exceptions in commands; XStream leaves it out


class XmlReader:
    """Converts commands of a peer, one after the other."""

    def __init__(self) -> None:
        self._writer: Final[LooseWriter] = LooseWriter(LATEST_VERSION, True)
        self._max_frame_size = MAX_FRAME_SIZE
        self._work = Work(0)
        self._depth = 0
        self._structures = 0

    def frame(self, text: bytes, max_frame_size: int = MAX_FRAME_SIZE) -> bytes:
        """Return the frame of a command, with its size.

        ``max_frame_size`` limits the frame, in bytes, also after repetitions of elements by reference.

        Raises:
            OpenWireProtocolError: the text is no command in XML, or exceeds a limit.
        """
        root = plain_elements(text) or parse_elements(text)
        out = BytesWriter()
        self._max_frame_size = max_frame_size
        self._work = Work(len(text))
        self._depth = 0
        self._structures = 0
        self._writer.begin(out)
        try:
            self._writer.write_int(0)
            self._write_structure(root, type_of(root.type_name or root.tag))
            self._check_size(0)
        except OpenWireEncodeError as error:
            raise OpenWireProtocolError(f"a command in XML: {error}") from None
        finally:
            release(root)
            self._writer.begin(BytesWriter())  # the frame does not stay in memory until the next command
        patch_int(out, 0, len(out) - SIZE_OCTETS)
        return out.getvalue()

    def _check_size(self, more: int) -> None:
        """Refuse a frame that is too large with ``more`` bytes."""
        if len(self._writer.out) + more > self._max_frame_size + SIZE_OCTETS:
            raise OpenWireProtocolError(f"a command is larger than {self._max_frame_size} bytes")

    def _write_structure(self, element: Element, type_id: int) -> None:
        """Write type id and fields."""
        self._depth += 1
        self._structures += 1
        if self._depth > MAX_NESTED_DEPTH:
            raise OpenWireProtocolError(f"a command nests structures more than {MAX_NESTED_DEPTH} deep")
        if self._structures > MAX_STRUCTURES:
            raise OpenWireProtocolError(f"a command holds more than {MAX_STRUCTURES} structures")
        self._check_size(0)
        writer = self._writer
        writer.out.append(type_id)
        if type_id in DESTINATIONS:
            self._write_string(_destination_name(element, self._work))
        else:
            children: dict[str, Element] = {}
            for child in element.children:
                children[child.tag] = child
            for name, kind, declared in FIELDS[type_id]:
                found = children.get(name)
                if found is None and name == CONTENT and type_id == ACTIVE_MQ_TEXT_MESSAGE:
                    self._write_octets(_text_content(children.get("text"), self._work))
                else:
                    self._write_field(found, kind, declared)
        self._depth -= 1

    def _write_field(self, element: Element | None, kind: int, declared: int) -> None:
        if kind == NESTED:
            self._write_nested(element, declared)
        elif kind == ARRAY:
            self._write_array(element, declared)
        elif element is None:
            self._write_absent(kind)
        else:
            self._write_value(element, kind)

    def _write_absent(self, kind: int) -> None:
        """Write the value of a field that the text does not have: 0, false or null."""
        writer = self._writer
        if kind == LONG:
            writer.write_long(0)
        elif kind == INT:
            writer.write_int(0)
        elif kind == SHORT:
            writer.write_short(0)
        elif kind == MAGIC:
            raise OpenWireProtocolError("a WireFormatInfo in XML has no magic")
        else:
            writer.write_boolean(False)  # one octet 0, as for the number 0 and for null

    def _write_value(self, element: Element, kind: int) -> None:
        writer = self._writer
        if kind == THROWABLE:
            writer.write_throwable(_throwable(element, 0, self._work))
            self._check_size(0)
            return
        source = resolve(element, self._work)
        if kind == STRING:
            self._write_string(source.text)
        elif kind == BOOLEAN:
            writer.write_boolean(source.text == "true")
        elif kind == INT:
            writer.write_int(_number(source))
        elif kind == LONG:
            writer.write_long(_number(source))
        elif kind == SEQUENCE:
            self._write_octets(_sequence(source, self._work))
        else:
            self._write_rare_value(source, kind)

    def _write_rare_value(self, source: Element, kind: int) -> None:
        writer = self._writer
        if kind == BYTE:
            writer.write_byte(_number(source))
        elif kind == SHORT:
            writer.write_short(_number(source))
        elif kind == OCTETS:
            self._write_octets(_octets(source))
        else:
            assert kind == MAGIC
            magic = _octets(source)
            if len(magic) != MAGIC_OCTETS:
                raise OpenWireProtocolError("the magic of a WireFormatInfo in XML has not 8 bytes")
            writer.write_octets(magic)

    def _write_string(self, text: str | None) -> None:
        if text is not None:
            self._check_size(len(text))
        self._writer.write_string(text)

    def _write_octets(self, octets: bytes | None) -> None:
        if octets is not None:
            self._check_size(len(octets))
        self._writer.write_octet_array(octets)

    def _write_nested(self, element: Element | None, declared: int) -> None:
        writer = self._writer
        writer.write_boolean(element is not None)
        if element is not None:
            type_id = type_of(element.type_name) if element.type_name else declared
            if type_id == 0:
                raise OpenWireProtocolError(f"<{element.tag[:MAX_SHOWN]}> of a command names no class")
            self._write_structure(resolve(element, self._work), type_id)

    def _write_array(self, element: Element | None, declared: int) -> None:
        writer = self._writer
        writer.write_boolean(element is not None)
        if element is None:
            return
        source = resolve(element, self._work)
        count = len(source.children)
        if count > MAX_ARRAY_LENGTH:
            raise OpenWireProtocolError(f"an array of {count} elements is longer than {MAX_ARRAY_LENGTH}")
        writer.write_short(count)
        for child in source.children:
            type_id = type_of(child.type_name or child.tag)
            writer.write_boolean(True)
            self._write_structure(resolve(child, self._work), type_id)


def type_of(name: str) -> int:
    """Return the type of a Java class; raises `OpenWireProtocolError` for all but the classes of OpenWire."""
    type_id = TYPES.get(name.removeprefix(PACKAGE), 0) if name.startswith(PACKAGE) else 0
    if type_id == 0:
        raise OpenWireProtocolError(f"the class {name[:MAX_SHOWN]!r} is no structure of OpenWire")
    return type_id


def _number(element: Element) -> int:
    """Return a whole number."""
    text = element.text.strip()
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(text) <= MAX_DIGITS):
        raise OpenWireProtocolError(f"<{element.tag[:MAX_SHOWN]}> of a command is no number")
    return int(text)


def _octets(element: Element) -> bytes:
    """Return bytes in Base64, with or without line ends."""
    text = element.text
    if "\n" in text or " " in text:
        text = "".join(text.split())
    try:
        return binascii.a2b_base64(text, strict_mode=True)
    except ValueError:
        raise OpenWireProtocolError(f"<{element.tag[:MAX_SHOWN]}> of a command is not Base64") from None


def _sequence(element: Element, work: Work) -> bytes | None:
    """Return the bytes of a ByteSequence: a part of ``data`` from ``offset`` on."""
    data = element.child("data")
    if data is None:
        return None
    octets = _octets(resolve(data, work))
    offset_element = element.child("offset")
    offset = 0 if offset_element is None else _number(resolve(offset_element, work))
    length_element = element.child("length")
    length = len(octets) - offset if length_element is None else _number(resolve(length_element, work))
    if offset < 0 or length < 0 or offset + length > len(octets):
        raise OpenWireProtocolError(f"<{element.tag[:MAX_SHOWN]}> of a command ends beyond its data")
    return octets if length == len(octets) else octets[offset : offset + length]


def _text_content(element: Element | None, work: Work) -> bytes | None:
    """Return the content of a text message from a client that sends the plain text.

    The content is a 32-bit length and the text.
    """
    if element is None:
        return None
    octets = encode_text(resolve(element, work).text)
    return len(octets).to_bytes(4, "big") + octets


def _destination_name(element: Element, work: Work) -> str | None:
    """Return the name of a destination: its first string."""
    name = element.child("string") or element.child("physicalName")
    return None if name is None else resolve(name, work).text


def _throwable(element: Element, depth: int, work: Work) -> Throwable:
    """Return an exception as text. The class has no effect."""
    if depth > MAX_CAUSES:
        raise OpenWireProtocolError(f"an exception has more than {MAX_CAUSES} causes")
    source = resolve(element, work)
    message = source.child("detailMessage")
    cause = source.child("cause")
    trace = source.child("stackTrace")
    lines: list[StackElement] = []
    if trace is not None:
        lines = [_stack_element(resolve(line, work).text) for line in trace.children[:MAX_TRACE]]
    return Throwable(
        element.real_name or element.type_name or FIELD_CLASS,
        None if message is None else resolve(message, work).text,
        lines,
        None if cause is None or cause.reference else _throwable(cause, depth + 1, work),
    )


def _stack_element(text: str) -> StackElement:
    """Return a line of a stack trace, written as ``package.Class.method(File.java:12)``."""
    place, _, source = text.partition("(")
    class_name, _, method = place.rpartition(".")
    file, _, line = source.removesuffix(")").partition(":")
    if file == NATIVE:
        return StackElement(class_name, method, None, NATIVE_LINE)
    number = int(line) if line.isascii() and line.isdigit() and len(line) < MAX_DIGITS // 2 else UNKNOWN_LINE
    return StackElement(class_name, method, file, number)
