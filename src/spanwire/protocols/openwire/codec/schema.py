"""What OpenWire is made of: structures whose fields are read and written one after the other, in a fixed order.

The order stands once per structure, in the generated ``_marshallers.py``; `FieldReader` and `FieldWriter` are what a
structure reads from and writes to. ``loose.py`` and ``tight.py`` implement both, for the two encodings, each with and
without the object cache. The layouts are those of the marshaller classes of Apache ActiveMQ, wire format versions 1 to
12.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Final

from mypy_extensions import i64

from spanwire.protocols.octets import OctetReader, OctetWriter
from spanwire.protocols.openwire.codec.errors import OpenWireEncodeError, OpenWireProtocolError

LATEST_VERSION: Final = 12
MAX_ARRAY_LENGTH: Final = 32767  # Java reads counts as signed 16-bit numbers
MAX_NESTED_DEPTH: Final = 32  # structures inside structures; real frames nest 5 deep, real exceptions have 10 causes
MAX_STRUCTURES: Final = 262_144  # structures in one frame: an array of 32,767 subscriptions with their ids and paths


class DataStructure:
    """One structure of the field table: a command, a message, an id, a destination …

    A structure that was read from a connection with the object cache may share its ids and destinations with others:
    treat what was decoded as constant.
    """

    @abstractmethod
    def type_id(self) -> int:
        """The number that stands before the structure on the wire."""

    @abstractmethod
    def read(self, r: FieldReader) -> None:
        """Take all fields that the version of ``r`` has."""

    @abstractmethod
    def write(self, w: FieldWriter) -> None:
        """Append all fields that the version of ``w`` has."""


class StackElement:
    """One line of a Java stack trace."""

    def __init__(self, class_name: str | None, method: str | None, file: str | None, line: int) -> None:
        self.class_name: Final[str | None] = class_name
        self.method: Final[str | None] = method
        self.file: Final[str | None] = file
        self.line: Final[int] = line


class Throwable:
    """An exception of the other side as plain text.

    The class name never chooses code: it is compared with known names, shown, or passed on, and nothing else.
    """

    def __init__(
        self,
        class_name: str | None,
        message: str | None,
        stack: list[StackElement] | None = None,
        cause: Throwable | None = None,
    ) -> None:
        self.class_name: Final[str | None] = class_name
        self.message: Final[str | None] = message
        self.stack: Final[list[StackElement]] = stack if stack is not None else []
        self.cause: Final[Throwable | None] = cause


class FieldReader(OctetReader):
    """Takes the fields of structures from one frame, in the encoding of the subclass.

    Every length and count is checked against what is left of the frame; nesting and the number of structures are
    limited. Raises `OpenWireProtocolError` for everything that is not right.
    """

    def __init__(self, version: int, stack_traces: bool) -> None:
        super().__init__()
        self.version: Final[int] = version
        self.stack_traces: Final[bool] = stack_traces
        self.depth: i64 = 0
        self.structures: i64 = 0

    def begin(self, data: bytes, start: i64, end: i64) -> int:
        """Point at a frame's octets behind its size; gives the type id."""
        self.data = data
        self.position = start
        self.end = end
        self.depth = 0
        self.structures = 0
        return self.read_unsigned_byte()

    def enter(self) -> None:
        """One level deeper."""
        self.structures += 1
        if self.structures > MAX_STRUCTURES:
            raise OpenWireProtocolError(f"a frame holds more than {MAX_STRUCTURES} structures")
        self.depth += 1
        if self.depth > MAX_NESTED_DEPTH:
            raise OpenWireProtocolError(f"a frame nests structures more than {MAX_NESTED_DEPTH} deep")

    def leave(self) -> None:
        """Back up one level."""
        self.depth -= 1

    def read_count(self, octets_each: int) -> int:
        """A count of elements of which each takes at least ``octets_each``."""
        count = self.read_short()
        if count < 0:
            raise OpenWireProtocolError(f"an array has more than {MAX_ARRAY_LENGTH} elements")
        if count * octets_each > self.remaining():
            raise OpenWireProtocolError(f"{count} elements are announced where {self.remaining()} bytes are left")
        return count

    @abstractmethod
    def read_boolean(self) -> bool:
        """A flag."""

    @abstractmethod
    def read_long(self) -> int:
        """A signed 64-bit number."""

    @abstractmethod
    def read_string(self) -> str | None:
        """A text or null."""

    @abstractmethod
    def read_octet_array(self) -> bytes | None:
        """A byte array or byte sequence, or null."""

    @abstractmethod
    def read_nested(self) -> DataStructure | None:
        """A structure of any type, or null."""

    @abstractmethod
    def read_cached(self) -> DataStructure | None:
        """A structure that may stand in the object cache, or null."""

    def read_array(self) -> list[DataStructure] | None:
        """Structures of any types without null among them, or null instead of all."""
        if not self.read_boolean():
            return None
        elements: list[DataStructure] = []
        for _ in range(self.read_count(1)):
            element = self.read_nested()
            if element is None:
                raise OpenWireProtocolError("an array of structures holds null")
            elements.append(element)
        return elements

    def read_throwable(self) -> Throwable | None:
        """An exception as text, or null."""
        if not self.read_boolean():
            return None
        self.enter()
        class_name = self.read_string()
        message = self.read_string()
        stack: list[StackElement] | None = None
        cause: Throwable | None = None
        if self.stack_traces:
            stack = []
            for _ in range(self.read_count(4)):
                element = StackElement(self.read_string(), self.read_string(), self.read_string(), self.read_int())
                stack.append(element)
            cause = self.read_throwable()
        self.leave()
        return Throwable(class_name, message, stack, cause)


class FieldWriter(OctetWriter):
    """Appends the fields of structures to one frame, in the encoding of the subclass.

    Raises `OpenWireEncodeError` for a value that the encoding cannot hold.
    """

    def __init__(self, version: int, stack_traces: bool) -> None:
        super().__init__()
        self.version: Final[int] = version
        self.stack_traces: Final[bool] = stack_traces

    @abstractmethod
    def write_boolean(self, value: bool) -> None:
        """A flag."""

    @abstractmethod
    def write_long(self, value: int) -> None:
        """A signed 64-bit number."""

    @abstractmethod
    def write_string(self, value: str | None) -> None:
        """A text or null."""

    @abstractmethod
    def write_octet_array(self, value: bytes | None) -> None:
        """A byte array or byte sequence, or null."""

    @abstractmethod
    def write_nested(self, value: DataStructure | None) -> None:
        """A structure of any type, or null."""

    @abstractmethod
    def write_cached(self, value: DataStructure | None) -> None:
        """A structure that may stand in the object cache, or null."""

    def write_array(self, value: Sequence[DataStructure] | None) -> None:
        """Structures of any types, or null."""
        self.write_boolean(value is not None)
        if value is None:
            return
        if len(value) > MAX_ARRAY_LENGTH:
            raise OpenWireEncodeError(f"an array of {len(value)} elements is longer than {MAX_ARRAY_LENGTH}")
        self.write_short(len(value))
        for element in value:
            self.write_nested(element)

    def write_throwable(self, value: Throwable | None) -> None:
        """An exception as text, or null."""
        self.write_boolean(value is not None)
        if value is None:
            return
        self.write_string(value.class_name)
        self.write_string(value.message)
        if self.stack_traces:
            self.write_short(len(value.stack))
            for element in value.stack:
                self.write_string(element.class_name)
                self.write_string(element.method)
                self.write_string(element.file)
                self.write_int(element.line)
            self.write_throwable(value.cause)
