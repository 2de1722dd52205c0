"""Converts the XML of a command to a frame: version 12 of OpenWire, loose and uncached.

The names of classes and fields are compared with the generated table. A field unknown to the table is skipped, as by
XStream; a class unknown to the table is refused.

Most commands of a client have the shape of an earlier one, and become frames without a tree of elements
(`spanwire.protocols.openwire.xstream.shapes`).
"""

from __future__ import annotations

from typing import Final

from librt.strings import BytesWriter

from spanwire.protocols.base import MAX_FRAME_SIZE
from spanwire.protocols.octets import patch_int
from spanwire.protocols.openwire.codec._marshallers import ACTIVE_MQ_TEXT_MESSAGE
from spanwire.protocols.openwire.codec.errors import OpenWireEncodeError, OpenWireProtocolError
from spanwire.protocols.openwire.codec.frames import SIZE_OCTETS
from spanwire.protocols.openwire.codec.loose import LooseWriter
from spanwire.protocols.openwire.codec.schema import (
    LATEST_VERSION,
    MAX_ARRAY_LENGTH,
    MAX_NESTED_DEPTH,
    MAX_STRUCTURES,
)
from spanwire.protocols.openwire.xstream._fields import (
    ARRAY,
    DESTINATIONS,
    FIELDS,
    INT,
    LONG,
    MAGIC,
    NESTED,
    PACKAGE,
    SEQUENCE,
    SHORT,
    STRING,
    THROWABLE,
    TYPES,
)
from spanwire.protocols.openwire.xstream.elements import Element, Work, parse_elements, release, resolve, resolve_text
from spanwire.protocols.openwire.xstream.plain import is_plain, plain_elements
from spanwire.protocols.openwire.xstream.shapes import MAX_VALUES, CutText, Part, Shape, Shapes
from spanwire.protocols.openwire.xstream.values import MAX_SHOWN, TEXT_BODY, part_of, throwable, write_value

CONNECTION_INFO: Final = f"{PACKAGE}ConnectionInfo"
CONTENT: Final = "content"
TEXT: Final = "text"


class XmlReader:
    """Converts commands of a peer, one after the other."""

    def __init__(self) -> None:
        self._writer: Final[LooseWriter] = LooseWriter(LATEST_VERSION, True)
        self.shapes: Final[Shapes] = Shapes()
        self._parts: list[Part] | None = None  # of the frame that are values; None if the shape is not kept
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
        self._parts = None
        if is_plain(text):
            cut = CutText(text)
            shape = self.shapes.find(cut)
            if shape is None:
                return self._first_frame(text, cut, max_frame_size)
            frame = shape.frame(cut, self._writer, max_frame_size)
            if frame is not None:
                return frame
        return self._frame_of_tree(plain_elements(text) or parse_elements(text), len(text), max_frame_size)

    def _first_frame(self, text: bytes, cut: CutText, max_frame_size: int) -> bytes:
        """Return the frame of a text, and keep the shape if it comes again."""
        root = plain_elements(text)
        if root is None:
            return self._frame_of_tree(parse_elements(text), len(text), max_frame_size)
        has_password = (root.type_name or root.tag) == CONNECTION_INFO
        if not has_password and self.shapes.comes_again(cut) and cut.place_values(root):
            self._parts = []
        frame = self._frame_of_tree(root, len(text), max_frame_size)
        if self._parts is not None:
            self.shapes.keep(cut, Shape(frame, self._parts, self._work.spent))
        return frame

    def _frame_of_tree(self, root: Element, size: int, max_frame_size: int) -> bytes:
        """Return the frame of a text of ``size`` bytes."""
        out = BytesWriter()
        self._max_frame_size = max_frame_size
        self._work = Work(size)
        self._depth = 0
        self._structures = 0
        self._writer.begin(out)
        try:
            self._writer.write_int(0)
            self._write_structure(root, type_of(root.type_name or root.tag))
            self._check_size()
        except OpenWireEncodeError as error:
            raise OpenWireProtocolError(f"a command in XML: {error}") from None
        finally:
            release(root)
            self._writer.begin(BytesWriter())  # the frame does not stay in memory until the next command
        patch_int(out, 0, len(out) - SIZE_OCTETS)
        return out.getvalue()

    def _check_size(self) -> None:
        """Refuse a frame that is too large."""
        if len(self._writer.out) > self._max_frame_size + SIZE_OCTETS:
            raise OpenWireProtocolError(f"a command is larger than {self._max_frame_size} bytes")

    def _note(self, start: int, kind: int, source: Element, offset: Element | None, length: Element | None) -> None:
        """Note what the frame has from ``start`` on as the value of a text, or of the texts of a ByteSequence."""
        parts = self._parts
        if parts is None:
            return
        part = Part(start, len(self._writer.out), kind, source, offset, length)
        if part.is_placed and len(parts) < MAX_VALUES:  # elements that refer to others repeat values
            parts.append(part)
        elif part.has_value:
            self._parts = None

    def _write_structure(self, element: Element, type_id: int) -> None:
        """Write type id and fields."""
        self._depth += 1
        self._structures += 1
        if self._depth > MAX_NESTED_DEPTH:
            raise OpenWireProtocolError(f"a command nests structures more than {MAX_NESTED_DEPTH} deep")
        if self._structures > MAX_STRUCTURES:
            raise OpenWireProtocolError(f"a command holds more than {MAX_STRUCTURES} structures")
        self._check_size()
        writer = self._writer
        writer.out.append(type_id)
        if type_id in DESTINATIONS:
            self._write_name(element)
        else:
            children: dict[str, Element] = {}
            for child in element.children:
                children[child.tag] = child
            for name, kind, declared in FIELDS[type_id]:
                found = children.get(name)
                if found is None and name == CONTENT and type_id == ACTIVE_MQ_TEXT_MESSAGE:
                    self._write_text(children.get(TEXT))
                else:
                    self._write_field(found, kind, declared)
        self._depth -= 1

    def _write_name(self, element: Element) -> None:
        """Write the name of a destination: its first string."""
        name = element.child("string") or element.child("physicalName")
        if name is None:
            self._writer.write_string(None)
        else:
            self._write_value(name, STRING)

    def _write_text(self, element: Element | None) -> None:
        """Write the content of a text message from a client that sends the plain text."""
        if element is None:
            self._writer.write_octet_array(None)
        else:
            self._write_value(element, TEXT_BODY)

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
        start = len(writer.out)
        if kind == THROWABLE:
            self._parts = None  # several texts at once
            writer.write_throwable(throwable(element, 0, self._work))
        elif kind == SEQUENCE:
            self._write_sequence(resolve(element, self._work))
        else:
            source = resolve_text(element, self._work)
            write_value(writer, source.text, kind, source.tag)
            self._note(start, kind, source, None, None)
        self._check_size()

    def _write_sequence(self, element: Element) -> None:
        """Write a ByteSequence: a part of ``data`` from ``offset`` on."""
        writer = self._writer
        start = len(writer.out)
        data = self._text_in(element, "data")
        if data is None:
            writer.write_octet_array(None)
            return
        offset = self._text_in(element, "offset")
        length = self._text_in(element, "length")
        writer.write_octet_array(
            part_of(
                data.text,
                None if offset is None else offset.text,
                None if length is None else length.text,
                element.tag,
            )
        )
        self._note(start, SEQUENCE, data, offset, length)

    def _text_in(self, element: Element, tag: str) -> Element | None:
        """Return the element whose text is the value of an inner element, or None."""
        found = element.child(tag)
        return None if found is None else resolve_text(found, self._work)

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
