"""The elements of OpenWire: structures whose fields are read and written in a fixed order.

The generated ``_marshallers.py`` defines the order for each structure. A structure reads from a `FieldReader` and
writes to a `FieldWriter`. ``loose.py`` and ``tight.py`` implement both for the two encodings, with and without the
object cache. The layouts equal the marshaller classes of Apache ActiveMQ, wire format versions 1 to 12.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Final

from mypy_extensions import i64, mypyc_attr

from spanwire.protocols.octets import OctetReader, OctetWriter
from spanwire.protocols.openwire.codec.errors import OpenWireEncodeError, OpenWireProtocolError

LATEST_VERSION: Final = 12
MAX_ARRAY_LENGTH: Final = 32767  # elements; Java reads counts as signed 16-bit numbers
MAX_NESTED_DEPTH: Final = 32  # levels; real frames nest 5 deep, and real exceptions have 10 causes
MAX_STRUCTURES: Final = 262_144  # structures in one frame; room for 32,767 subscriptions with their ids and paths


@mypyc_attr(acyclic=True)
class DataStructure:
    """A structure of the field table: a command, a message, an id, a destination …

    Structures from a connection with the object cache may share ids and destinations, so treat decoded structures as
    constant.
    """

    @abstractmethod
    def type_id(self) -> int:
        """Return the number that precedes the structure on the wire."""

    @abstractmethod
    def read(self, r: FieldReader) -> None:
        """Read all fields that the version of ``r`` has."""

    @abstractmethod
    def write(self, w: FieldWriter) -> None:
        """Write all fields that the version of ``w`` has."""


class StackElement:
    """A line of a Java stack trace."""

    def __init__(self, class_name: str | None, method: str | None, file: str | None, line: int) -> None:
        self.class_name: Final[str | None] = class_name
        self.method: Final[str | None] = method
        self.file: Final[str | None] = file
        self.line: Final[int] = line


class Throwable:
    """An exception of the peer as plain text.

    The class name never selects code: it is only compared with known names, shown or passed on.
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
    """Reads the fields of structures from a frame, in the encoding of the subclass.

    Every length and count is checked against the rest of the frame; nesting and the number of structures are limited.

    Raises:
        OpenWireProtocolError: the frame is malformed or exceeds a limit.
    """

    def __init__(self, version: int, stack_traces: bool) -> None:
        super().__init__()
        self.version: Final[int] = version
        self.stack_traces: Final[bool] = stack_traces
        self.depth: i64 = 0
        self.structures: i64 = 0

    def begin(self, data: bytes, start: i64, end: i64) -> int:
        """Begin at a frame's octets after its size; return the type id."""
        self.data = data
        self.position = start
        self.end = end
        self.depth = 0
        self.structures = 0
        return self.read_unsigned_byte()

    def enter(self) -> None:
        """Enter a nested structure; raises `OpenWireProtocolError` for too many structures or levels."""
        self.structures += 1
        if self.structures > MAX_STRUCTURES:
            raise OpenWireProtocolError(f"a frame holds more than {MAX_STRUCTURES} structures")
        self.depth += 1
        if self.depth > MAX_NESTED_DEPTH:
            raise OpenWireProtocolError(f"a frame nests structures more than {MAX_NESTED_DEPTH} deep")

    def leave(self) -> None:
        """Leave a nested structure."""
        self.depth -= 1

    def read_count(self, octets_each: int) -> int:
        """Read a count of elements with at least ``octets_each`` octets each."""
        count = self.read_short()
        if count < 0:
            raise OpenWireProtocolError(f"an array has more than {MAX_ARRAY_LENGTH} elements")
        if count * octets_each > self.remaining():
            raise OpenWireProtocolError(f"{count} elements are announced where {self.remaining()} bytes are left")
        return count

    @abstractmethod
    def read_boolean(self) -> bool:
        """Read a flag."""

    @abstractmethod
    def read_long(self) -> int:
        """Read a signed 64-bit number."""

    @abstractmethod
    def read_string(self) -> str | None:
        """Read a text or null."""

    def read_octet_array(self) -> bytes | None:
        """Read a byte array or byte sequence, or null."""
        if not self.read_boolean():
            return None
        return self.read_octets(self.read_int())

    @abstractmethod
    def read_nested(self) -> DataStructure | None:
        """Read a structure of any type, or null."""

    @abstractmethod
    def read_cached(self) -> DataStructure | None:
        """Read a structure that may be in the object cache, or null."""

    def read_array(self) -> list[DataStructure] | None:
        """Read an array of structures without null elements, or null."""
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
        """Read an exception as text, or null."""
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
    """Writes the fields of structures into a frame, in the encoding of the subclass.

    Raises:
        OpenWireEncodeError: a value has no form in the encoding.
    """

    def __init__(self, version: int, stack_traces: bool) -> None:
        super().__init__()
        self.version: Final[int] = version
        self.stack_traces: Final[bool] = stack_traces

    @abstractmethod
    def write_boolean(self, value: bool) -> None:
        """Write a flag."""

    @abstractmethod
    def write_long(self, value: int) -> None:
        """Write a signed 64-bit number."""

    @abstractmethod
    def write_string(self, value: str | None) -> None:
        """Write a text or null."""

    @abstractmethod
    def write_octet_array(self, value: bytes | None) -> None:
        """Write a byte array or byte sequence, or null."""

    @abstractmethod
    def write_nested(self, value: DataStructure | None) -> None:
        """Write a structure of any type, or null."""

    @abstractmethod
    def write_cached(self, value: DataStructure | None) -> None:
        """Write a structure that may be in the object cache, or null."""

    def write_array(self, value: Sequence[DataStructure] | None) -> None:
        """Write an array of structures, or null."""
        self.write_boolean(value is not None)
        if value is None:
            return
        if len(value) > MAX_ARRAY_LENGTH:
            raise OpenWireEncodeError(f"an array of {len(value)} elements is longer than {MAX_ARRAY_LENGTH}")
        self.write_short(len(value))
        for element in value:
            self.write_nested(element)

    def write_throwable(self, value: Throwable | None) -> None:
        """Write an exception as text, or null."""
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
