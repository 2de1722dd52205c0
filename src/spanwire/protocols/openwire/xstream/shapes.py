"""Encodes commands in XML that differ from an earlier one in their values alone, without a tree.

A client sends the same elements again and again, with other numbers and bodies. A value is the text of an element,
unless the text begins with white space. The shape of a command is its text without values. For example, these two
commands have the shape ``<MessagePull><commandId></commandId><timeout></timeout></MessagePull>``, with the values 7 and
-1, and 8 and -1:

    <MessagePull><commandId>7</commandId><timeout>-1</timeout></MessagePull>
    <MessagePull><commandId>8</commandId><timeout>-1</timeout></MessagePull>

The frames of both differ only in the octets of the values, because a value has no ``<``. A `Shape` keeps the other
octets of the first frame, and writes each value between them. A short value equal to that of the command before, as -1
here, keeps its octets.

The reader of trees reads the first commands of a shape, and all texts against the rules.
"""

from __future__ import annotations

import re
from typing import Final

from librt.strings import BytesWriter

from spanwire.protocols.octets import patch_int
from spanwire.protocols.openwire.codec.errors import OpenWireEncodeError, OpenWireProtocolError
from spanwire.protocols.openwire.codec.frames import SIZE_OCTETS
from spanwire.protocols.openwire.codec.loose import LooseWriter
from spanwire.protocols.openwire.xstream._fields import SEQUENCE
from spanwire.protocols.openwire.xstream.elements import NO_PLACE, Element, Work
from spanwire.protocols.openwire.xstream.values import part_of, write_value

MAX_SHAPES: Final = 16  # of a reader; a client in transactions, with advisories, sends commands of ten shapes
MAX_SHAPE: Final = 6 * 1024  # bytes of a shape; a message of Java with all fields has 4,200
MAX_VALUES: Final = 96  # of a shape; a message of Java with all fields has 78
MAX_REMEMBERED: Final = 64  # bytes of a value that is compared with that of the next command; names and ids are shorter
VALUE: Final = re.compile(rb">([^<\t\n ][^<]*)")
WHITE: Final = ("\t", "\n", " ")


class CutText:
    """A plain text, cut into its shape and its values."""

    def __init__(self, text: bytes) -> None:
        cut: list[bytes] = VALUE.split(text)
        self.size: Final[int] = len(text)
        self.values: Final[list[bytes]] = cut[1::2]
        self.shape: Final[bytes] = b"\0".join(cut[::2])  # no plain text has this character

    def place_values(self, root: Element) -> bool:
        """Give the elements of the text the places of their values; return False if a value is between elements."""
        place = 0
        waiting = [root]
        while waiting:
            element = waiting.pop()
            text = element.text
            if text and text[0] not in WHITE:
                if place == len(self.values) or self.values[place] != text.encode("ascii"):
                    return False
                element.place = place
                place += 1
            waiting.extend(element.children[::-1])
        return place == len(self.values)


class Part:
    """A part of a frame that one value became, or the three values of a ByteSequence.

    ``start`` and ``end`` are offsets in the frame that the reader of trees has written.
    """

    def __init__(
        self, start: int, end: int, kind: int, source: Element, offset: Element | None, length: Element | None
    ) -> None:
        texts = [element for element in (source, offset, length) if element is not None]
        values = len([element for element in texts if element.place != NO_PLACE])
        self.has_value: Final[bool] = values > 0
        self.is_placed: Final[bool] = values == len(texts)  # else a text is empty, or begins with white space
        self.text_size: Final[int] = sum([len(element.text) for element in texts])
        self.start: Final[int] = start
        self.end: Final[int] = end
        self.before = b""  # octets between the previous part and this one, the same in all frames of the shape
        self._kind: Final[int] = kind
        self._tag: Final[str] = source.tag
        self._place: Final[int] = source.place
        self._offset: Final[int] = NO_PLACE if offset is None else offset.place
        self._length: Final[int] = NO_PLACE if length is None else length.place
        self._last = b""  # the value of the text before, and its octets
        self._last_octets = b""

    def octets(self, values: list[bytes], writer: LooseWriter, work: Work) -> bytes:
        """Return the octets for ``values``; raises `OpenWireProtocolError` or `OpenWireEncodeError`."""
        value = values[self._place]
        work.spend(len(value))
        if value == self._last:
            return self._last_octets
        writer.begin(BytesWriter())
        if self._kind == SEQUENCE:
            offset = _text_at(self._offset, values, work)
            length = _text_at(self._length, values, work)
            writer.write_octet_array(part_of(value.decode("ascii"), offset, length, self._tag))
            return writer.out.getvalue()
        write_value(writer, value.decode("ascii"), self._kind, self._tag)
        octets = writer.out.getvalue()
        if len(value) <= MAX_REMEMBERED:
            self._last = value
            self._last_octets = octets
        return octets


class Shape:
    """The octets common to all frames of a shape, and the parts that differ."""

    def __init__(self, frame: bytes, parts: list[Part], spent: int) -> None:
        """``frame`` was written with ``parts``; the reader has spent ``spent`` of `Work`."""
        end = 0
        for part in parts:
            part.before = frame[end : part.start]
            end = part.end
            spent -= part.text_size
        self._parts: Final[list[Part]] = parts
        self._rest: Final[bytes] = frame[end:]
        self.common_size: Final[int] = sum([len(part.before) for part in parts]) + len(self._rest)
        self._work: Final[int] = spent  # without the characters of values

    def frame(self, text: CutText, writer: LooseWriter, max_frame_size: int) -> bytes | None:
        """Return the frame of a text of this shape, or None if the reader of trees is to refuse the text."""
        work = Work(text.size)
        out = BytesWriter()
        values = text.values
        try:
            work.spend(self._work)
            for part in self._parts:
                out.write(part.before)
                out.write(part.octets(values, writer, work))
                if len(out) > max_frame_size:
                    return None
        except (OpenWireProtocolError, OpenWireEncodeError):
            return None
        finally:
            writer.begin(BytesWriter())  # a body does not stay in memory until the next command
        out.write(self._rest)
        size = len(out) - SIZE_OCTETS
        if size > max_frame_size:
            return None
        patch_int(out, 0, size)
        return out.getvalue()


class Shapes:
    """The shapes of a reader, at most `MAX_SHAPES`. A shape is kept from its second text on."""

    def __init__(self) -> None:
        self._known: Final[dict[bytes, Shape | None]] = {}  # None after the first text

    def __len__(self) -> int:
        return len(self._known)

    def __contains__(self, text: CutText) -> bool:
        return self._known.get(text.shape) is not None

    def find(self, text: CutText) -> Shape | None:
        """Return the shape of a text, if kept. The shape found last is removed last."""
        known = self._known
        shape = known.get(text.shape)
        if shape is not None:
            del known[text.shape]
            known[text.shape] = shape
        return shape

    def comes_again(self, text: CutText) -> bool:
        """Return True if the shape was noted before; else note the shape."""
        known = self._known
        if text.shape in known:
            return True
        if len(text.shape) <= MAX_SHAPE and len(text.values) <= MAX_VALUES:
            if len(known) == MAX_SHAPES:
                del known[next(iter(known))]
            known[text.shape] = None
        return False

    def keep(self, text: CutText, shape: Shape) -> None:
        """Keep the shape of a text that `comes_again`, unless its frames have too many octets in common."""
        if shape.common_size <= MAX_SHAPE:
            self._known[text.shape] = shape


def _text_at(place: int, values: list[bytes], work: Work) -> str | None:
    """Return the value at a place, if there is one."""
    if place == NO_PLACE:
        return None
    work.spend(len(values[place]))
    return values[place].decode("ascii")
