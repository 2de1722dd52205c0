"""Types of message content and acknowledgement modes, so that type checkers find mistakes of a send."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal, TypeAlias

from spanwire.client.messages.typed_values import EncodedText, Serialized, Typed

if TYPE_CHECKING:
    from spanwire.client.messages.message import Message

AcknowledgeMode: TypeAlias = Literal["auto", "client", "dups_ok", "individual", "transacted", "xa"]
Property: TypeAlias = bool | int | float | str | Typed | None
Properties: TypeAlias = Mapping[str, Property]
BodyValue: TypeAlias = (
    "bool | int | float | str | bytes | bytearray | memoryview | Typed | Mapping[str, BodyValue] | Sequence[BodyValue] "
    "| None"
)
Body: TypeAlias = (
    "str | bytes | bytearray | memoryview | Mapping[str, BodyValue] | Sequence[BodyValue] | Serialized | EncodedText "
    "| Message | None"
)
__all__ = ["AcknowledgeMode", "Body", "BodyValue", "EncodedText", "Properties", "Property", "Serialized"]
