"""Writes ``_marshallers.py``, the OpenWire structures, from the field table beside this file.

    python tools/generate_openwire.py           write the module
    python tools/generate_openwire.py --check   exit 1 when the module is not what the table gives

The table (``openwire_commands.json``) lists, for each data structure and wire format version, the fields in wire order.
One class is written per structure: its attributes, and one ``read`` and one ``write`` with a branch where versions
differ. Both encodings, each with and without cache, use the same two.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

TOOLS = Path(__file__).resolve().parent
TABLE = TOOLS / "openwire_commands.json"
TARGET = TOOLS.parent / "src" / "spanwire" / "protocols" / "openwire" / "codec" / "_marshallers.py"

LATEST = 12
MAX_CONSTRUCTOR_FIELDS = 20  # a structure with more is made empty and filled attribute by attribute
ABSTRACT_UNUSED = {"DataStructureSupport"}
PREDICATE = {"BooleanExpression": "NetworkBridgeFilter"}  # the only predicate that travels

READERS = {
    "boolean": ("bool", "False", "read_boolean", "write_boolean"),
    "byte": ("int", "0", "read_byte", "write_byte"),
    "short": ("int", "0", "read_short", "write_short"),
    "char": ("int", "0", "read_unsigned_short", "write_short"),
    "int": ("int", "0", "read_int", "write_int"),
    "long": ("int", "0", "read_long", "write_long"),
    "string": ("str | None", "None", "read_string", "write_string"),
    "byte-array": ("bytes | None", "None", "read_octet_array", "write_octet_array"),
    "byte-sequence": ("bytes | None", "None", "read_octet_array", "write_octet_array"),
    "throwable": ("Throwable | None", "None", "read_throwable", "write_throwable"),
}

# Commands that a connection reacts to; all others go to CommandVisitor.other.
VISITED = (
    "WireFormatInfo BrokerInfo ConnectionInfo SessionInfo ConsumerInfo ProducerInfo TransactionInfo DestinationInfo "
    "RemoveSubscriptionInfo KeepAliveInfo ShutdownInfo RemoveInfo ControlCommand ConnectionError ConsumerControl "
    "ConnectionControl ProducerAck MessagePull MessageDispatch MessageAck Response ExceptionResponse "
    "BrokerSubscriptionInfo"
).split()

# Compared by value: what the object cache holds and what stands in tables as a key.
VALUES = (
    "ActiveMQDestination LocalTransactionId XATransactionId ConnectionId SessionId ConsumerId ProducerId BrokerId"
).split()

# Looked up before all others when a frame is read.
HOT = (
    "MessageAck MessageId ProducerId ConsumerId ActiveMQQueue ActiveMQTopic ActiveMQTextMessage ActiveMQBytesMessage "
    "ActiveMQMapMessage ActiveMQMessage MessageDispatch Response KeepAliveInfo RemoveInfo LocalTransactionId "
    "ConnectionId ProducerAck ConsumerInfo"
).split()

HEAD = '''# ruff: noqa: A001, A002
"""The OpenWire structures: attributes, field order and version branches.

Written by tools/generate_openwire.py from tools/openwire_commands.json; change those, not this file.
"""

from __future__ import annotations

from typing import Final

from librt.strings import read_i32_be
from mypy_extensions import mypyc_attr

from spanwire.protocols.openwire.codec.errors import OpenWireProtocolError
from spanwire.protocols.openwire.codec.schema import DataStructure, FieldReader, FieldWriter, Throwable

MAGIC: Final = b"ActiveMQ"
'''

COMMAND = '''
class Command(DataStructure):
    """A structure that may stand alone in a frame."""

    def visit(self, visitor: CommandVisitor) -> None:
        """Call the method of ``visitor`` that is named after this command."""
        visitor.other(self)


class MessageFrame(Command):
    """A message whose fields nobody looked into: the octets of its frame from the type id on, loose and uncached.

    ``version`` is the wire format version of the layout. Nothing behind the first two fields was checked yet.
    """

    def __init__(self, type_id: int, version: int) -> None:
        self._type_id: Final[int] = type_id
        self.version: Final[int] = version
        self.command_id = 0
        self.response_required = False
        self.raw = b""

    def type_id(self) -> int:
        return self._type_id

    def take(self, raw: bytes) -> None:
        """The octets of a whole frame from the type id on."""
        if len(raw) < 6:
            raise OpenWireProtocolError("a message ends inside its first fields")
        self.raw = raw
        self.command_id = read_i32_be(raw, 1)
        self.response_required = raw[5] != 0

    def read(self, r: FieldReader) -> None:
        self.take(r.data[r.position - 1 : r.end])
        r.position = r.end

    def write(self, w: FieldWriter) -> None:
        w.write_octets(self.raw[1:])

    def visit(self, visitor: CommandVisitor) -> None:
        visitor.message(self)
'''


def snake(name: str) -> str:
    """``brokerURL`` becomes ``broker_url``, ``receivedByDFBridge`` becomes ``received_by_df_bridge``."""
    name = re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", name)
    return re.sub(r"([A-Z]+)([A-Z][a-z])", r"\1_\2", name).lower()


class Structure:
    """One row of the table, with what the templates need."""

    def __init__(self, row: dict[str, Any]) -> None:
        self.name: str = row["name"]
        self.type_id: int = row["typeId"] or 0
        self.parent: str | None = row["parent"]
        self.abstract: bool = row["abstract"]
        self.since: int = row["since"]
        self.constant = snake(self.name).upper()
        self.command: bool = row["isCommand"]
        self.marshall_aware: bool = row["marshallAware"]
        self.fields = merged_fields(row)

    def is_visited(self) -> bool:
        """Return True if a connection reacts to the command."""
        return self.name in VISITED


def merged_fields(row: dict[str, Any]) -> list[dict[str, Any]]:
    """All fields of all versions in one order that agrees with the layout of each version."""
    fields = {field["name"]: field for field in row["fields"] + row["removedFields"]}
    layouts = {int(version): names for version, names in row["layoutFromVersion"].items()}
    order = list(layouts[max(layouts)]) if layouts else []
    for names in layouts.values():
        for index, name in enumerate(names):
            if name not in order:
                following = [order.index(other) for other in names[index + 1 :] if other in order]
                order.insert(min(following, default=len(order)), name)
    for version in range(row["since"], (row["until"] or LATEST) + 1):
        valid = [start for start in layouts if start <= version]
        expected = layouts[max(valid)] if valid else []
        found = [n for n in order if fields[n]["since"] <= version <= fields[n].get("until", LATEST)]
        if found != expected:
            raise SystemExit(f"{row['name']} version {version}: no single field order, {found} against {expected}")
    return [fields[name] for name in order]


class Generator:
    """Builds the text of the module."""

    def __init__(self, table: dict[str, Any]) -> None:
        rows = [row for row in table["dataStructures"] if row["name"] not in ABSTRACT_UNUSED]
        self.structures = {row["name"]: Structure(row) for row in rows}
        self.checks: dict[str, str] = {}
        self.array_checks: dict[str, str] = {}

    def module(self) -> str:
        """The whole module."""
        classes = [self.klass(structure) for structure in self.in_order()]
        concrete = [s for s in self.structures.values() if not s.abstract]
        constants = [f"{s.constant}: Final = {s.type_id}" for s in sorted(concrete, key=lambda s: s.type_id)]
        names = [f'    {s.constant}: "{s.name}",' for s in sorted(concrete, key=lambda s: s.type_id)]
        parts = [
            HEAD + "\n" + "\n".join(constants) + "\n\nTYPE_NAMES: Final = {\n" + "\n".join(names) + "\n}\n",
            COMMAND,
            *classes,
            self.visitor(),
            *[self.checks[name] for name in sorted(self.checks)],
            *[self.array_checks[name] for name in sorted(self.array_checks)],
            self.dispatcher(concrete),
        ]
        return "\n\n".join(part.strip("\n") + "\n" for part in parts)

    def in_order(self) -> list[Structure]:
        """Parents before children, else by type id."""
        done: list[Structure] = []

        def add(structure: Structure) -> None:
            if structure in done:
                return
            if structure.parent is not None:
                add(self.structures[structure.parent])
            done.append(structure)

        for structure in self.structures.values():
            add(structure)
        return done

    def inherited(self, structure: Structure) -> list[dict[str, Any]]:
        """The fields of all parents but BaseCommand."""
        if structure.parent is None or structure.parent == "BaseCommand":
            return []
        parent = self.structures[structure.parent]
        return self.inherited(parent) + parent.fields

    def klass(self, structure: Structure) -> str:
        """One class."""
        base = structure.parent or ("Command" if structure.command else "DataStructure")
        lines = [f"class {structure.name}({base}):", f'    """{self.summary(structure)}"""', ""]
        lines += self.constructor(structure)
        if not structure.abstract:
            lines += ["    def type_id(self) -> int:", f"        return {structure.type_id}", ""]
        if structure.fields or structure.parent is None:
            lines += self.reading(structure) + self.writing(structure)
        if structure.is_visited():
            lines += ["    def visit(self, visitor: CommandVisitor) -> None:"]
            lines += [f"        visitor.{snake(structure.name)}(self)", ""]
        if structure.name in VALUES:
            lines += self.equality(structure)
        return "\n".join(lines)

    def summary(self, structure: Structure) -> str:
        """The docstring."""
        text = "Abstract" if structure.abstract else f"Type {structure.type_id}"
        return text + (f", since version {structure.since}." if structure.since > 1 else ".")

    def python_type(self, field: dict[str, Any]) -> tuple[str, str]:
        """Annotation and default value."""
        kind = field["type"]
        if kind in READERS:
            return READERS[kind][0], READERS[kind][1]
        if kind == "const-byte-array":
            return "bytes", "MAGIC"
        name = PREDICATE.get(field["objectType"], field["objectType"])
        return (f"list[{name}] | None" if kind == "object-array" else f"{name} | None"), "None"

    def constructor(self, structure: Structure) -> list[str]:
        """``__init__`` with keyword defaults, or an empty one for the widest structures."""
        inherited = self.inherited(structure)
        if structure.parent is not None and not structure.fields and not inherited:
            return []
        total = len(inherited) + len(structure.fields)
        if not structure.fields and (total == 0 or total > MAX_CONSTRUCTOR_FIELDS):
            return []
        lines = self.signature(structure, inherited + structure.fields, total > MAX_CONSTRUCTOR_FIELDS)
        if structure.parent is not None:
            passed = ", ".join(f"{snake(f['name'])}={snake(f['name'])}" for f in inherited)
            lines.append(f"        super().__init__({passed if total <= MAX_CONSTRUCTOR_FIELDS else ''})")
        for field in structure.fields:
            annotation, default = self.python_type(field)
            name = snake(field["name"])
            if total > MAX_CONSTRUCTOR_FIELDS:
                lines.append(f"        self.{name}: {annotation} = {default}")
            else:
                lines.append(f"        self.{name} = {name}")
        return [*lines, ""]

    def signature(self, structure: Structure, fields: list[dict[str, Any]], empty: bool) -> list[str]:
        """The ``def`` line of a constructor."""
        if empty or structure.name == "BaseCommand":
            return self.base_signature(structure)
        parameters = []
        for field in fields:
            annotation, default = self.python_type(field)
            parameters.append(f"{snake(field['name'])}: {annotation} = {default}")
        star = [] if len(parameters) < 2 else ["*"]
        line = f"    def __init__(self, {', '.join(star + parameters)}) -> None:"
        if len(line) <= 120:
            return [line]
        return ["    def __init__(", "        self,", *[f"        {p}," for p in star + parameters], "    ) -> None:"]

    def base_signature(self, structure: Structure) -> list[str]:
        """Of structures that are made empty."""
        if structure.name == "BaseCommand":
            return ["    def __init__(self, command_id: int = 0, response_required: bool = False) -> None:"]
        return ["    def __init__(self) -> None:"]

    def condition(self, structure: Structure, field: dict[str, Any], side: str) -> str | None:
        """The version branch of a field, if it needs one."""
        if "until" in field:
            return f"if {side}.version <= {field['until']}:"
        return f"if {side}.version >= {field['since']}:" if field["since"] > structure.since else None

    def body(self, structure: Structure, side: str) -> list[str]:
        """The field lines of ``read`` or ``write``; neighbours of one version share a branch."""
        lines: list[str] = []
        current: str | None = None
        for field in structure.fields:
            condition = self.condition(structure, field, side)
            if condition is not None and condition != current:
                lines.append(f"        {condition}")
            current = condition
            statement = self.reading_of(field) if side == "r" else self.writing_of(field)
            lines.append(("            " if condition else "        ") + statement)
        return lines

    def reading(self, structure: Structure) -> list[str]:
        """The ``read`` method."""
        lines = ["    def read(self, r: FieldReader) -> None:"]
        if structure.parent is not None:
            lines.append("        super().read(r)")
        return [*lines, *(self.body(structure, "r") or ([] if structure.parent else ["        pass"])), ""]

    def writing(self, structure: Structure) -> list[str]:
        """The ``write`` method."""
        lines = ["    def write(self, w: FieldWriter) -> None:"]
        if structure.parent is not None:
            lines.append("        super().write(w)")
        return [*lines, *(self.body(structure, "w") or ([] if structure.parent else ["        pass"])), ""]

    def reading_of(self, field: dict[str, Any]) -> str:
        """One field taken from the reader."""
        name = f"self.{snake(field['name'])}"
        kind = field["type"]
        if kind in READERS:
            return f"{name} = r.{READERS[kind][2]}()"
        if kind == "const-byte-array":
            return f"{name} = r.read_octets({field['length']})"
        call = {"nested-object": "read_nested", "cached-object": "read_cached", "object-array": "read_array"}
        object_type = PREDICATE.get(field["objectType"], field["objectType"])
        return f"{name} = {self.checked(object_type, f'r.{call[kind]}()', kind == 'object-array')}"

    def writing_of(self, field: dict[str, Any]) -> str:
        """One field handed to the writer."""
        name = f"self.{snake(field['name'])}"
        kind = field["type"]
        if kind in READERS:
            return f"w.{READERS[kind][3]}({name})"
        if kind == "const-byte-array":
            return f"w.write_octets({name})"
        call = {"nested-object": "write_nested", "cached-object": "write_cached", "object-array": "write_array"}
        return f"w.{call[kind]}({name})"

    def checked(self, object_type: str, call: str, array: bool) -> str:
        """A read wrapped into the check of the class that the table declares."""
        if object_type == "DataStructure":
            return call
        if array:
            name = f"all_{snake(object_type)}"
            self.array_checks[object_type] = ARRAY_CHECK.format(name=name, type=object_type)
        else:
            name = f"as_{snake(object_type)}"
            self.checks[object_type] = CHECK.format(name=name, type=object_type)
        return f"{name}({call})"

    def equality(self, structure: Structure) -> list[str]:
        """``==`` and ``hash`` over all fields."""
        names = [snake(field["name"]) for field in structure.fields]
        terms = [f"self.{name} == other.{name}" for name in reversed(names)]
        keys = [f"self.{name}" for name in names]
        if structure.abstract:
            terms.append("self.type_id() == other.type_id()")
            keys.append("self.type_id()")
        line = f"        return isinstance(other, {structure.name}) and {' and '.join(terms)}"
        key = keys[0] if len(keys) == 1 else f"({', '.join(keys)})"
        if len(line) > 120:
            wrapped = [f"            and {term}" for term in terms]
            body = ["        return (", f"            isinstance(other, {structure.name})", *wrapped, "        )"]
        else:
            body = [line]
        head = "    def __eq__(self, other: object) -> bool:"
        return [head, *body, "", "    def __hash__(self) -> int:", f"        return hash({key})", ""]

    def visitor(self) -> str:
        """The visitor with one method per command that a connection reacts to."""
        lines = [
            "@mypyc_attr(allow_interpreted_subclasses=True)",
            "class CommandVisitor:",
            '    """What a connection does with each command. A method that is not overridden leaves it to `other`."""',
            "",
            "    def other(self, command: Command) -> None:",
            '        """A command that has no place here; the default refuses it."""',
            "        name = TYPE_NAMES.get(command.type_id(), str(command.type_id()))",
            '        raise OpenWireProtocolError(f"the command {name} is not expected here")',
            "",
            "    def message(self, command: MessageFrame) -> None:",
            '        """A message was sent."""',
            "        self.other(command)",
            "",
        ]
        for name in VISITED:
            lines += [f"    def {snake(name)}(self, command: {name}) -> None:", "        self.other(command)", ""]
        return "\n".join(lines)

    def dispatcher(self, concrete: list[Structure]) -> str:
        """From type id to structure."""
        rest = [s for s in concrete if s.name not in HOT]
        table = "\n".join(f"    {s.constant}: {s.name}," for s in sorted(rest, key=lambda s: s.type_id))
        late = "\n".join(f"    {s.constant}: {s.since}," for s in concrete if s.since > 1)
        aware = [s.type_id for s in concrete if s.marshall_aware]
        messages = [s.type_id for s in concrete if s.marshall_aware and s.name != "WireFormatInfo"]
        if sorted(aware) != [1, *range(min(messages), max(messages) + 1)]:
            raise SystemExit("the marshall-aware types are no longer WireFormatInfo and one run of messages")
        hot = "\n".join(f"    if type_id == {s.constant}:\n        return {s.name}()" for s in self.hot())
        return DISPATCH.format(table=table, late=late, first=min(messages), last=max(messages), hot=hot)

    def hot(self) -> list[Structure]:
        """The structures of the message path, most frequent first."""
        return [self.structures[name] for name in HOT]


CHECK = '''
def {name}(value: DataStructure | None) -> {type} | None:
    """Refuses any other structure where the field table declares {type}."""
    if value is None or isinstance(value, {type}):
        return value
    raise wrong_structure("{type}", value)
'''

ARRAY_CHECK = '''
def {name}(values: list[DataStructure] | None) -> list[{type}] | None:
    """Refuses any other structure where the field table declares {type}."""
    if values is None:
        return None
    checked: list[{type}] = []
    for value in values:
        if not isinstance(value, {type}):
            raise wrong_structure("{type}", value)
        checked.append(value)
    return checked
'''

DISPATCH = '''
def wrong_structure(expected: str, value: DataStructure) -> OpenWireProtocolError:
    """The error for a structure where another is declared."""
    name = TYPE_NAMES.get(value.type_id(), "unknown")
    return OpenWireProtocolError(f"a structure of type {{name}} stands where {{expected}} is declared")


STRUCTURES: Final[dict[int, type[DataStructure]]] = {{
{table}
}}

# Types that came after version 1.
SINCE: Final[dict[int, int]] = {{
{late}
}}


def is_message(type_id: int) -> bool:
    """Whether the type is a message."""
    return {first} <= type_id <= {last}


def is_marshall_aware(type_id: int) -> bool:
    """Whether a nested structure of this type has one more flag, always 0, in the tight encoding."""
    return {first} <= type_id <= {last} or type_id == 1


def new_structure(type_id: int) -> DataStructure:
    """An empty structure of the type."""
{hot}
    made = STRUCTURES.get(type_id)
    if made is None:
        raise OpenWireProtocolError(f"there is no data structure of type {{type_id}}")
    return made()


def read_structure(type_id: int, r: FieldReader) -> DataStructure:
    """Take the fields of a structure whose type id was taken before."""
    structure = new_structure(type_id)
    if type_id in SINCE and SINCE[type_id] > r.version:
        name = TYPE_NAMES[type_id]
        raise OpenWireProtocolError(f"{{name}} does not exist in version {{r.version}} of the wire format")
    structure.read(r)
    return structure
'''


def main() -> int:
    """Write or check the module."""
    text = Generator(json.loads(TABLE.read_text(encoding="utf-8"))).module()
    if "--check" in sys.argv[1:]:
        if TARGET.read_text(encoding="utf-8") != text:
            print(f"{TARGET.name} is not what tools/openwire_commands.json gives: run tools/generate_openwire.py")
            return 1
        return 0
    TARGET.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
