"""Steps between source and target, each a change of one message."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from spanwire.bridges.model.message import BridgeMessage
from spanwire.model.errors import MessageFormatError
from spanwire.model.message_view import STRING_VALUE
from spanwire.routes.readers.bridge_parameters import ID_LIST

DUPLICATE_ID: Final = "_AMQ_DUPL_ID"  # property by which Spanwire and ActiveMQ Artemis detect duplicates
REPLY_CACHE_SIZE: Final = 10_000  # replyToDestinationCacheSize of ActiveMQ
ID_LISTS: Final = (ID_LIST, "AMQ_BRIDGE_MSG_ID_LIST", "HQ_BRIDGE_MSG_ID_LIST")  # of this bridge, Artemis and HornetQ


@dataclass(frozen=True, slots=True)
class AppendMessageId:
    """Appends the message id to the property ``name``, separated by commas.

    The list of an earlier bridge under the default, Artemis' or HornetQ's name is continued.
    """

    name: str = ID_LIST


@dataclass(frozen=True, slots=True)
class AddDuplicateId:
    """Names the message by bridge and message id in `DUPLICATE_ID`: the target takes the message once.

    A message with such a name, or without an id, stays as it is.
    """

    bridge: str


@dataclass(frozen=True, slots=True)
class DropTemporaryReplyTo:
    """Removes a temporary JMSReplyTo, because the destination exists at the source's broker alone."""


@dataclass(frozen=True, slots=True)
class ClearReplyTo:
    """Removes JMSReplyTo (``doHandleReplyTo="false"``)."""


@dataclass(frozen=True, slots=True)
class ProxyReplyTo:
    """Represents JMSReplyTo by a temporary queue of the target; replies return to the original.

    ``cache_size`` queues exist at a time. The link does it, because it needs both brokers.
    """

    cache_size: int = REPLY_CACHE_SIZE


@dataclass(frozen=True, slots=True)
class Convert:
    """Changes the message by the message convertor ``name``, a Python function of the operator.

    The link does it as the last step, so that the convertor sees the JMSReplyTo of the receiver.
    """

    name: str


Step = AppendMessageId | AddDuplicateId | DropTemporaryReplyTo | ClearReplyTo | ProxyReplyTo | Convert


class MessageAtFaultError(MessageFormatError):
    """The message ``index`` of a batch cannot pass the steps."""

    def __init__(self, index: int, reason: str) -> None:
        super().__init__(reason)
        self.index: Final[int] = index


def apply_steps(steps: tuple[Step, ...], messages: list[BridgeMessage]) -> None:
    """Apply all steps to a batch, one step after the other.

    Raises `MessageAtFaultError` for properties that cannot be decoded.
    """
    for step in steps:
        if isinstance(step, DropTemporaryReplyTo):
            drop_temporary_replies(messages)
        elif isinstance(step, ClearReplyTo):
            for message in messages:
                message.reply_to = None
        elif isinstance(step, (AppendMessageId, AddDuplicateId)):
            add_properties(step, messages)


def drop_temporary_replies(messages: list[BridgeMessage]) -> None:
    """Apply `DropTemporaryReplyTo`, the only step of most bridges."""
    for message in messages:
        reply_to = message.reply_to
        if reply_to is not None and reply_to.is_temporary:
            message.reply_to = None


def add_properties(step: AppendMessageId | AddDuplicateId, messages: list[BridgeMessage]) -> None:
    """Apply a step that adds a property. Raises `MessageAtFaultError`."""
    for index, message in enumerate(messages):
        try:
            if isinstance(step, AppendMessageId):
                append_message_id(message, step.name)
            else:
                add_duplicate_id(message, step.bridge)
        except MessageFormatError as error:
            raise MessageAtFaultError(index, str(error)) from None


def append_message_id(message: BridgeMessage, name: str = ID_LIST) -> None:
    """Append the id of a message to the message's list of ids, in the property ``name``."""
    properties = dict(message.property_values())
    earlier = next((value for one in (name, *ID_LISTS) if isinstance(value := _text(properties, one), str)), None)
    ids = message.message_id if earlier is None else f"{earlier},{message.message_id}"
    properties[name] = (STRING_VALUE, ids)
    message.properties = properties


def add_duplicate_id(message: BridgeMessage, bridge: str) -> None:
    """Add the duplicate id of a message of ``bridge``, unless the message has one."""
    properties = message.property_values()
    if message.message_id and DUPLICATE_ID not in properties:
        message.properties = {**properties, DUPLICATE_ID: (STRING_VALUE, f"{bridge}/{message.message_id}")}


def _text(properties: dict[str, tuple[int, object]], name: str) -> object:
    typed = properties.get(name)
    return None if typed is None else typed[1]
