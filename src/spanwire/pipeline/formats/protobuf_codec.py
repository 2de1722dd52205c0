"""Protobuf bodies as columns and back, with the package protobuf and a compiled file of descriptors.

    protoc --include_imports --descriptor_set_out=orders.desc orders.proto

Message types are made of the descriptors alone; no generated module is imported.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable
from typing import Any, Final

import pyarrow as pa
from google.protobuf import (
    any_pb2,
    api_pb2,
    descriptor_pb2,
    duration_pb2,
    empty_pb2,
    field_mask_pb2,
    message_factory,
    source_context_pb2,
    struct_pb2,
    timestamp_pb2,
    type_pb2,
    wrappers_pb2,
)
from google.protobuf.descriptor import Descriptor
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError, EncodeError

from spanwire.model.errors import MessageFormatError
from spanwire.pipeline.formats.plans import ProtobufPlan
from spanwire.pipeline.formats.protobuf_types import TypeBuilder, fault
from spanwire.pipeline.formats.schema_registry import PROTOBUF, SERIALIZED, RegisteredSchema, StoredSchema
from spanwire.pipeline.formats.wire_format import read_indexes, schema_header, split_header, write_indexes
from spanwire.pipeline.formats.writer_schemas import WriterSchemas

MAX_SHOWN: Final = 20  # names of messages in an error
MAX_REASON: Final = 200  # characters of an error of Protobuf
# Google's own files, for descriptors that were compiled without --include_imports.
WELL_KNOWN: Final[dict[str, bytes]] = {
    module.DESCRIPTOR.name: module.DESCRIPTOR.serialized_pb
    for module in (
        any_pb2, api_pb2, descriptor_pb2, duration_pb2, empty_pb2, field_mask_pb2, source_context_pb2, struct_pb2,
        timestamp_pb2, type_pb2, wrappers_pb2,
    )
}  # fmt: skip


class ProtobufCodec:
    """Decodes and encodes messages of one type."""

    def __init__(self, plan: ProtobufPlan) -> None:
        """Raises `ConfigurationError` for a message outside the descriptors or without a Spark type."""
        descriptor = find_message(plan.descriptors, plan.message)
        self._name: Final[str] = descriptor.full_name
        self._class: Final[Any] = message_factory.GetMessageClass(descriptor)
        self._type: Final = TypeBuilder().message(descriptor)
        self.arrow: pa.DataType = self._type.arrow
        self.body: pa.DataType = pa.binary()
        self._header: Final = framing_of(plan.registered, descriptor)
        self._writers: Final = (
            None
            if plan.registered is None
            else WriterSchemas(plan.registered.registry.schema, PROTOBUF, parse_file, SERIALIZED)
        )

    def decode(self, body: bytes | str) -> object:
        """Return the value of a body. Raises `MessageFormatError` for an invalid body."""
        if isinstance(body, str):
            raise MessageFormatError("expected a bytes body, got text")
        if self._writers is not None:
            number, offset = split_header(body)
            indexes, offset = read_indexes(body, offset)
            name = message_name(self._writers.get(number), indexes)
            if name != self._name:
                raise MessageFormatError(f"the body is a message {name[:100]}, not {self._name}")
            body = body[offset:]
        try:
            message = self._class.FromString(body)
        except DecodeError:
            raise MessageFormatError(f"the body is not a message {self._name}") from None
        return self._type.read(message)

    def encode(self, value: object) -> bytes:
        """Return the body of a value. Raises `MessageFormatError` if the message does not allow the value."""
        message = self._class()
        self._type.fill(message, value)
        try:
            octets: bytes = message.SerializeToString(deterministic=True)
        except EncodeError as error:  # a required field of proto2
            raise MessageFormatError(str(error)[:MAX_REASON]) from None
        return self._header + octets


def find_message(descriptors: bytes, name: str) -> Descriptor:
    """Return a message type of a set of descriptors.

    Raises:
        ConfigurationError: the octets are not descriptors, or have no message type with the name.
    """
    try:
        files = descriptor_pb2.FileDescriptorSet.FromString(descriptors).file
    except DecodeError:
        raise fault(
            "the octets are not a file of descriptors; make such a file with protoc --descriptor_set_out"
        ) from None
    pool = DescriptorPool()
    known = {file.name for file in files}
    try:
        add_well_known(pool, files, known)
        for file in files:
            pool.AddSerializedFile(file.SerializeToString())
        found: Descriptor = pool.FindMessageTypeByName(name)
    except KeyError:
        names = sorted(one for file in files for one in message_names(file))
        raise fault(f"there is no message {name[:100]}; there are {', '.join(names[:MAX_SHOWN])}") from None
    except TypeError as error:
        raise fault(f"the file of descriptors is not complete ({str(error)[:150]}); add --include_imports") from None
    return found


def add_well_known(pool: DescriptorPool, files: Iterable[Any], known: set[str]) -> None:
    """Add Google's well-known files for imports without a descriptor."""
    missing = [name for file in files for name in file.dependency if name not in known and name in WELL_KNOWN]
    for name in missing:
        if name in known:
            continue
        known.add(name)
        file = descriptor_pb2.FileDescriptorProto.FromString(WELL_KNOWN[name])
        add_well_known(pool, [file], known)
        pool.AddSerializedFile(WELL_KNOWN[name])


def message_names(file: Any) -> list[str]:
    """Return the full names of the top-level message types."""
    return [f"{file.package}.{message.name}" if file.package else message.name for message in file.message_type]


def framing_of(registered: RegisteredSchema | None, descriptor: Descriptor) -> bytes:
    """Return the header of framed bodies, or no octets for unframed bodies."""
    if registered is None:
        return b""
    if registered.stored.kind != PROTOBUF:
        raise fault(f"schema {registered.id} of the registry is {registered.stored.kind}")
    return schema_header(registered.id) + write_indexes(indexes_of(descriptor))


def indexes_of(descriptor: Descriptor) -> list[int]:
    """Return the path to a message type in the file, as message indexes."""
    if descriptor.containing_type is None:
        return [[message.name for message in _top_level(descriptor)].index(descriptor.name)]
    outer = descriptor.containing_type
    place = [inner.full_name for inner in outer.nested_types].index(descriptor.full_name)
    return [*indexes_of(outer), place]


def _top_level(descriptor: Descriptor) -> Iterable[Any]:
    file = descriptor_pb2.FileDescriptorProto.FromString(descriptor.file.serialized_pb)
    return list(file.message_type)


def parse_file(stored: StoredSchema) -> Any:
    """Return the file of a writer's schema.

    Raises:
        MessageFormatError: the registry has not sent a descriptor.
    """
    try:
        return descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(stored.text, validate=True))
    except (DecodeError, binascii.Error, ValueError):
        raise MessageFormatError(
            f"the registry does not send schema {stored.number} as a descriptor (format={SERIALIZED})"
        ) from None


def message_name(file: Any, indexes: tuple[int, ...]) -> str:
    """Return the full name of the message type at a path.

    Raises:
        MessageFormatError: the file has no message type at the path.
    """
    messages, names = file.message_type, [file.package] if file.package else []
    for index in indexes:
        if index >= len(messages):
            raise MessageFormatError(f"the schema has no message at {list(indexes)}")
        names.append(messages[index].name)
        messages = messages[index].nested_type
    return ".".join(names)


def file_text(plan: ProtobufPlan) -> str:
    """Return the descriptor file of a plan's message in base64, the form for registries."""
    descriptor = find_message(plan.descriptors, plan.message)
    return base64.b64encode(descriptor.file.serialized_pb).decode()
