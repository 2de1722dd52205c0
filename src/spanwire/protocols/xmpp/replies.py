"""Answers to stanzas: results, and errors with the conditions of RFC 6120, section 8.3."""

from __future__ import annotations

from typing import Final

from spanwire.model.errors import (
    AuthorizationError,
    DestinationDoesNotExistError,
    InvalidDestinationError,
    JmsError,
    MessageFormatError,
    ResourceAllocationError,
    SpanwireError,
)
from spanwire.protocols.xmpp.codec.elements import CLIENT, Element
from spanwire.protocols.xmpp.codec.errors import MAX_ERROR_TEXT, StanzaError

STANZA_ERRORS: Final = "urn:ietf:params:xml:ns:xmpp-stanzas"
UNANSWERED: Final = ("error", "result")  # types of stanzas that never get an error


def reply(stanza: Element, receiver: str, kind: str) -> Element:
    """Return an empty answer of type ``kind`` to ``stanza``."""
    attributes = {"type": kind}
    identity = stanza.attributes.get("id")
    if identity is not None:
        attributes["id"] = identity
    sender = stanza.attributes.get("to")
    if sender:
        attributes["from"] = sender
    attributes["to"] = receiver
    return Element(CLIENT, stanza.name, attributes)


def error_reply(stanza: Element, receiver: str, error: SpanwireError) -> Element:
    """Return the error in answer to ``stanza``."""
    kind, condition = condition_of(error)
    answer = reply(stanza, receiver, "error")
    inner = answer.add(Element(CLIENT, "error", {"type": kind}))
    inner.add(Element(STANZA_ERRORS, condition))
    inner.add(Element(STANZA_ERRORS, "text", {"xml:lang": "en"}, str(error)[:MAX_ERROR_TEXT]))
    return answer


def condition_of(error: SpanwireError) -> tuple[str, str]:
    """Return the possible reaction of a client to an error, and the name of the condition."""
    if isinstance(error, StanzaError):
        return error.kind, error.condition
    if isinstance(error, AuthorizationError):
        return "auth", "forbidden"
    if isinstance(error, InvalidDestinationError | DestinationDoesNotExistError):
        return "cancel", "item-not-found"
    if isinstance(error, MessageFormatError):
        return "modify", "bad-request"
    if isinstance(error, ResourceAllocationError):
        return "wait", "resource-constraint"
    return ("cancel", "not-acceptable") if isinstance(error, JmsError) else ("wait", "internal-server-error")
