"""Picklable descriptions of codecs: a schema, and the registry of framed bodies."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from spanwire.model.errors import ConfigurationError
from spanwire.model.units import MIB
from spanwire.pipeline.formats.schema_registry import RegisteredSchema

MAX_DESCRIPTOR_BYTES: Final = 16 * MIB  # all of Google's public interfaces together have less


@dataclass(frozen=True, slots=True)
class AvroPlan:
    """The reader's schema. Bodies of a registered schema are framed."""

    schema: str | RegisteredSchema


@dataclass(frozen=True, slots=True)
class JsonPlan:
    """The schema. Bodies of a registered schema are framed octets, others are texts."""

    schema: str | RegisteredSchema


@dataclass(frozen=True, slots=True)
class ProtobufPlan:
    """A message type of a file of descriptors. Bodies with a registered schema are framed."""

    descriptors: bytes
    message: str
    registered: RegisteredSchema | None = None


Plan = AvroPlan | JsonPlan | ProtobufPlan


def read_descriptors(path: str | Path) -> bytes:
    """Return the octets of a file of descriptors.

    Raises:
        ConfigurationError: the file cannot be read, or is too large.
    """
    try:
        with Path(path).open("rb") as file:
            octets = file.read(MAX_DESCRIPTOR_BYTES + 1)
    except OSError as error:
        raise ConfigurationError(f"spanwire: the descriptors {path} cannot be read: {error.strerror}") from None
    if len(octets) > MAX_DESCRIPTOR_BYTES:
        raise ConfigurationError(f"spanwire: the descriptors {path} have more than {MAX_DESCRIPTOR_BYTES} octets")
    return octets
